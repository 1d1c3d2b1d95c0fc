//! Pools whose workers wait for tasks that only they could do.

use holdup_events::tables::Mapping;
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::trace_of_lanes;

/// Two workers that wait in a task until their timeout.
const WORKERS: &str = "pool-1  i0jjjjj000  holds m 9..10\npool-2  i1jjjjj111\n";

/// A JVM among other processes. `j` is a wait for a task's result with a timeout, `i` one of a pool's idle
/// worker.
fn pool(rows: &str) -> Analysis {
    let park = "Unsafe_Park;Parker::park";
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@repeat 30\n@i park\n@j park\n@timeout j 5\n@d disk 0\n@m park\n@e multiplex 232\n@w child\n\
         @stack j ThreadPoolExecutor.runWorker;Report.build;java.util.concurrent.FutureTask.awaitDone;{park}\n\
         @stack i ThreadPoolExecutor.runWorker;java.util.concurrent.ThreadPoolExecutor.getTask;{park}\n\
         @stack m Main.main;java.util.concurrent.FutureTask.awaitDone;{park}\n@stack d Store.read\n{rows}"
    ));
    let worker = trace.threads.iter().find(|thread| thread.name == "pool-1").unwrap();
    let (process, path, start, end) = (worker.process, "/jvm/libjvm.so".into(), 0x1000, 0x2000);
    trace.mappings.push(Mapping { process, path, start, end, ..Mapping::default() });
    analyse(&trace)
}

fn gain(analysis: &Analysis) -> Option<(f64, f64)> {
    let found = analysis.findings.iter().find(|finding| finding.rule == "pool-starved")?;
    assert!(found.summary[0].contains("No worker was free to run those tasks"), "{found:?}");
    Some((found.gain.low, found.gain.high))
}

#[test]
fn workers_that_all_time_out_on_a_task_starve_the_pool() {
    let analysis = pool(&format!("main  0mmmmmmmmm\n{WORKERS}"));
    let (low, high) = gain(&analysis).unwrap_or_else(|| panic!("{:#?}", analysis.findings));
    assert!((0.49..0.51).contains(&high) && (0.4..high).contains(&low), "{low} {high}");
    let root = analysis.findings.iter().position(|finding| finding.rule == "pool-starved");
    let told = |symptom: &&holdup_findings::merging::Symptom| Some(symptom.root) == root;
    assert!(analysis.symptoms.iter().any(|symptom| told(&symptom)), "{:#?}", analysis.findings);
}

/// A script that waits for the program's end does nothing for its tasks.
#[test]
fn another_process_that_waits_keeps_no_pool_from_starving() {
    let analysis = pool(&format!("@child script\nmain  0mmmmmmmmm\nscript  1wwwwwwwww\n{WORKERS}"));
    assert!(gain(&analysis).is_some_and(|(_, high)| high > 0.49), "{:#?}", analysis.findings);
}

#[test]
fn a_pool_is_not_starved_while_the_awaited_task_runs() {
    let beside = |row: &str| pool(&format!("{row}\n{WORKERS}"));
    let works = beside("main  0r11111mmm");
    let reads = beside("main  0mmmmmmmmm\nstore  1ddddddddd");
    let has_the_answers = beside("main  0mmmmmmmmm\nselector  1eeeeeeeee");
    let one_is_idle = pool("main  0mmmmmmmmm\npool-1  i0jjjjj000  holds m 9..10\npool-2  iiiiiiii11\n");
    for analysis in [works, reads, has_the_answers, one_is_idle] {
        assert_eq!(gain(&analysis), None, "{:#?}", analysis.findings);
    }
}
