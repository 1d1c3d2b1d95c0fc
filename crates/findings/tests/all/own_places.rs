//! From where in the program threads wait, where a package lies between.

use holdup_findings::derive::own_places;
use holdup_testkit::check::trace_of_lanes;

/// The first reported place of A's waits with this stack. Functions named `pool_…` belong to a package.
fn reported_place(stack: &str) -> String {
    let picture = format!("@cpus 2\n@j barrier\n@repeat 20\n@stack j {stack}\nA  0jjj\n");
    let (_, mut trace) = trace_of_lanes(&picture);
    for frame in trace.frames.iter_mut().filter(|frame| frame.function.starts_with("pool_")) {
        frame.file = "/home/me/.cargo/registry/src/index-1/pool-1.2.0/src/lib.rs".to_owned();
    }
    own_places::waits(&trace, |slice| slice.duration().0 > 0)
        .first()
        .map_or_else(String::new, |one| one.0.clone())
}

#[test]
fn a_wait_inside_a_package_is_attributed_to_its_caller() {
    assert_eq!(reported_place("main;solve;pool_install;pool_wait"), "solve");
}

/// A thread of the package's own has nothing else.
#[test]
fn where_there_is_nothing_else_the_package_is_named() {
    assert_eq!(reported_place("pool_main;pool_wait"), "pool_wait");
}

/// Waits of Go's runtime on behalf of tasks do not have the tasks' stacks.
#[test]
fn what_gos_runtime_waits_for_comes_from_nowhere() {
    let poll = "runtime.findRunnable;runtime.netpoll;internal/runtime/syscall.Syscall6";
    assert_eq!(reported_place(&format!("runtime.mstart;runtime.schedule;{poll}")), "");
    assert_eq!(reported_place(&format!("runtime.goexit;main.look;{poll}")), "main.look");
}
