//! Separate begin and end events → spans. Events may be out of order. Spans of a thread nest.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::SpanKind;

use super::json::{Entry, Key};
use super::people::People;
use crate::telling::{Telling, Who};

/// Maximum number of lanes for overlapping spans of a process and category.
const LANES_MAX: usize = 32;

/// A begin or an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub who: Who,
    /// When (ns).
    pub at: u64,
    pub begins: bool,
    pub kind: SpanKind,
}

/// Where an asynchronous span belongs: process and category.
type Group = (Key, String);
/// Spans of one group and id nest.
type Identity = (Group, Key);

/// A begin or an end of an asynchronous span.
#[derive(Clone, Copy, Debug)]
struct AsyncEdge {
    at: u64,
    begins: bool,
    name: u32,
}

/// An asynchronous span. Without an end, it lasts until the end of the file.
type AsyncSpan = (u64, Option<u64>, u32);

/// All of them.
#[derive(Default)]
pub(super) struct Edges {
    edges: Vec<(Edge, u32)>,
    names: Vec<String>,
    ids: HashMap<String, u32>,
    asynchronous: BTreeMap<Identity, Vec<AsyncEdge>>,
    unmatched: u64,
}

impl Edges {
    /// A begin or end event on a thread. An end may have no name.
    pub fn push(&mut self, edge: Edge, name: &str) {
        let name = self.name(name);
        self.edges.push((edge, name));
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// A begin or an end that belongs to no thread. Writers put out their buffers thread by thread, so an end may come before its begin.
    pub fn asynchronous(&mut self, entry: &Entry, at: u64, begins: bool) {
        let group = (entry.pid.clone(), entry.cat.to_string());
        let name = self.name(&entry.name);
        let edges = self.asynchronous.entry((group, entry.id.clone())).or_default();
        edges.push(AsyncEdge { at, begins, name });
    }

    /// The asynchronous spans of each group.
    fn matched(&mut self) -> BTreeMap<Group, Vec<AsyncSpan>> {
        let unnamed = self.ids.get("").copied();
        let mut done: BTreeMap<Group, Vec<AsyncSpan>> = BTreeMap::new();
        for ((group, _), edges) in std::mem::take(&mut self.asynchronous) {
            self.unmatched += match_edges(edges, unnamed, done.entry(group).or_default());
        }
        done
    }

    /// Emits the edges as spans.
    pub fn finish(mut self, people: &mut People, telling: &mut Telling) {
        self.edges.sort_by_key(|(edge, _)| (edge.who, edge.at));
        let mut open: Vec<(Edge, u32)> = Vec::new();
        let empty = self.ids.get("").copied();
        for (edge, name) in std::mem::take(&mut self.edges) {
            if open.last().is_some_and(|(last, _)| last.who != edge.who) {
                self.leave_open(&mut open, telling);
            }
            if edge.begins {
                open.push((edge, name));
                continue;
            }
            let place = open.iter().rposition(|(_, begun)| Some(name) == empty || *begun == name);
            match place.map(|place| open.remove(place)) {
                Some((begun, name)) => {
                    let name = self.names.get(name as usize).map_or("", String::as_str);
                    telling.span(begun.who, (begun.at, edge.at), begun.kind, name);
                }
                None => self.unmatched += 1,
            }
        }
        self.leave_open(&mut open, telling);
        let asynchronous = self.matched();
        for _ in 0..self.unmatched {
            telling.lose("end-without-begin");
        }
        self.lay_out(asynchronous, people, telling);
    }

    /// Spans that never end last as long as the file.
    fn leave_open(&self, open: &mut Vec<(Edge, u32)>, telling: &mut Telling) {
        for (edge, name) in open.drain(..) {
            let name = self.names.get(name as usize).map_or("", String::as_str);
            telling.begin(edge.who, edge.at, edge.kind, name);
        }
    }

    /// Puts overlapping spans on separate lanes.
    fn lay_out(&self, spans: BTreeMap<Group, Vec<AsyncSpan>>, people: &mut People, telling: &mut Telling) {
        for ((pid, category), mut spans) in spans {
            spans.sort();
            let mut lanes: Vec<(u64, Who)> = Vec::new();
            for (start, end, name) in spans {
                let free = lanes.iter().position(|(until, _)| *until <= start);
                let place = match free {
                    Some(place) => place,
                    None if lanes.len() >= LANES_MAX => lanes.len() - 1,
                    None => {
                        let title = format!("{category} {}", lanes.len() + 1);
                        let Some(who) = people.add_lane(&pid, title, telling) else { return };
                        lanes.push((0, who));
                        lanes.len() - 1
                    }
                };
                let Some((until, who)) = lanes.get_mut(place) else { continue };
                *until = end.unwrap_or(u64::MAX).max(*until);
                let name = self.names.get(name as usize).map_or("", String::as_str);
                match end {
                    Some(end) => telling.span(*who, (start, end), SpanKind::User, name),
                    None => telling.begin(*who, start, SpanKind::User, name),
                }
            }
        }
    }
}

/// Puts the begins and ends of one id together, in the order of time: an end without a name ends the innermost span. Returns how many
/// ends have no begin.
fn match_edges(mut edges: Vec<AsyncEdge>, unnamed: Option<u32>, done: &mut Vec<AsyncSpan>) -> u64 {
    // At equal times, open spans end before new ones begin.
    edges.sort_by_key(|edge| (edge.at, edge.begins));
    let (mut open, mut early): (Vec<AsyncEdge>, Vec<AsyncEdge>) = (Vec::new(), Vec::new());
    let mut unmatched = 0;
    for edge in edges {
        let is_same = |other: &AsyncEdge| {
            other.name == edge.name
                || unnamed.is_some() && (Some(edge.name) == unnamed || Some(other.name) == unnamed)
        };
        if !edge.begins {
            match open.iter().rposition(is_same).map(|place| open.remove(place)) {
                Some(begun) => done.push((begun.at, Some(edge.at), begun.name)),
                None => early.push(edge),
            }
            continue;
        }
        // A span without length: its end was sorted before its begin.
        match early.iter().position(|end| end.at == edge.at && is_same(end)).map(|place| early.remove(place))
        {
            Some(_) => done.push((edge.at, Some(edge.at), edge.name)),
            None => open.push(edge),
        }
        let before = early.len();
        early.retain(|end| end.at == edge.at);
        unmatched += (before - early.len()) as u64;
    }
    done.extend(open.into_iter().map(|begun| (begun.at, None, begun.name)));
    unmatched + early.len() as u64
}
