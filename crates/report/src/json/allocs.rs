//! Allocations by site.

use holdup_events::Trace;
use holdup_findings::derive::amount::Amount;
use holdup_findings::derive::stacks::{Allocated, PlaceId};
use serde_json::{Value, json};

use crate::stacks::StackAsk;

/// Allocations of the selected part of the recording, and around the selected function, if any.
pub(super) fn to_json(trace: &Trace, ask: &StackAsk) -> Value {
    let allocated = Allocated::derive(trace, &ask.selection, &ask.folding);
    let around = ask.function.as_ref().map(|name| allocated.around(&allocated.find(name)));
    let around = around.unwrap_or_default();
    let near = |rows: &[(Option<PlaceId>, Amount)]| {
        let named = |id: Option<PlaceId>| id.map(|id| allocated.places[id.index()].name.clone());
        rows.iter().map(|(id, of)| json!({"function": named(*id), "amount": amount(of)})).collect::<Value>()
    };
    json!({
        "every_bytes": allocated.every_bytes,
        "frees_known": allocated.frees_known,
        "is_census": allocated.is_census,
        "operations": ask.operations,
        "all": amount(&allocated.all),
        "live": amount(&allocated.live),
        "freed_by_others": amount(&allocated.freed_by_others),
        "sites": allocated.sites.iter().map(|site| json!({
            "function": site.function,
            "module": site.module,
            "file": site.file,
            "line": site.line,
            "all": amount(&site.all),
            "live": amount(&site.live),
            "freed_by_others": amount(&site.freed_by_others),
        })).collect::<Value>(),
        "threads": allocated.threads.iter().map(|(thread, of)| json!({
            "thread": thread.0,
            "amount": amount(of),
        })).collect::<Value>(),
        "handed": allocated.handed.iter().map(|handed| json!({
            "from": handed.from.0,
            "to": handed.to.0,
            "amount": amount(&handed.amount),
        })).collect::<Value>(),
        "function": amount(&around.all),
        "callers": near(&around.callers),
        "callees": near(&around.callees),
    })
}

fn amount(of: &Amount) -> Value {
    json!({
        "bytes": of.bytes(),
        "bytes_error": of.bytes_error(),
        "objects": of.objects(),
        "objects_error": of.objects_error(),
        "sampled": of.drawn,
    })
}
