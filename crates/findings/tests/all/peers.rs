//! Waits that end because a peer on the same machine did something: what the peer waited for itself.

use holdup_findings::{Analysis, Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

fn analysed(text: &str) -> Analysis {
    analyse(&trace_of_lanes(text).1)
}

/// A sends a request, and waits 42 ms. B, which also serves other clients, is woken 40 ms later by the
/// network, or by its clock.
fn asks(letter: &str) -> Analysis {
    analysed(&format!(
        "@cpus 2\n@n {letter}\n@m multiplex\n@repeat 20\n\
         A  0{}  holds n 0..0\n\
         B  {first}1{second}11  holds m 42..43\n",
        "m".repeat(42),
        first = "n".repeat(20),
        second = "n".repeat(20),
    ))
}

#[test]
fn a_delay_is_seen_through_the_peer_that_it_holds_up() {
    let analysis = asks("socket");
    let finding = analysis.findings.iter().find(|finding| finding.rule == "delayed-ack").expect("a finding");
    assert!(finding.subject.starts_with('A'), "{}", finding.subject);
    // B's waits during that time go too. Otherwise they would make the run as long. Its earlier waits stay.
    assert!(finding.gain.high > 0.4, "{:?}", finding.gain);
    // The last is cut off by the end.
    assert_eq!(finding.cost_ns / 1_000_000, 19 * 42);
}

#[test]
fn a_peer_that_waits_for_its_clock_has_no_delayed_ack() {
    assert_eq!(confidence(&asks("sleep"), "delayed-ack"), None);
}

/// Three threads send requests to S in turn, each under the lock. `work` is S's activity for each request.
fn asks_under_lock(work: char) -> f64 {
    let [three, six] = [3, 6].map(|ticks| work.to_string().repeat(ticks));
    let analysis = analysed(&format!(
        "@cpus 4\n@m lock\n@p pipe\n@s sleep\n@repeat 20\n\
         A  0pppp00mmmmmmmmmmmm  holds m 0..7\n\
         B  1mmmmmm0pppp00mmmmm  holds m 7..14\n\
         C  2mmmmmmmmmmmmm0pppp  holds m 14..19\n\
         S  3{three}3{six}3{six}3  holds p 4..5 holds p 11..12 holds p 18..19\n"
    ));
    let finding = analysis.findings.iter().find(|finding| finding.rule == "blocked-lock-holder");
    finding.map_or(0.0, |finding| finding.gain.high)
}

#[test]
fn a_peer_that_sleeps_for_one_may_sleep_for_all() {
    let (asleep, at_work) = (asks_under_lock('s'), asks_under_lock('3'));
    assert!(asleep > 0.5 && at_work < 0.3, "{asleep} {at_work}");
}

/// Threads that take a lock in one order, each parked on a word of its own.
#[test]
fn a_lock_that_goes_round_is_no_barrier() {
    let ring = |stack: &str| {
        analysed(&format!(
            "@cpus 2\n@a barrier\n@b barrier\n@c barrier\n@stack a {stack}\n@stack b {stack}\n@stack c {stack}\n@repeat 30\n\
             A  000000aaaaaaaaaaaa  holds b 5..6\n\
             B  bbbbbb000000bbbbbb  holds c 11..12\n\
             C  cccccccccccc000000  holds a 17..18\n"
        ))
    };
    let is_meeting = |analysis: &Analysis| !analysis.derived.rendezvous.meetings.is_empty();
    assert!(is_meeting(&ring("std::rt::lang_start;work;futex_wait")), "words that count rounds");
    assert!(!is_meeting(&ring("std::rt::lang_start;work;parking_lot::raw_mutex::RawMutex::lock_slow")));
}

#[test]
fn handshakes_are_attributed_to_the_dialing_function() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         @samples A 0..3 user runtime.goexit;main.ask;net/http.(*Transport).dialConn;crypto/tls.(*Conn).handshakeContext;crypto/internal/fips140/bigmod.addMulVVW1024\n\
         @samples A 3..8 user runtime.goexit;main.parse\n\
         A  00000000\n\
        \x20   ^^^         handshake-heavy holder=main.ask\n",
    );
    // More than a quarter of the running time.
    assert_eq!(confidence(&analysis, "handshake-heavy"), Some(Confidence::Medium));
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent handshake-heavy\n\
         @samples A 0..8 user runtime.goexit;main.ask;crypto/tls.(*Conn).Read;crypto/internal/fips140/aes.gcmAesDec\n\
         A  00000000\n",
    );
    // The goroutine that reads incoming data. The compiler names it after the callee of the go statement.
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent handshake-heavy\n\
         @samples A 0..8 user runtime.goexit;net/http.(*Transport).dialConn.gowrap2;net/http.(*persistConn).readLoop\n\
         A  00000000\n",
    );
}

/// Connections that are made once and kept are what the advice would bring.
#[test]
fn handshakes_at_the_beginning_are_a_hint() {
    let dials = |when: &str| {
        let ticks = "0".repeat(400);
        let analysis = analysed(&format!(
            "@cpus 2\n\
             @samples A {when} user runtime.goexit;main.ask;net/http.(*Transport).dialConn;crypto/tls.(*Conn).handshakeContext;crypto/internal/fips140/bigmod.addMulVVW1024\n\
             A  {ticks}\n"
        ));
        confidence(&analysis, "handshake-heavy")
    };
    assert_eq!(dials("0..110"), Some(Confidence::Low));
    assert_eq!(dials("200..310"), Some(Confidence::Medium));
}

#[test]
fn callers_inside_the_standard_library_are_named() {
    let analysis = analysed(
        "@cpus 2\n@repeat 20\n\
         @samples B 0..8 user runtime.goexit;net/http.(*persistConn).addTLS.func2;crypto/internal/fips140/bigmod.addMulVVW1024\n\
         @samples A 0..8 user runtime.goexit;net/http.(*conn).serve;crypto/tls.(*Conn).handshakeContext;crypto/internal/fips140/bigmod.addMulVVW1024\n\
         A  00000000\n\
         B  11111111\n",
    );
    let finding =
        analysis.findings.iter().find(|finding| finding.rule == "handshake-heavy").expect("a finding");
    for name in ["net/http.(*conn).serve", "net/http.(*persistConn).addTLS.func2"] {
        assert!(finding.summary[1].contains(name), "{:#?}", finding.summary);
    }
}
