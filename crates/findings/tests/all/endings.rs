//! Forecasts, on pictures, of programs whose threads run until they are stopped, and of the times at which
//! threads are started.

use holdup_events::{ThreadId, Timestamp, Trace};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::replay::{Change, Facts, Forecast, Replays, forecast};
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::{assemble, drawing, lanes};

/// The forecast for a picture without its most contended lock.
struct Answer {
    /// Numbers of threads that run until they are stopped, and of those that run until a timer expires.
    told: (usize, usize),
    forecast: Forecast,
}

fn without_lock(picture: &str) -> Answer {
    let drawing = drawing::draw(&lanes::parse(picture));
    answer(&assemble(drawing.events, drawing.manifest))
}

fn answer(trace: &Trace) -> Answer {
    let (timelines, roles) = (Timelines::derive(trace), Roles::built_in(trace));
    let locks = LockIndex::new(trace, &roles);
    let facts = Facts { trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 3 };
    let unchanged = Replays::new(facts);
    let off = unchanged.wall_ns() as f64 / trace.wall().0 as f64 - 1.0;
    assert!(off.abs() <= 0.01, "the replay with nothing changed is off by {off}");
    Answer {
        told: unchanged.endings().count(),
        forecast: forecast(facts, &[Change::WithoutLock(0)], &unchanged),
    }
}

/// A cleaner that holds the lock most of the time, and a forwarder with packets to forward. The thread that
/// started both waits for the forwarder's exit, then for the cleaner's. Their functions are parameters.
fn cleaner_and_forwarder(cleans: &str, forwards: &str) -> String {
    format!(
        "@cpus 3\n\
         main       2{}2k2\n\
         forwarder  .{}0...\n\
         cleaner    .1sss111111{}ss1.\n\
         @j join\n@k join\n@s sleep\n\
         @samples forwarder 0..320 user start;{forwards}\n\
         @samples cleaner 0..320 user start;{cleans}\n",
        "j".repeat(301),
        "0000mmmmmm".repeat(30),
        "ssss111111".repeat(29),
    )
}

#[test]
fn a_cleaner_that_runs_until_stopped_does_not_delay_the_end() {
    let answer = without_lock(&cleaner_and_forwarder("clean", "forward"));
    assert_eq!(answer.told, (1, 0));
    // The forwarder runs for 121 ms.
    let ms = answer.forecast.wall_ns as f64 / 1e6;
    assert!((118.0..=132.0).contains(&ms), "{ms} ms");
}

/// A runtime waits for its threads' exits in its own way, which its functions show.
#[test]
fn threads_of_a_runtime_get_stop_requests_too() {
    let by_kernel = cleaner_and_forwarder("clean", "forward");
    let by = |function: &str| {
        let stack = format!("Py_RunMain;_PyEval_EvalFrameDefault;{function};lock_acquire");
        let park = format!("@j park\n@k park\n@stack j {stack}\n@stack k {stack}\n");
        let ends = by_kernel
            .replace("0...\n", "0...  holds j 301..302\n")
            .replace("ss1.\n", "ss1.  holds k 303..304\n");
        answer(&trace_of_lanes(&ends.replace("@j join\n@k join\n", &park)).1)
    };
    assert_eq!(by("threading.Thread.join").told, (1, 0));
    assert_eq!(by("main.look").told, (0, 0), "nothing says that it waits for their ends");
}

#[test]
fn a_thread_with_the_same_work_as_the_awaited_one_has_to_finish_it() {
    let answer = without_lock(&cleaner_and_forwarder("work", "work"));
    assert_eq!(answer.told, (0, 0));
    assert!(answer.forecast.wall_ns > 290_000_000, "{} ns", answer.forecast.wall_ns);
    // Nor is it known for threads without samples.
    let unseen = cleaner_and_forwarder("clean", "forward").replace("@samples cleaner", "# ");
    assert_eq!(without_lock(&unseen).told, (0, 0));
}

#[test]
fn a_thread_with_input_from_another_has_to_finish_its_work() {
    // The cleaner sleeps until the forwarder has something for it.
    let fed = cleaner_and_forwarder("clean", "forward").replace("@s sleep", "@s park");
    assert_eq!(without_lock(&fed).told, (0, 0));
}

#[test]
fn disk_completions_create_no_dependency_on_the_interrupted_thread() {
    let answered = |wait: &str| {
        let picture = cleaner_and_forwarder("clean", "forward").replace("@s sleep", wait);
        without_lock(&picture.replace("0...\n", "0...  holds s 0..320\n")).told
    };
    assert_eq!(answered("@s disk"), (1, 0));
    assert_eq!(answered("@s park"), (0, 0));
}

/// Two threads that queue for a lock. Their starter sleeps for `sleeps` ms, and waits for their exits, which
/// come after 240.
fn contenders(sleeps: usize) -> String {
    format!(
        "@cpus 3\n\
         main  2{}2{}222\n\
         A     .{}00...\n\
         B     .1mmm1111{}mm1..\n\
         @k join\n@s sleep\n",
        "s".repeat(sleeps),
        "k".repeat(241 - sleeps),
        "0000mmmm".repeat(30),
        "mmmm1111".repeat(29),
    )
}

#[test]
fn until_a_timer_ends_the_gain_is_work_per_second() {
    let answer = without_lock(&contenders(238));
    assert_eq!(answer.told, (0, 2));
    // Either runs for half of the time.
    let share = answer.forecast.wall_ns as f64 / answer.forecast.recorded_ns as f64;
    assert!((0.48..=0.54).contains(&share), "{share}");
}

#[test]
fn a_sleep_after_which_the_work_goes_on_does_not_end_it() {
    let answer = without_lock(&contenders(160));
    assert_eq!(answer.told, (0, 0));
    // The sleep is over before the work would be.
    let ms = answer.forecast.wall_ns as f64 / 1e6;
    assert!((158.0..=172.0).contains(&ms), "{ms} ms");
}

#[test]
fn a_thread_that_exited_before_the_join_had_to_finish_its_work() {
    let early = format!(
        "@cpus 3\n\
         main  2{}2kkk22\n\
         A     .{}0000.........\n\
         B     .1mmm1111{}111..\n\
         @k join\n@s sleep\n",
        "s".repeat(239),
        "0000mmmm".repeat(29),
        "mmmm1111".repeat(29),
    );
    let answer = without_lock(&early);
    assert_eq!(answer.told, (0, 0));
    assert!(answer.forecast.wall_ns > 225_000_000, "{} ns", answer.forecast.wall_ns);
}

#[test]
fn a_thread_created_just_before_its_creator_waits_is_created_first() {
    let picture = "@cpus 2\n@w park\nmaker  0wwww0\nmade   .1111.  holds w 1..5\n";
    let drawing = drawing::draw(&lanes::parse(picture));
    let mut trace = assemble(drawing.events, drawing.manifest);
    // The kernel's moment of the maker's wait lies before that at which the tracepoint of its last act was passed.
    trace.threads[1].parent = Some(ThreadId(0));
    trace.threads[1].start = Timestamp(trace.threads[1].start.0 + 20_000);
    let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
    let locks = LockIndex::new(&trace, &roles);
    let facts = Facts { trace: &trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 2 };
    let forecast = forecast(facts, &[Change::NoPreempt], &Replays::new(facts));
    assert_eq!(forecast.forced, 0);
    assert!((forecast.unchanged - 1.0).abs() < 0.01, "{forecast:?}");
}

/// Length (ticks) of a run without its sleeps: with locks in the recorded order, and in order of arrival.
fn sleepless(picture: &str) -> [f64; 2] {
    without(picture, &[Class::Sleep])
}

/// The same without waits of these classes.
fn without(picture: &str, classes: &[Class]) -> [f64; 2] {
    let lanes = lanes::parse(picture);
    let drawing = drawing::draw(&lanes);
    let trace = assemble(drawing.events, drawing.manifest);
    let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
    let locks = LockIndex::new(&trace, &roles);
    let facts =
        Facts { trace: &trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: lanes.cpus };
    let unchanged = Replays::new(facts);
    let changes: Vec<Change> = classes.iter().map(|class| Change::WithoutClass(*class)).collect();
    forecast(facts, &changes, &unchanged).by_grants.map(|ns| ns / 1e6)
}

/// B gets a lock from A, and gives it to A 19 ticks later. In order of arrival.
fn without_sleeps(reason: &str) -> f64 {
    let picture = format!(
        "@cpus 2\n@m {reason}\n@s sleep\nA  000{}00m{}  holds m 0..2\nB  1m{}  holds m 20..21\n",
        "s".repeat(15),
        "0".repeat(20),
        "1".repeat(25),
    );
    sleepless(&picture)[1]
}

#[test]
fn a_lock_of_the_kernel_is_not_held_while_a_thread_goes_on() {
    // A has 26 ticks of its own.
    let brief = without_sleeps("mmap-lock");
    assert!((25.0..=28.0).contains(&brief), "{brief}");
    // A program's may be: then A waits as long as B had it.
    let held = without_sleeps("lock");
    assert!((40.0..=42.0).contains(&held), "{held}");
}

#[test]
fn short_kernel_lock_waits_impose_no_order() {
    // A has 30 ticks of its own, and B 22, of which one is spent behind A when that is at its 18th.
    let picture = |reason: &str| {
        let (sleep, runs) = ("s".repeat(15), "1".repeat(20));
        format!(
            "@cpus 2\n@m {reason}\n@s sleep\nA  {}  holds m 17..18\nB  1{sleep}1m{runs}\n",
            "0".repeat(30)
        )
    };
    let [recorded, _] = sleepless(&picture("mmap-lock"));
    assert!((29.0..=31.0).contains(&recorded), "{recorded}");
    // A lock of the program itself is taken in the recorded order.
    let [recorded, _] = sleepless(&picture("lock"));
    assert!((37.0..=39.0).contains(&recorded), "{recorded}");
}

#[test]
fn a_lock_without_waiters_delays_no_thread() {
    // Both A and C have the lock for ten ticks, one after the other since C slept first, and B waited for either.
    let picture = format!(
        "@cpus 3\n@s sleep\nA  {}  holds m 0..10\nB  1{}11111{}1\nC  2{}22{}  holds m 15..25\n",
        "0".repeat(10),
        "m".repeat(9),
        "m".repeat(10),
        "s".repeat(13),
        "2".repeat(19),
    );
    // C has 22 ticks of its own.
    let [_, free] = without(&picture, &[Class::Sleep, Class::LockWait]);
    assert!((21.0..=23.0).contains(&free), "{free}");
    let [_, kept] = without(&picture, &[Class::Sleep]);
    assert!(kept >= 24.0, "{kept}");
}
