//! The selection of stacks, and its result as JSON. The terminal's form is the section `stacks`.

use std::collections::BTreeSet;

use holdup_events::Trace;
use holdup_events::tables::StackEnd;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::stacks::{
    Completeness, Direction, Ends, FlatRow, Folding, Node, PlaceId, Profile, Selection, Tally, Tree, wakers,
};
use serde_json::{Map, Value, json};

/// How stacks are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One row a function.
    #[default]
    Flat,
    /// From callers to callees.
    Tree,
    /// From callees up to callers.
    Callers,
}

/// The selection.
#[derive(Clone, Debug, PartialEq)]
pub struct StackAsk {
    /// Which part of the recording.
    pub selection: Selection,
    /// Classes were named: they are shown as one, not on-CPU and blocked apart.
    pub classes_named: bool,
    /// Which frames are shown.
    pub folding: Folding,
    /// Only stacks through this function, with its callers and callees.
    pub function: Option<String>,
    /// Only waits, each stack going on with the threads that ended it.
    pub wakers: bool,
    /// How.
    pub shape: Shape,
    /// Rows below this share (0 to 1) are left out.
    pub share_min: f64,
    /// How much the program did, if allocations are to be divided by it.
    pub operations: Option<u64>,
    /// Whether to show each thread's steps over time, too.
    pub over_time: bool,
}

/// Default of [`StackAsk::share_min`].
pub const SHARE_MIN: f64 = 0.005;

impl Default for StackAsk {
    fn default() -> StackAsk {
        StackAsk {
            selection: Selection::all(),
            classes_named: false,
            folding: Folding::built_in(),
            function: None,
            wakers: false,
            over_time: false,
            shape: Shape::Flat,
            share_min: SHARE_MIN,
            operations: None,
        }
    }
}

/// Groups of classes that can be named instead of the single classes.
pub const CLASS_GROUPS: [&str; 3] = ["on-cpu", "off-cpu", "all"];

/// Classes of a list of names: `lock-wait,on-cpu`.
///
/// # Errors
/// The name that is none, with those that are.
pub fn parse_classes(names: &str) -> Result<Selection, String> {
    let mut wanted = [false; holdup_findings::derive::class::CLASSES];
    for name in names.split(',').map(str::trim) {
        let has = |class: &Class| match name {
            "all" => true,
            "on-cpu" => class.on_cpu(),
            "off-cpu" => !class.on_cpu() && *class != Class::Stolen,
            name => class.name() == name,
        };
        let found: Vec<Class> = Class::ALL.into_iter().filter(has).collect();
        if found.is_empty() {
            let mut names: Vec<&str> = CLASS_GROUPS.to_vec();
            names.extend(Class::ALL.iter().map(|class| class.name()));
            return Err(format!("'{name}' is not a class: there are {}", names.join(", ")));
        }
        found.iter().for_each(|class| wanted[*class as usize] = true);
    }
    Ok(Selection::all().only(|class| wanted[class as usize]))
}

impl StackAsk {
    /// The weighted stacks of a part of the selection.
    pub(crate) fn profile(&self, trace: &Trace, selection: &Selection) -> Profile {
        match self.wakers {
            true => wakers::derive(trace, selection, &self.folding),
            false => Profile::derive(trace, selection, &self.folding),
        }
    }

    /// The selected functions. Empty if no function of that name was seen.
    pub(crate) fn focus(&self, profile: &Profile) -> Option<BTreeSet<PlaceId>> {
        self.function.as_ref().map(|name| profile.find(name))
    }

    /// The tree that is asked for, if one is.
    pub(crate) fn tree(&self, profile: &Profile) -> Option<Tree> {
        let direction = match self.shape {
            Shape::Flat => return None,
            Shape::Tree => Direction::Down,
            Shape::Callers => Direction::Up,
        };
        Some(Tree::derive(profile, direction, self.focus(profile).as_ref()))
    }
}

/// The answer as JSON.
pub(crate) fn to_json(trace: &Trace, ask: &StackAsk) -> Value {
    let profile = ask.profile(trace, &ask.selection);
    let observed = &profile.observed;
    let whole = Completeness::derive(trace);
    let focus = ask.focus(&profile);
    let tree = ask.tree(&profile);
    let least = (profile.all.ns as f64 * ask.share_min) as u64;
    let enough = |tally: &Tally| tally.ns > 0 && tally.ns >= least;
    let around = focus.as_ref().map(|focus| profile.neighbours(focus)).unwrap_or_default();
    let near = |list: &[(Option<PlaceId>, Tally)]| {
        let rows = list.iter().filter(|(_, tally)| enough(tally));
        rows.map(|(id, tally)| {
            named(&profile, *id, json!({"ns": tally.ns, "error_ns": tally.error_ns(&profile.all)}))
        })
        .collect::<Value>()
    };
    let rows = profile.flat();
    let nodes = tree.as_ref().map(|tree| tree.walk(|node| enough(&node.cumulated))).unwrap_or_default();
    json!({
        "total_ns": profile.all.ns,
        "classes": profile.by_class(focus.as_ref()).iter()
            .map(|(class, tally)| (class.name().to_owned(), Value::from(tally.ns))).collect::<Map<_, _>>(),
        "samples": observed.samples,
        "slices": observed.slices,
        "slices_with_stack": observed.slices_with_stack,
        "slices_sampled": observed.slices_sampled,
        "wakers": observed.wakers,
        "wakers_with_stack": observed.wakers_with_stack,
        "wakers_sampled": observed.wakers_sampled,
        "completeness": json!({"on_cpu": ends(&whole.on_cpu), "blocked": ends(&whole.blocked)}),
        "share_min": ask.share_min,
        "function": ask.function,
        "functions": rows.iter().filter(|row| enough(&row.cumulated)).map(|row| flat(&profile, row))
            .collect::<Value>(),
        "callers": near(&around.callers),
        "callees": near(&around.callees),
        "threads": profile.by_thread(focus.as_ref()).iter().map(|(thread, tally)| json!({
            "id": thread.0,
            "tid": trace.threads.get(thread.index()).map(|thread| thread.tid),
            "name": trace.threads.get(thread.index()).map(|thread| &thread.name),
            "ns": tally.ns,
        })).collect::<Value>(),
        "tree": nodes.iter().map(|(depth, node)| tree_row(&profile, *depth, node)).collect::<Value>(),
    })
}

fn ends(ends: &Ends) -> Value {
    let by_end = StackEnd::ALL.iter().map(|end| (end.name().to_owned(), Value::from(ends.count(*end))));
    json!({"stacks": ends.stacks(), "complete": ends.complete(), "ends": by_end.collect::<Map<_, _>>()})
}

fn named(profile: &Profile, id: Option<PlaceId>, mut row: Value) -> Value {
    let place = id.map(|id| profile.place(id));
    row["function"] = place.map(|place| place.name.clone()).into();
    row["module"] = place.map(|place| place.module.clone()).into();
    row
}

fn flat(profile: &Profile, row: &FlatRow) -> Value {
    let figures = json!({
        "own_ns": row.own.ns,
        "own_error_ns": row.own.error_ns(&profile.all),
        "cumulated_ns": row.cumulated.ns,
        "cumulated_error_ns": row.cumulated.error_ns(&profile.all),
    });
    named(profile, Some(row.place), figures)
}

fn tree_row(profile: &Profile, depth: usize, node: &Node) -> Value {
    let figures = json!({
        "depth": depth,
        "own_ns": node.own.ns,
        "cumulated_ns": node.cumulated.ns,
        "cumulated_error_ns": node.cumulated.error_ns(&profile.all),
    });
    named(profile, Some(node.place), figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_names_and_groups() {
        let has = |names| {
            let selection = parse_classes(names).unwrap();
            Class::ALL.into_iter().filter(|class| selection.has(*class)).collect::<Vec<_>>()
        };
        assert_eq!(has("on-cpu"), Class::ON_CPU);
        assert_eq!(has("lock-wait, sleep"), [Class::LockWait, Class::Sleep]);
        assert_eq!(has("all").len(), Class::ALL.len());
        assert!(parse_classes("lock").unwrap_err().contains("there are on-cpu, off-cpu, all, useful"));
    }
}
