//! Collections as reported by the runtime.

use holdup_events::Trace;
use holdup_findings::derive::garbage::Garbage;
use holdup_findings::derive::gc::{BINS_NS, Gc, GcTimes, LaneGc, PERCENTILES, Pause, Pauses};
use holdup_findings::derive::rendezvous::{CauseUse, Late, Meeting, Rendezvous};
use holdup_findings::derive::runtimes::Telling;
use serde_json::{Value, json};

use super::thread_keys;

/// Rows of `gc.stops.costliest`.
const STOPS_MAX: usize = 1000;

/// Null if no runtime reported any.
pub(super) fn to_json(trace: &Trace, (gc, garbage): (&Gc, &Garbage), rendezvous: &Rendezvous) -> Value {
    if gc.lanes.is_empty() {
        return Value::Null;
    }
    json!({
        "minor": gc.minor,
        "major": gc.major,
        "events": gc.events,
        "matched": gc.matched,
        "life_ns": gc.life_ns,
        "times": times(&gc.all),
        "pauses": pauses(&gc.pauses),
        "domains": gc.lanes.iter().map(|one| lane(trace, one)).collect::<Value>(),
        "wanted_memory": {
            "stacks": garbage.stacks,
            "sites": garbage.sites.iter().map(|site| json!({
                "function": site.function,
                "stacks": site.stacks,
                "samples": site.samples,
                "itself_ns": site.itself_ns,
            })).collect::<Value>(),
        },
        "slowest": gc.slowest.iter().map(|one| pause(trace, one)).collect::<Value>(),
        "stops": {
            "recorded": gc.stops,
            "recorded_ns": gc.stopped_ns,
            "count": rendezvous.lates.len(),
            "causes": rendezvous.late_causes(None).iter().map(|one| cause(trace, one)).collect::<Value>(),
            "costliest": rendezvous.latest(STOPS_MAX).into_iter().map(|one| stop(trace, rendezvous, one))
                .collect::<Value>(),
        },
    })
}

fn cause(trace: &Trace, used: &CauseUse) -> Value {
    json!({
        "cause": used.cause.name(),
        "times": used.times,
        "late_ns": used.late_ns,
        "occupant": used.occupant.map(|id| thread_keys(trace, Some(id))),
        "place": used.place.map(|place| trace.frame_name(place)),
    })
}

fn stop(trace: &Trace, rendezvous: &Rendezvous, (meeting, late): (&Meeting, &Late)) -> Value {
    json!({
        "asked_ns": meeting.asked.0,
        "late_ns": meeting.release.since(meeting.asked).0,
        "members": rendezvous.members(meeting).len(),
        "leader": meeting.leader.map(|id| thread_keys(trace, Some(id))),
        "last": thread_keys(trace, meeting.last),
        "cause": late.cause.name(),
        "cause_ns": late.cause_ns,
        "occupant": late.occupant.map(|id| thread_keys(trace, Some(id))),
        "place": late.place.map(|place| trace.frame_name(place)),
    })
}

/// Spans and counters reported by a runtime.
pub(super) fn runtime_events(telling: &Telling) -> Value {
    json!({
        "runtime": telling.runtime,
        "lanes": telling.lanes,
        "events": telling.events,
        "matched": telling.matched,
        "spans": telling.spans,
        "own_spans": telling.own_spans,
    })
}

fn times(times: &GcTimes) -> Value {
    json!({
        "work_ns": times.work_ns,
        "wait_running_ns": times.wait_running_ns,
        "wait_blocked_ns": times.wait_blocked_ns,
        "queue_ns": times.queue_ns,
        "other_ns": times.other_ns,
        "spin_ns": times.spin_ns,
        "spin_error_ns": times.spin_error_ns,
    })
}

fn pauses(pauses: &Pauses) -> Value {
    json!({
        "count": pauses.count,
        "total_ns": pauses.total_ns,
        "mean_ns": pauses.mean_ns,
        "p50_ns": pauses.p50_ns,
        "p90_ns": pauses.p90_ns,
        "p99_ns": pauses.p99_ns,
        "p999_ns": pauses.p999_ns,
        "max_ns": pauses.max_ns,
        "percentiles": PERCENTILES.iter().zip(pauses.at_ns).map(|(percent, ns)| json!({
            "percent": percent,
            "ns": ns,
        })).collect::<Value>(),
        "histogram": BINS_NS.iter().zip(pauses.bins).map(|(bound, count)| json!({
            "below_ns": (*bound != u64::MAX).then_some(*bound),
            "count": count,
        })).collect::<Value>(),
    })
}

fn lane(trace: &Trace, lane: &LaneGc) -> Value {
    let process = trace.processes.get(lane.process.index());
    json!({
        "runtime": lane.runtime,
        "number": lane.number,
        "pid": process.map(|process| process.pid),
        "life_ns": lane.life_ns,
        "threads": lane.threads.iter().map(|thread| thread_keys(trace, Some(*thread))).collect::<Value>(),
        "times": times(&lane.times),
        "answered": times(&lane.answered),
        "minor": lane.minor,
        "allocated_bytes": lane.allocated_bytes,
        "promoted_bytes": lane.promoted_bytes,
        "heap_bytes": lane.heap_bytes,
        "pauses": pauses(&lane.pauses),
    })
}

fn pause(trace: &Trace, pause: &Pause) -> Value {
    json!({
        "thread": thread_keys(trace, Some(pause.thread)),
        "domain": trace.lanes.get(pause.lane as usize).map(|lane| lane.number),
        "start_ns": pause.start.0,
        "end_ns": pause.end.0,
        "ran_ns": pause.ran_ns,
        "mostly": pause.mostly,
        "mostly_ns": pause.mostly_ns,
    })
}
