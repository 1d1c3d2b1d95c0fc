//! Questions to a service that are asked one after the other, and what only looks so.

use holdup_events::tables::{CallObject, Wakeup, Wakeups};
use holdup_events::{ObjectKind, Trace, Wait, WaitReason};
use holdup_findings::finding::{Confidence, Finding};
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::{check_lanes, trace_of_lanes};

/// A waits for answers (`q`) of B, another process, which waits for questions (`p`) and for its clock (`s`).
fn asked(lanes: &str) -> Analysis {
    check_lanes(&format!(
        "@cpus 4\n@repeat 20\n@q multiplex 7\n@p multiplex 232\n@s sleep\n@child B\n{lanes}"
    ))
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == "one-at-a-time")
}

const IN_TURN: &str = "A  0qqqqqqqqq  holds p 0..1\nB  p1sssssss1  holds q 9..10\n";

/// `count` more threads that send requests when A does, each on its own CPU.
fn more_threads(count: usize) -> String {
    let lane = |number: usize| format!("{}  {}qqqqqqqqq\n", (b'C' + number as u8) as char, number + 2);
    (0..count).map(lane).collect()
}

#[test]
fn sequential_requests_to_a_sleeping_service_are_reported() {
    let analysis = asked(&format!("{IN_TURN}@stack q main;fetch;poll\n"));
    let finding = &analysis.findings[0];
    assert_eq!((finding.rule, finding.confidence), ("one-at-a-time", Confidence::Medium), "{finding:#?}");
    assert!(finding.gain.low < 0.01 && (0.6..=0.85).contains(&finding.gain.high), "{:?}", finding.gain);
    assert!(finding.summary[0].contains("1.0 in flight"), "{finding:#?}");
    let is_told = |rule: &str| analysis.findings.iter().any(|finding| finding.rule == rule);
    assert!(!is_told("oversleep") && !is_told("poll-loop"), "the service's clock is a part of it");
}

#[test]
fn requests_in_flight_are_limited_by_the_pools_threads() {
    let wide =
        format!("@cpus 10\n@repeat 20\n@q multiplex 7\n@p multiplex 232\n@s sleep\n@child B\n{IN_TURN}");
    let analysis = check_lanes(&(wide + &more_threads(8)));
    let finding = found(&analysis).expect("a finding");
    assert_eq!(finding.confidence, Confidence::Medium, "{finding:#?}");
    assert!(finding.summary[0].contains("9 threads"), "{finding:#?}");
}

#[test]
fn many_at_once_of_more_threads_are_not_limited_by_their_number() {
    let head =
        "@cpus 10\n@repeat 20\n@q multiplex 7\n@p multiplex 232\n@s sleep\n@child B\n@silent one-at-a-time\n";
    let mut lanes: String =
        (IN_TURN.to_owned() + &more_threads(8)).lines().map(|line| twice(line) + "\n").collect();
    // As many again, which ask half of the time.
    for number in 0..8u8 {
        lanes += &format!("{}  .{}qqqqqqqq..........\n", char::from(b'L' + number), number + 2);
    }
    assert!(found(&check_lanes(&format!("{head}{lanes}"))).is_none());
}

#[test]
fn a_few_at_once_are_a_hint_but_where_it_is_all_that_there_are() {
    let sure = |lanes: &str| found(&asked(lanes)).map(|finding| finding.confidence);
    let all = IN_TURN.to_owned() + &more_threads(2);
    assert_eq!(sure(&all), Some(Confidence::Medium), "a pool of three");
    // Others of the same program ask now and then only.
    let mut twice: String = all.lines().map(|line| twice(line) + "\n").collect();
    twice += "G  8qqqqqqqqq..........\nH  9qqqqqqqqq..........\n";
    assert_eq!(sure(&twice), Some(Confidence::Low), "fewer than there are");
}

/// A lane's round, two times.
fn twice(line: &str) -> String {
    let mut words = line.split("  ");
    let (name, ticks) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let holds: Vec<String> = words.map(str::to_owned).collect();
    let again = holds.iter().map(|one| {
        let (thing, range) = one.trim_start_matches("holds ").split_once(' ').expect("a range");
        let (from, to) = range.split_once("..").expect("a range");
        let later = |tick: &str| tick.parse::<usize>().expect("a tick") + ticks.len();
        format!("holds {thing} {}..{}", later(from), later(to))
    });
    let all: Vec<String> = holds.iter().cloned().chain(again).collect();
    format!("{name}  {ticks}{ticks}  {}", all.join("  ")).trim_end().to_owned()
}

#[test]
fn a_server_that_waits_for_requests_is_no_client() {
    // The client is the one that sleeps between its questions: it spoke first.
    asked(
        "@silent one-at-a-time\n\
         A  qq1qqqqqqq  holds p 2..3\n\
         B  .1psssssss  holds q 1..2\n",
    );
}

#[test]
fn a_service_that_works_is_what_its_work_takes() {
    asked("@silent one-at-a-time\nA  0qqqqqqqqq  holds p 0..1\nB  p111111111  holds q 9..10\n");
}

/// Both poll for arbitrary descriptors. The messages between them show the number of outstanding requests.
#[test]
fn messages_of_pollers_give_the_requests_in_flight() {
    let analysis = asked("A  0ppppppppp  holds p 0..1\nB  p1sssssss1  holds p 9..10\n");
    let finding = found(&analysis).expect("a finding");
    assert!(finding.summary[0].contains("1.0 in flight"), "{finding:#?}");
    // Two questions, 23 ms in all until they are answered, in 17.
    let analysis = asked(
        "@e multiplex 232\n@f multiplex 232\n@u multiplex 232\n@w multiplex 232\n@timeout w 4\n\
         @v multiplex 232\n@timeout v 8\n\
         A  000eeeeee0ffffffff0  holds p 0..1 holds u 2..3\n\
         B  p1u1wwww1vvvvvvvv1p  holds e 8..9 holds f 17..18\n",
    );
    let finding = found(&analysis).expect("a finding");
    assert!(finding.summary[0].contains("1.4 in flight"), "{finding:#?}");
}

/// One thread that polls, with three questions under way, is no pool of one.
#[test]
fn several_questions_of_one_that_polls_are_a_hint() {
    let polls =
        ["e", "f", "g", "u", "x", "w", "z", "k"].map(|letter| format!("@{letter} multiplex 232\n")).concat();
    let analysis = asked(&format!(
        "{polls}@timeout w 20\n@timeout z 2\n@timeout k 2\n\
         A  00000{}0ff0gg0  holds p 0..1 holds u 2..3 holds x 4..5\n\
         B  p1u1x1{}1zz1kk1p  holds e 26..27 holds f 29..30 holds g 32..33\n",
        "e".repeat(22),
        "w".repeat(20),
    ));
    let finding = found(&analysis).expect("a finding");
    assert!(finding.summary[0].contains("2.5 in flight"), "{finding:#?}");
    assert_eq!(finding.confidence, Confidence::Low);
}

#[test]
fn whoever_accepts_connections_is_asked() {
    // The service was busy at the first request, so its response is the first message that wakes a thread.
    let told = |first: char| {
        let analysis =
            asked(&format!("@a socket 43\n@b sleep\nA  qqqqqqqqq0\nB  {first}1ssssss1s  holds q 8..9\n"));
        found(&analysis).map(|finding| finding.confidence)
    };
    assert_eq!((told('a'), told('b')), (Some(Confidence::Medium), None));
}

#[test]
fn of_a_peer_elsewhere_it_is_a_hint() {
    let told = |how: &str| {
        let analysis = check_lanes(&format!("@cpus 4\n@repeat 20\n@q {how}\nA  0qqqqqqqqq\n"));
        found(&analysis).map(|finding| (finding.subject.ends_with("asks a remote peer"), finding.confidence))
    };
    assert_eq!(told("socket"), Some((true, Confidence::Low)));
    assert_eq!(told("socket 43"), None, "whoever accepts waits to be asked");
    assert_eq!(told("multiplex 7"), None, "and so may whoever polls");
}

/// A thread that starts a service waits for its ready message. That is no request.
#[test]
fn a_word_before_the_first_question_does_not_turn_the_sides() {
    let picture =
        "@cpus 4\n@repeat 20\n@q multiplex 232\n@p multiplex 232\n@s sleep\n@child B\n".to_owned() + IN_TURN;
    let (_, mut trace) = trace_of_lanes(&picture);
    let ids: Vec<_> = trace.target_threads().collect();
    let (asker, service) = (ids[0], ids[1]);
    let at = trace.threads[service.index()].start;
    let word = Wakeup { at, waker: service, wakee: asker, ..trace.wakeups.of_thread(asker)[0] };
    let rows = [word].into_iter().chain(trace.wakeups.iter().copied()).collect();
    trace.wakeups = Wakeups::freeze(rows, trace.threads.len());
    let analysis = analyse(&trace);
    let finding = found(&analysis).expect("it is told");
    assert!(finding.summary[0].starts_with("1 thread of A sent"), "{:?}", finding.summary);
}

/// The first request may have reached an awake service, without a wakeup. The thread that waits for the
/// other's clock is the client.
#[test]
fn the_thread_that_waits_for_a_timer_is_the_client_without_a_first_request() {
    let picture =
        "@cpus 4\n@repeat 20\n@q multiplex 232\n@p multiplex 232\n@s sleep\n@child B\n".to_owned() + IN_TURN;
    let (_, mut trace) = trace_of_lanes(&picture);
    let first = trace.wakeups.iter().map(|one| one.at).min().expect("wakeups");
    let rows = trace.wakeups.iter().filter(|one| one.at > first).copied().collect();
    trace.wakeups = Wakeups::freeze(rows, trace.threads.len());
    let analysis = analyse(&trace);
    let finding = found(&analysis).expect("it is told");
    assert!(finding.summary[0].starts_with("1 thread of A sent"), "{:?}", finding.summary);
}

/// If a runtime's descriptor marks code that should not wait, the finding names the waits that it delays.
#[test]
fn waits_in_event_loop_callbacks_are_reported() {
    let told = |stack: &str| {
        let analysis = asked(&format!("{IN_TURN}@stack q main;{stack};fetch;poll\n"));
        let finding = found(&analysis).expect("it is told");
        let is_said = finding.summary.iter().any(|line| line.starts_with("For 100 % of it, a"));
        (is_said, finding.advice.len() > 2)
    };
    assert_eq!(told("_PyEval_EvalFrameDefault;asyncio.events.Handle._run"), (true, true));
    assert_eq!(told("_PyEval_EvalFrameDefault;asyncio.runners.run"), (false, false));
    // A function of C, in a program that has nothing of Haskell.
    assert_eq!(told("print_info"), (false, false));
}

/// The picture, with the sockets named for which threads of these processes wait.
fn with_sockets(picture: &str, named: &[(&str, &str)]) -> Trace {
    let (_, mut trace) = trace_of_lanes(picture);
    for (number, (process, name)) in (1..).zip(named) {
        let of = |wait: &&mut Wait| trace.processes[wait.process.index()].name == *process;
        let network = |wait: &&mut Wait| matches!(wait.reason, WaitReason::Socket | WaitReason::Multiplex);
        for wait in trace.waits.iter_mut().filter(of).filter(network) {
            (wait.object_kind, wait.object) = (ObjectKind::Socket, number);
        }
        let name = (*name).to_owned();
        trace.calls.objects.push(CallObject { kind: ObjectKind::Socket, object: number, name });
    }
    trace
}

/// The end that connected is the client, whichever end sent first, and whatever else it accepts.
#[test]
fn the_end_that_connected_asks() {
    let told = |asker: &str| {
        let trace = with_sockets(
            "@cpus 4\n@repeat 20\n@q multiplex 7\n@p multiplex 232\n@s sleep\n@b sleep\n@child B\n\
             A  qqqqqqqqq0\nB  b1ssssss1s  holds q 8..9\n",
            &[("A", asker)],
        );
        found(&analyse(&trace)).map(|finding| finding.confidence)
    };
    assert_eq!(told("unix → /run/b.sock"), Some(Confidence::Medium));
    assert_eq!(told("127.0.0.1:40912 → 127.0.0.1:5432"), Some(Confidence::Medium));
    assert_eq!(told("unix ← /run/a.sock"), None);
    assert_eq!(told("unix, other end socket:[9]"), None, "the first word is B's");
}

/// A peer on another machine is named by its address. A thread that accepted such a peer's connection waits
/// for requests.
#[test]
fn a_peer_elsewhere_has_its_address() {
    let told = |name: &str| {
        let by = |how: &str| {
            let picture = format!("@cpus 4\n@repeat 20\n@q {how}\nA  0qqqqqqqqq\n");
            let trace = with_sockets(&picture, &[("A", name)]);
            found(&analyse(&trace)).map(|finding| (finding.subject.clone(), finding.confidence))
        };
        // A poll for one descriptor waits for that descriptor.
        assert_eq!(by("socket"), by("multiplex 7"));
        by("socket")
    };
    let asks = |whom: &str| Some((format!("A asks {whom}"), Confidence::Low));
    assert_eq!(told("10.0.0.1:40912 → 10.0.0.2:5432"), asks("10.0.0.2:5432"));
    assert_eq!(told("unix → @queue, other end socket:[9]"), asks("@queue"));
    assert_eq!(told("10.0.0.1:80 → 10.0.0.2:40912"), None);
}

/// None of several has nearly all of it.
#[test]
fn several_peer_addresses_are_listed_with_shares() {
    let mut trace = with_sockets(
        "@cpus 4\n@repeat 20\n@q socket\n@e socket 47\nA  0qqqqqq0eee\n",
        &[("A", "10.0.0.1:40912 → 10.0.0.2:5432")],
    );
    let other = trace.waits.iter_mut().find(|wait| wait.syscall == 47).expect("e");
    other.object = 9;
    let name = "10.0.0.1:40913 → 10.0.0.3:5432".to_owned();
    trace.calls.objects.push(CallObject { kind: ObjectKind::Socket, object: 9, name });
    let analysis = analyse(&trace);
    let finding = found(&analysis).expect("it is told");
    assert!(finding.subject.ends_with("asks a remote peer"), "{finding:#?}");
    let parts = finding.summary.iter().any(|line| line == "Of that: 10.0.0.2:5432 68 %, 10.0.0.3:5432 32 %.");
    assert!(parts, "{finding:#?}");
}

/// A client of a store on this machine that was not recorded. In each tick of 20 µs it sends a command or
/// waits for the response. `calls`: SYSCALL, count and bytes of its calls on the connection in a window.
fn commands(lanes: &str, socket: &str, calls: &[(i32, u64, u64)]) -> Option<(Confidence, f64, Vec<String>)> {
    let io = calls.iter().map(|(call, count, bytes)| format!("@io 0..100 A {call} {count} {bytes} 0\n"));
    let io: String = io.collect();
    let mut trace = with_sockets(
        &format!("@cpus 2\n@tick 20000\n@repeat 400\n@q socket 45\n{io}{lanes}"),
        &[("A", socket)],
    );
    for wait in trace.waits.iter_mut().filter(|wait| wait.syscall == 45) {
        (wait.reason, wait.object_kind, wait.object) = (WaitReason::Socket, ObjectKind::Socket, 1);
    }
    for row in &mut trace.calls.rows {
        (row.object_kind, row.object) = (ObjectKind::Socket, 1);
    }
    let analysis = analyse(&trace);
    let finding = found(&analysis)?;
    Some((finding.confidence, finding.gain.high, finding.summary.clone()))
}

/// A client that sends one command per round trip, and waits each time.
#[test]
fn one_command_per_round_trip_is_reported_with_its_median() {
    let connected = "127.0.0.1:40912 → 127.0.0.1:6379";
    let lanes = "A        0qqq\n~store   .1..\n";
    let (confidence, high, summary) =
        commands(lanes, connected, &[(1, 300, 10), (45, 300, 10)]).expect("a finding");
    assert_eq!(confidence, Confidence::Medium);
    assert!(high > 0.6, "{high}");
    let sentence = summary.iter().find(|line| line.contains("short round trip")).expect("the round trips");
    assert!(sentence.contains("over 1 connection, median 60.0 µs"), "{sentence}");
    let confidence = |found: Option<(Confidence, f64, Vec<String>)>| found.map(|(confidence, ..)| confidence);
    // Messages that come without a request, and a connection of which the direction is not known.
    assert_eq!(confidence(commands(lanes, connected, &[(45, 300, 10)])), Some(Confidence::Low));
    let unknown = "10.0.0.1:40912 → 10.0.0.2:40913";
    assert_eq!(confidence(commands(lanes, unknown, &[(1, 300, 10), (45, 300, 10)])), Some(Confidence::Low));
    // Messages of many commands.
    assert_eq!(
        confidence(commands(lanes, connected, &[(1, 300, 1000), (45, 300, 10)])),
        Some(Confidence::Low)
    );
    // A response that takes the peer long is its work.
    let long = "@tick 2000000\nA        0qqq\n";
    assert_eq!(confidence(commands(long, connected, &[(1, 300, 10), (45, 300, 10)])), Some(Confidence::Low));
}

/// A store that computes for most of a round trip.
#[test]
fn a_busy_store_takes_the_time_of_round_commands() {
    let calls = [(1, 300, 10), (45, 300, 10)];
    let of = |store: &str| {
        let lanes = format!("@q pipe 45\nA        0qqq\n~store   {store}  holds q 3..4\n");
        commands(&lanes, "127.0.0.1:40912 → 127.0.0.1:6379", &calls).map(|(confidence, ..)| confidence)
    };
    assert_eq!((of(".111"), of("...1")), (Some(Confidence::Low), Some(Confidence::Medium)));
}
