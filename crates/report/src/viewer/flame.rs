//! `api/flame`: stacks added up to a tree, of a kind of time, a range, some threads.

use std::collections::BTreeMap;

use holdup_events::tables::FrameKind;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::stacks::{Direction, Folding, Profile, Selection, Tree, wakers};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Ask, Refusal, Viewer, to_text};
use crate::stacks::parse_classes;

pub(super) const PARAMETERS: &[&str] = &["kind", "from", "to", "threads", "reverse", "function", "min"];

/// Kinds that a reader may choose from; besides, any class has one.
const KINDS: &[(&str, &str)] = &[
    ("on-cpu", "On CPU"),
    ("off-cpu", "Off CPU"),
    ("wakers", "Waits and who ended them"),
    ("lock-wait", "Lock waits"),
    ("all", "All time"),
];

/// Nodes below this share of all are left out if nothing is said.
const SHARE_MIN: f64 = 0.0005;

/// Profiles that were asked for last: a reader turns the same one around.
const KEPT_MAX: usize = 8;

/// What is kept, the last asked for at the end.
#[derive(Default)]
pub(super) struct Kept(Vec<(String, std::sync::Arc<Profile>)>);

/// A tree, by column.
#[derive(Default, Serialize)]
struct Flame {
    kind: String,
    total_ns: u64,
    error_ns: u64,
    samples: u64,
    slices: u64,
    slices_with_stack: u64,
    names: Vec<String>,
    modules: Vec<String>,
    name: Vec<u32>,
    parent: Vec<i64>,
    own_ns: Vec<u64>,
    ns: Vec<u64>,
    kernel: Vec<u8>,
}

pub(super) fn list() -> Value {
    KINDS.iter().map(|(kind, label)| json!({"kind": kind, "label": label})).collect()
}

pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, _)| *kind)
}

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let kind = ask.text("kind").ok_or_else(|| Refusal::bad("kind is missing"))?;
    let mut selection = match kind {
        "wakers" => Selection::all().only(Class::is_wait),
        kind => parse_classes(kind).map_err(Refusal::Bad)?,
    };
    (selection.from, selection.to) = viewer.range(ask)?;
    selection.threads = viewer.threads(ask)?;
    let min: f64 = match ask.text("min").map(str::parse) {
        None => SHARE_MIN,
        Some(Ok(share)) if (0.0..=1.0).contains(&share) => share,
        Some(_) => return Err(Refusal::bad("min wants a share from 0 to 1")),
    };
    let key = format!("{kind} {:?} {:?} {:?}", selection.from, selection.to, selection.threads);
    let profile = profile(viewer, (kind, &key), &selection);
    let focus = ask.text("function").map(|name| profile.find(name));
    if focus.as_ref().is_some_and(std::collections::BTreeSet::is_empty) {
        return Err(Refusal::not_there("no stack goes through a function of that name"));
    }
    let direction = if ask.flag("reverse")? { Direction::Up } else { Direction::Down };
    let tree = Tree::derive(&profile, direction, focus.as_ref());
    Ok(to_text(&columns(kind, &profile, &tree, min)))
}

fn profile(viewer: &Viewer, (kind, key): (&str, &str), selection: &Selection) -> std::sync::Arc<Profile> {
    let known = |kept: &mut Kept| {
        let place = kept.0.iter().position(|(known, _)| known == key)?;
        let found = kept.0.remove(place);
        kept.0.push(found.clone());
        Some(found.1)
    };
    if let Some(found) = viewer.flames.lock().ok().and_then(|mut kept| known(&mut kept)) {
        return found;
    }
    let folding = Folding::built_in();
    let made = std::sync::Arc::new(match kind {
        "wakers" => wakers::derive(&viewer.trace, selection, &folding),
        _ => Profile::derive(&viewer.trace, selection, &folding),
    });
    if let Ok(mut kept) = viewer.flames.lock() {
        kept.0.push((key.to_owned(), made.clone()));
        let surplus = kept.0.len().saturating_sub(KEPT_MAX);
        kept.0.drain(..surplus);
    }
    made
}

fn columns(kind: &str, profile: &Profile, tree: &Tree, min: f64) -> Flame {
    let total_ns: u64 = tree.roots.iter().map(|root| tree.nodes[*root].cumulated.ns).sum();
    let least = (total_ns as f64 * min) as u64;
    let observed = &profile.observed;
    let mut flame = Flame {
        kind: kind.to_owned(),
        total_ns,
        error_ns: profile.all.error_ns(&profile.all),
        samples: observed.samples,
        slices: observed.slices,
        slices_with_stack: observed.slices_with_stack,
        ..Flame::default()
    };
    let mut names = BTreeMap::new();
    let mut open: Vec<i64> = Vec::new();
    for (depth, node) in tree.walk(|node| node.cumulated.ns > 0 && node.cumulated.ns >= least) {
        let place = profile.place(node.place);
        let next = flame.names.len() as u32;
        let name = *names.entry(node.place).or_insert(next);
        if name == next {
            flame.names.push(place.name.clone());
            flame.modules.push(place.module.clone());
        }
        open.truncate(depth);
        flame.parent.push(open.last().copied().unwrap_or(-1));
        open.push(flame.name.len() as i64);
        flame.name.push(name);
        flame.own_ns.push(node.own.ns);
        flame.ns.push(node.cumulated.ns);
        flame.kernel.push(u8::from(place.kind == FrameKind::Kernel));
    }
    flame
}
