//! The moment for which a flight recorder saved a recording, as JSON.

use holdup_events::recording::Fired;
use holdup_events::{ThreadId, Timestamp, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::moment::{ChainLink, Moments};
use serde_json::{Value, json};

/// `fired` of JSON: each with its chain, which is empty where it is no pause.
pub(crate) fn to_json(trace: &Trace, analysis: &Analysis) -> Value {
    if trace.manifest.fired.is_empty() {
        return json!([]);
    }
    let timelines = Timelines::derive(trace);
    let moments = Moments::new(trace, &analysis.derived, &timelines);
    let of = |fired: &Fired| {
        let chain = moments.iter().flat_map(|moments| moments.chain(fired));
        let mut value = json!(fired);
        value["why"] = chain.map(|step| link_json(trace, &step)).collect();
        value
    };
    trace.manifest.fired.iter().map(of).collect()
}

fn link_json(trace: &Trace, step: &ChainLink) -> Value {
    let since = |at: Timestamp| at.since(trace.start()).0;
    let name = |id: ThreadId| holdup_findings::wording::thread(trace, id);
    json!({
        "text": step.text,
        "thread": step.link.thread.map(name).unwrap_or_default(),
        "start_ns": since(step.link.start),
        "end_ns": since(step.link.end),
        "basis": step.basis,
    })
}
