//! Pools whose workers wait for tasks that only they could do.

use holdup_events::tables::Mapping;
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::trace_of_lanes;

/// Two workers of a JVM's pool: `j` is a wait for a task's result with a time-out, `i` one without a task.
fn pool(rows: &str) -> Analysis {
    let park = "Unsafe_Park;Parker::park";
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@repeat 30\n@i park\n@j park\n@timeout j 5\n@d disk 0\n@m park\n\
         @stack j ThreadPoolExecutor.runWorker;Report.build;java.util.concurrent.FutureTask.awaitDone;{park}\n\
         @stack i ThreadPoolExecutor.runWorker;java.util.concurrent.ThreadPoolExecutor.getTask;{park}\n\
         @stack m Main.main;java.util.concurrent.FutureTask.awaitDone;{park}\n@stack d Store.read\n{rows}"
    ));
    let process = trace.threads[0].process;
    let (path, start, end) = ("/jvm/libjvm.so".into(), 0x1000, 0x2000);
    trace.mappings.push(Mapping { process, path, start, end, ..Mapping::default() });
    analyse(&trace)
}

fn gain(analysis: &Analysis) -> Option<(f64, f64)> {
    let found = analysis.findings.iter().find(|finding| finding.rule == "pool-starved")?;
    assert!(found.summary[0].contains("nobody was left"), "{found:?}");
    Some((found.gain.low, found.gain.high))
}

#[test]
fn workers_who_all_wait_for_a_task_until_their_time_is_up_starve_the_pool() {
    let analysis = pool(
        "main  0mmmmmmmmm\n\
         pool-1  i0jjjjj000  holds m 9..10\n\
         pool-2  i1jjjjj111\n",
    );
    let (low, high) = gain(&analysis).unwrap_or_else(|| panic!("{:#?}", analysis.findings));
    assert!((0.49..0.51).contains(&high) && (0.4..high).contains(&low), "{low} {high}");
    let root = analysis.findings.iter().position(|finding| finding.rule == "pool-starved");
    let told = |symptom: &&holdup_findings::merging::Symptom| Some(symptom.root) == root;
    assert!(analysis.symptoms.iter().any(|symptom| told(&symptom)), "{:#?}", analysis.findings);
}

#[test]
fn a_pool_is_not_starved_while_somebody_does_what_its_workers_wait_for() {
    // Another thread works.
    let works = pool(
        "main  0r11111mmm\n\
         pool-1  i0jjjjj000  holds m 9..10\n\
         pool-2  i1jjjjj111\n",
    );
    // Another is at the disk.
    let reads = pool(
        "main  0mmmmmmmmm\n\
         store  rrdddddddd\n\
         pool-1  i0jjjjj000  holds m 9..10\n\
         pool-2  i1jjjjj111\n",
    );
    // A worker has no task, and could have taken that one.
    let idle = pool(
        "main  0mmmmmmmmm\n\
         pool-1  i0jjjjj000  holds m 9..10\n\
         pool-2  iiiiiiii11\n",
    );
    for analysis in [works, reads, idle] {
        assert_eq!(gain(&analysis), None, "{:#?}", analysis.findings);
    }
}
