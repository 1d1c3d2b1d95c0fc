//! Peers of waits at sockets, in the section `waits`.

use holdup_events::ObjectKind;
use holdup_events::tables::CallObject;
use holdup_findings::analyse;
use holdup_report::{Style, render};
use holdup_testkit::check::trace_of_lanes;

use super::{golden, sections};

#[test]
fn peers_of_sockets_are_reported() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 2\n@q socket 45\n@e socket 47\n@f multiplex 7\n@g multiplex 232\n@h socket 44\n@k socket 46\n\
         A  0qqqqqq0eeee0ff0ggg0h0qqq0kkkkk\n",
    );
    let names = [
        (45, "10.0.0.1:40912 → 10.0.0.2:5432"),
        (47, "[2001:db8::1]:80 → [2001:db8::9]:50001"),
        (7, "unix at /run/own\u{1b}[2J.sock"),
        (46, "unix, other end socket:[9]"),
    ];
    for (object, (syscall, name)) in (1..).zip(names) {
        for wait in trace.waits.iter_mut().filter(|wait| wait.syscall == syscall) {
            (wait.object_kind, wait.object) = (ObjectKind::Socket, object);
        }
        trace.calls.objects.push(CallObject { kind: ObjectKind::Socket, object, name: name.to_owned() });
    }
    let analysis = analyse(&trace);
    let said = render(&trace, &analysis, &sections(&["waits"]), &Style::default()).expect("a report");
    golden("waits-at-sockets", &said);
}
