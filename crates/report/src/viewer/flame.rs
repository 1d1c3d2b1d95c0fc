//! `api/flame`: stacks added up to a tree, of a kind of time, a range, some threads.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::Trace;
use holdup_events::tables::{FrameKind, SampleRow};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::stacks::{Direction, Folding, Place, PlaceId, Profile, Selection, Tree, wakers};
use holdup_findings::descriptors::Role;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Ask, Refusal, Stage, Viewer, to_text};
use crate::stacks::parse_classes;

pub(super) const PARAMETERS: &[&str] =
    &["kind", "from", "to", "threads", "reverse", "function", "min", "against"];

/// Kinds of time to choose from. Each class is another kind.
const KINDS: &[(&str, &str)] = &[
    ("on-cpu", "On CPU"),
    ("off-cpu", "Off CPU"),
    ("wakers", "Waits and what ended them"),
    ("lock-wait", "Lock waits"),
    (ALLOCATION, "Allocation (on CPU)"),
    ("all", "All time"),
];

/// Running time in functions that, as the runtimes' descriptors know, hand out memory or take it back.
const ALLOCATION: &str = "allocation";

/// Default share below which nodes are left out.
const SHARE_MIN: f64 = 0.0005;

/// Profiles that were asked for last: a reader turns the same one around.
const KEPT_MAX: usize = 8;

/// Cached profiles, the last used one at the end.
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
    /// Times of the other recording. `None` if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_ns: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_total_ns: Option<u64>,
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
        ALLOCATION => parse_classes("on-cpu").map_err(Refusal::Bad)?,
        kind => parse_classes(kind).map_err(Refusal::Bad)?,
    };
    selection.descriptors = viewer.roles.descriptors.clone();
    (selection.from, selection.to) = viewer.range(ask)?;
    selection.threads = viewer.threads(ask)?;
    let min: f64 = match ask.text("min").map(str::parse) {
        None => SHARE_MIN,
        Some(Ok(share)) if (0.0..=1.0).contains(&share) => share,
        Some(_) => return Err(Refusal::bad("min wants a share from 0 to 1")),
    };
    let key = format!("{kind} {:?} {:?} {:?}", selection.from, selection.to, selection.threads);
    let profile = kept(viewer, &key, || fold(&viewer.trace, kind, &selection, || viewer.roles.clone()));
    let focus = ask.text("function").map(|name| places_named(&profile, name));
    if focus.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(Refusal::not_there("no stack goes through a function of that name"));
    }
    let direction = if ask.flag("reverse")? { Direction::Up } else { Direction::Down };
    let tree = Tree::derive(&profile, direction, focus.as_ref());
    let mut before = None;
    if ask.flag("against")? {
        let other = before_profile(viewer, kind, &selection)?;
        let focus = ask.text("function").map(|name| places_named(&other, name));
        before = Some((Tree::derive(&other, direction, focus.as_ref()), other));
    }
    let before = before.as_ref().map(|(tree, profile)| Before::new(profile, tree));
    Ok(to_text(&columns(kind, (&profile, &tree), min, before.as_ref())))
}

/// The functions of that very name: another whose name holds it would be shown under a name that is not its own.
fn places_named(profile: &Profile, name: &str) -> BTreeSet<PlaceId> {
    let seen: BTreeSet<PlaceId> = profile.paths.iter().flatten().copied().collect();
    seen.into_iter().filter(|id| profile.place(*id).name == name).collect()
}

/// The same kind of time in the recording that is compared with, all of it: its threads and times are its own.
fn before_profile(
    viewer: &Viewer,
    kind: &str,
    selection: &Selection,
) -> Result<std::sync::Arc<Profile>, Refusal> {
    let Some(against) = &viewer.against else {
        return Err(Refusal::not_there("there is no other recording to compare with"));
    };
    let Some(trace) = against.trace.get() else { return Err(Refusal::Later(Stage::Other)) };
    let (classes, descriptors) = (selection.classes, selection.descriptors.clone());
    let selection = Selection { classes, descriptors, ..Selection::all() };
    let roles = || Roles::derive(trace, &selection.descriptors);
    Ok(kept(viewer, &format!("before {kind}"), || fold(trace, kind, &selection, roles)))
}

/// Nodes of the other recording's tree, found by their names below their parents.
struct Before<'a> {
    tree: &'a Tree,
    children: BTreeMap<(Option<usize>, &'a str, &'a str), usize>,
}

impl<'a> Before<'a> {
    fn new(profile: &'a Profile, tree: &'a Tree) -> Before<'a> {
        let mut children = BTreeMap::new();
        let mut add = |parent, rows: &[usize]| {
            for row in rows {
                let place = profile.place(tree.nodes[*row].place);
                children.insert((parent, place.name.as_str(), place.module.as_str()), *row);
            }
        };
        add(None, &tree.roots);
        for (row, node) in tree.nodes.iter().enumerate() {
            add(Some(row), &node.children);
        }
        Before { tree, children }
    }

    /// The node of that name below `parent`. What the nodes above are not in, it is not in either.
    fn child(&self, parent: Option<Option<usize>>, place: &'a Place) -> Option<usize> {
        let parent = match parent {
            None => None,
            Some(None) => return None,
            Some(known) => known,
        };
        self.children.get(&(parent, place.name.as_str(), place.module.as_str())).copied()
    }

    fn ns(&self, row: Option<usize>) -> u64 {
        row.map_or(0, |row| self.tree.nodes[row].cumulated.ns)
    }
}

/// `roles` are those of the trace.
fn fold(trace: &Trace, kind: &str, selection: &Selection, roles: impl FnOnce() -> Roles) -> Profile {
    let folding = Folding::built_in();
    if kind == "wakers" {
        return wakers::derive(trace, selection, &folding);
    }
    let mut profile = Profile::derive(trace, selection, &folding);
    if kind == ALLOCATION {
        let roles = roles();
        profile.keep(|seen| {
            let sample = SampleRow { thread: seen.thread, stack: seen.stack, ..SampleRow::default() };
            let rule = roles.of_sample(&sample).and_then(|rule| roles.descriptors.rule(rule));
            rule.is_some_and(|(_, rule)| rule.role == Role::Allocator)
        });
    }
    profile
}

/// Returns the cached profile of this key, or makes it.
fn kept(viewer: &Viewer, key: &str, make: impl FnOnce() -> Profile) -> std::sync::Arc<Profile> {
    let known = |kept: &mut Kept| {
        let place = kept.0.iter().position(|(known, _)| known == key)?;
        let found = kept.0.remove(place);
        kept.0.push(found.clone());
        Some(found.1)
    };
    if let Some(found) = viewer.flames.lock().ok().and_then(|mut kept| known(&mut kept)) {
        return found;
    }
    let made = std::sync::Arc::new(make());
    if let Ok(mut kept) = viewer.flames.lock() {
        kept.0.push((key.to_owned(), made.clone()));
        let surplus = kept.0.len().saturating_sub(KEPT_MAX);
        kept.0.drain(..surplus);
    }
    made
}

fn columns<'a>(
    kind: &str,
    (profile, tree): (&'a Profile, &Tree),
    min: f64,
    before: Option<&Before<'a>>,
) -> Flame {
    let total_ns: u64 = tree.roots.iter().map(|root| tree.nodes[*root].cumulated.ns).sum();
    let least = (total_ns as f64 * min) as u64;
    let (observed, kept) = (&profile.observed, profile.kept());
    let mut flame = Flame {
        kind: kind.to_owned(),
        total_ns,
        error_ns: kept.error_ns(&profile.all),
        samples: kept.samples,
        slices: observed.slices,
        slices_with_stack: observed.slices_with_stack,
        before_ns: before.map(|_| Vec::new()),
        before_total_ns: before.map(|other| other.tree.roots.iter().map(|root| other.ns(Some(*root))).sum()),
        ..Flame::default()
    };
    // The same nodes of the other tree, above the current node.
    let mut were: Vec<Option<usize>> = Vec::new();
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
        if let (Some(other), Some(before_ns)) = (before, &mut flame.before_ns) {
            were.truncate(depth);
            let was = other.child(were.last().copied(), place);
            were.push(was);
            before_ns.push(other.ns(was));
        }
    }
    flame
}
