//! The function that most of the work is done in.

use holdup_findings::analyse;
use holdup_findings::derive::busiest::Busiest;
use holdup_testkit::check::trace_of_lanes;

fn busiest(samples: &str) -> Option<Busiest> {
    let (_, mut trace) = trace_of_lanes(&format!("@tick 1000000\n{samples}A  {}\n", "0".repeat(100)));
    for frame in trace.frames.iter_mut().filter(|frame| frame.function == "memcpy") {
        frame.module = "/usr/lib/libc.so.6".into();
        frame.file = "libc.so.6".into();
    }
    analyse(&trace).derived.busiest
}

#[test]
fn it_is_the_farthest_from_the_roots_that_holds_half_of_it() {
    let found = busiest(
        "@samples A 0..30 user main;merge;contains;equals\n@samples A 30..80 user main;merge;contains\n\
         @samples A 80..100 user main;read\n",
    )
    .unwrap();
    assert_eq!(found.function, "contains", "in merge is as much, in equals too little");
    assert!((found.share - 0.8).abs() < 0.001 && (0.07..0.12).contains(&found.error), "{found:?}");
    assert_eq!(found.called_for, None, "contains is the program's own");
}

#[test]
fn the_caller_of_a_library_function_is_named() {
    let found = busiest("@samples A 0..90 user main;merge;memcpy\n@samples A 90..100 user main\n");
    let Some(Busiest { function, called_for: Some((caller, part)), .. }) = found else { panic!("{found:?}") };
    assert_eq!((function.as_str(), caller.as_str()), ("memcpy", "merge"));
    assert!((part - 1.0).abs() < 0.001);
}

#[test]
fn what_it_mostly_calls_is_named_though_that_is_less_than_half_of_the_whole() {
    let found = busiest(
        "@samples A 0..35 user main;consume;open;build\n@samples A 35..40 user main;consume;open\n\
         @samples A 40..55 user main;consume;parse\n@samples A 55..100 user compile\n",
    );
    let Some(Busiest { function, mostly_in: Some((callee, part)), .. }) = found else { panic!("{found:?}") };
    assert_eq!((function.as_str(), callee.as_str()), ("consume", "build"));
    assert!((part - 35.0 / 55.0).abs() < 0.001, "{part}");
}

#[test]
fn where_work_is_of_many_kinds_there_is_none() {
    let thirds = "@samples A 0..33 user parse\n@samples A 33..66 user sort\n@samples A 66..100 user write\n";
    assert_eq!(busiest(thirds), None);
    assert_eq!(busiest("@samples A 0..20 user main;merge\n"), None, "few samples may be chance");
    assert_eq!(busiest("@samples A 0..100 0 main;read\n"), None, "the kernel's work is told elsewhere");
}

#[test]
fn a_languages_own_library_works_for_the_program() {
    let found = busiest(
        "@samples A 0..90 user runtime.goexit.abi0;main.sign;crypto/rsa.Sign;math/big.nat.expNN\n\
         @samples A 90..100 user runtime.goexit.abi0;main.read\n",
    );
    let Some(Busiest { function, called_for: Some((caller, _)), .. }) = found else { panic!("{found:?}") };
    assert_eq!((function.as_str(), caller.as_str()), ("math/big.nat.expNN", "main.sign"));
}

#[test]
fn an_interpreter_loop_is_not_named() {
    let whole = "_PyEval_EvalFrameDefault;do_call_core";
    assert_eq!(busiest(&format!("@samples A 0..100 user {whole}\n")), None);
    let found = busiest(&format!("@samples A 0..100 user {whole};batch_list_exact\n")).unwrap();
    assert_eq!(found.function, "batch_list_exact");
}

#[test]
fn a_runtimes_entry_is_replaced_by_its_dominant_callee() {
    let of_many = "@samples A 0..30 user main;PostgresMain;PortalRun\n@samples A 30..70 user main;PostgresMain;CommitTransactionCommand\n\
                   @samples A 70..100 user main;PostgresMain;pg_plan_queries\n";
    assert_eq!(busiest(of_many), None);
    let scan = "@samples A 0..40 user main;PostgresMain;PortalRun;ExecScan\n@samples A 40..60 user main;PostgresMain;PortalRun\n\
                @samples A 60..100 user main;PostgresMain\n";
    assert_eq!(busiest(scan).unwrap().function, "PortalRun");
    let itself = busiest("@samples A 0..100 user main;PostgresMain\n").unwrap();
    assert_eq!(itself.function, "PostgresMain", "who works in its own code does that");
}

#[test]
fn a_library_without_symbols_is_named_by_its_file() {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@tick 1000000\n@samples A 0..90 user xz+0x10;lib+0x20\n@samples A 90..100 user xz+0x10\nA  {}\n",
        "0".repeat(100)
    ));
    let found = |trace: &_| analyse(trace).derived.busiest.map(|busiest| busiest.function);
    assert_eq!(found(&trace), None, "in its own file its own name says as much");
    for frame in trace.frames.iter_mut().filter(|frame| frame.function == "lib+0x20") {
        frame.module = "/usr/lib/liblzma.so.5".into();
        frame.file = String::new();
    }
    assert_eq!(found(&trace).as_deref(), Some("liblzma.so.5"));
}

/// A works for `work` of ten ticks, and sleeps. B runs all the time or not at all.
fn computes(work: usize, beside: &str) -> Option<f64> {
    let (work, rest) = ("0".repeat(work), "s".repeat(10 - work));
    let picture =
        format!("@cpus 2\n@s sleep\n@repeat 20\n@samples A 0..10 user main;merge\nA  {work}{rest}\n{beside}");
    let (_, trace) = trace_of_lanes(&picture);
    analyse(&trace).computes(&trace).map(|computes| computes.share)
}

#[test]
fn a_program_computes_where_the_cpus_do_hardly_anything_else() {
    let other = "@samples B 0..10 user main;merge\nB  1111111111\n";
    assert!(computes(10, other).is_some_and(|share| share > 0.95));
    assert!(computes(5, other).is_some(), "a CPU is idle for half of the time, and nothing was found");
    assert_eq!(computes(1, other), None, "it is idle for most of it");
    assert_eq!(computes(10, ""), None, "one of two CPUs is not used");
    assert!(computes(10, "~other  1111111111\n").is_some(), "what others use is not its own to use");
    let busy = "~other  1111111111\n~third  .000000000\n";
    assert_eq!(computes(1, busy), None, "it sleeps while others have all the CPUs");
}

/// The known work of a thread with such samples.
fn known(samples: &str) -> Option<(String, f64)> {
    let (_, trace) = trace_of_lanes(&format!("@tick 1000000\n{samples}A  {}\n", "0".repeat(100)));
    analyse(&trace).derived.known_work.map(|known| (known.what, known.share))
}

#[test]
fn work_known_to_a_descriptor_is_described() {
    let scans = "PostgresMain;PortalRun;ExecScan;heap_getnextslot";
    let (what, share) = known(&format!(
        "@samples A 0..60 user {scans};heapgetpage\n@samples A 60..100 user PostgresMain;int4eq\n"
    ))
    .unwrap();
    assert!(what.contains("sequential scans") && (share - 0.6).abs() < 0.001, "{what} {share}");
    // A third of it is little, and a look-up of one row by its primary key does something else for most of it.
    assert_eq!(
        known(&format!("@samples A 0..30 user {scans}\n@samples A 30..100 user PostgresMain;int4eq\n")),
        None
    );
    let rows = "PostgresMain;PortalRun;ExecScan;index_getnext_slot";
    let (what, _) = known(&format!("@samples A 0..100 user {rows};index_fetch_heap\n")).unwrap();
    assert!(what.contains("follows index entries"), "{what}");
    let lookups = format!("@samples A 0..30 user {rows}\n@samples A 30..100 user PostgresMain;int4eq\n");
    assert_eq!(known(&lookups), None);
    assert_eq!(known(&format!("@samples A 0..40 user {scans}\n")), None, "few samples may be chance");
    // A function of such a name in a program that is not PostgreSQL is that program's own.
    assert_eq!(known("@samples A 0..100 user main;ExecScan;heap_getnextslot\n"), None);
}

#[test]
fn where_work_has_the_cpus_less_of_it_is_advised_before_fewer_threads() {
    let samples: String = ["A", "B", "C"]
        .map(|thread| {
            format!("@samples {thread} 0..300 user main;serve;java.util.regex.Pattern$Curly.match\n")
        })
        .concat();
    let analyse = |repeat: usize, lanes: &str| {
        let (_, trace) =
            trace_of_lanes(&format!("@cpus 2\n@repeat {repeat}\n@tick 1000000\n{samples}{lanes}"));
        let analysis = analyse(&trace);
        let computes = analysis.computes(&trace);
        (analysis, computes)
    };
    // Threads that only compute: a note, and no finding.
    let (analysis, computes) = analyse(50, "A  000rrr\nB  rrr000\nC  111111\n");
    assert!(
        analysis.findings.iter().all(|finding| finding.rule != "oversubscription"),
        "{:#?}",
        analysis.findings
    );
    let note = "On average 3.0 threads were runnable on 2 CPUs. Fewer threads would have the same work.";
    assert_eq!(computes.expect("compute-bound").summary.last().map(String::as_str), Some(note));
    // The same with waits for a lock.
    let (analysis, _) = analyse(
        15,
        "A  000rrr000rrr000mmr00\nB  rrr000rrr000rrr000rr\nC  11111111111111111111  holds m 15..17\n",
    );
    let finding = analysis.findings.iter().find(|finding| finding.rule == "oversubscription").expect("it");
    assert!(
        finding.summary.iter().any(|line| line.ends_with("regular expressions are matched.")),
        "{finding:#?}"
    );
    assert!(finding.advice[0].contains("Pattern.compile"), "{finding:#?}");
    assert!(finding.advice.last().is_some_and(|last| last.starts_with("Use 2 threads")), "{finding:#?}");
}

/// Half of the rest is spent in the kernel. Many queued threads are a hint.
#[test]
fn kernel_time_of_computing_threads_is_included() {
    let computes = |kernel: usize| {
        let samples: String = ["A", "B", "C"]
            .map(|thread| {
                let from = 600 - kernel;
                format!(
                    "@samples {thread} 0..{from} user main;work\n@samples {thread} {from}..600 9 main;work\n"
                )
            })
            .concat();
        let lanes =
            format!("A  {}\nB  {}\nC  {}\n", "000rrr".repeat(100), "rrr000".repeat(100), "1".repeat(600));
        let (_, trace) = trace_of_lanes(&format!("@cpus 2\n@tick 1000000\n{samples}{lanes}"));
        analyse(&trace).computes(&trace).is_some()
    };
    assert!(computes(0) && computes(200));
    assert!(!computes(300), "half of it is the kernel's");
}
