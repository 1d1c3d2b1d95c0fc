//! The answer of `holdup whatif`, as text and as JSON.

use holdup_events::Trace;
use holdup_findings::what_if::WhatIf;
use serde_json::{Value, json};

use crate::numbers::{duration, percent};
use crate::text::{Style, Tint, clean, left, right, wrap};

/// For people.
pub fn render_what_if(trace: &Trace, answer: &WhatIf, style: &Style) -> String {
    let forecast = &answer.forecast;
    let (gain, low, high) = forecast.gain();
    let mut lines = Vec::new();
    let changes = answer.changes.iter().map(|change| clean(change)).collect::<Vec<_>>().join(", ");
    let changes = if changes.is_empty() { "with nothing changed".to_owned() } else { changes };
    let (shortest, longest) = (duration(forecast.low_ns), duration(forecast.high_ns));
    let length = match answer.is_estimated {
        true => format!("{} ({shortest} to {longest})", duration(forecast.wall_ns)),
        false => format!("between {shortest} and {longest}"),
    };
    let head = format!(
        "{} {changes}: {length} instead of {}.",
        clean(&trace.manifest.command.join(" ")),
        duration(forecast.recorded_ns),
    );
    lines.extend(wrap(&head, style.columns(), 2).iter().map(|line| style.paint(Tint::Strong, line)));
    lines.push(match answer.is_estimated {
        true => format!("  gain {} ({} to {})", signed(gain), signed(low), signed(high)),
        false => format!("  gain {} to {}", signed(low), signed(high)),
    });
    lines.push(String::new());
    lines.push(style.paint(Tint::Heading, "THREAD TIME"));
    for (class, before, after) in answer.classes() {
        let name = if class.on_cpu() { "running" } else { class.name() };
        let figures = format!("{}  to {}", right(&duration(before), 10), right(&duration(after), 10));
        lines.push(format!("  {}{figures}", left(name, 14)));
    }
    lines.push(String::new());
    lines.push(style.paint(Tint::Heading, "ASSUMPTIONS"));
    for line in assumed(answer) {
        let wrapped = wrap(&clean(&line), style.columns() - 2, 2);
        lines.extend(wrapped.iter().map(|line| format!("  {line}")));
    }
    style.finish(&lines)
}

fn assumed(answer: &WhatIf) -> Vec<String> {
    let forecast = &answer.forecast;
    let mut lines = answer.assumed.clone();
    let off = forecast.unchanged - 1.0;
    let differs = if off < 0.0 { "shorter" } else { "longer" };
    lines.push(format!(
        "The replay with nothing changed is {} {differs} than the recording.",
        percent(off.abs())
    ));
    if forecast.forced > 0 {
        lines.push(format!("The recorded order could not be kept in {} places.", forecast.forced));
    }
    lines
}

fn signed(share: f64) -> String {
    if share < 0.0 { format!("-{}", percent(-share)) } else { percent(share) }
}

/// JSON form (docs/json.md).
pub fn what_if_json(answer: &WhatIf) -> Value {
    let forecast = &answer.forecast;
    let (gain, low, high) = forecast.gain();
    let class = |(class, before, after): (holdup_findings::derive::class::Class, u64, u64)| {
        let name = if class.on_cpu() { "running" } else { class.name() };
        json!({ "class": name, "before_ns": before, "after_ns": after })
    };
    json!({
        "schema_version": crate::json::SCHEMA_VERSION,
        "changes": answer.changes,
        "recorded_ns": forecast.recorded_ns,
        "wall_ns": answer.is_estimated.then_some(forecast.wall_ns),
        "wall_low_ns": forecast.low_ns,
        "wall_high_ns": forecast.high_ns,
        "gain": answer.is_estimated.then_some(gain),
        "gain_low": low,
        "gain_high": high,
        "unchanged": forecast.unchanged,
        "forced": forecast.forced,
        "classes": answer.classes().into_iter().map(class).collect::<Vec<_>>(),
        "assumed": assumed(answer),
    })
}
