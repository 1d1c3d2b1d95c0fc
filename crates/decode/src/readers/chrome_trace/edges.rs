//! Begins and ends that are told apart → spans. They come in any order of time; those of a thread nest.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::SpanKind;

use super::json::{Entry, Key};
use super::people::People;
use crate::telling::{Telling, Who};

/// Spans that overlap have lanes of their own, so many at the most for a process and category.
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

/// Where an asynchronous span belongs, and what tells it from others.
type Group = (Key, String);
type Identity = (Group, String, Key);

/// All of them.
#[derive(Default)]
pub(super) struct Edges {
    edges: Vec<(Edge, u32)>,
    names: Vec<String>,
    ids: HashMap<String, u32>,
    open: HashMap<Identity, Vec<u64>>,
    /// Start, end, name.
    done: BTreeMap<Group, Vec<(u64, u64, u32)>>,
    unmatched: u64,
}

impl Edges {
    /// A begin or an end on a thread; an end may have no name.
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

    /// A begin or an end that belongs to no thread.
    pub fn asynchronous(&mut self, entry: &Entry, begins: bool) {
        let Some(at) = entry.ts.0 else { return };
        let group = (entry.pid.clone(), entry.cat.to_string());
        let identity = (group, entry.name.to_string(), entry.id.clone());
        if begins {
            self.open.entry(identity).or_default().push(at);
            return;
        }
        match self.open.get_mut(&identity).and_then(Vec::pop) {
            Some(start) => {
                let name = self.name(&identity.1);
                self.done.entry(identity.0).or_default().push((start, at.max(start), name));
            }
            None => self.unmatched += 1,
        }
    }

    /// Tells them as spans.
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
        for _ in 0..self.unmatched {
            telling.lose("end-without-begin");
        }
        self.lay_out(people, telling);
    }

    /// Spans that never end last as long as the file.
    fn leave_open(&self, open: &mut Vec<(Edge, u32)>, telling: &mut Telling) {
        for (edge, name) in open.drain(..) {
            let name = self.names.get(name as usize).map_or("", String::as_str);
            telling.begin(edge.who, edge.at, edge.kind, name);
        }
    }

    /// Puts spans that overlap on lanes beside each other.
    fn lay_out(&mut self, people: &mut People, telling: &mut Telling) {
        for ((pid, category), mut spans) in std::mem::take(&mut self.done) {
            spans.sort();
            let mut lanes: Vec<(u64, Who)> = Vec::new();
            for (start, end, name) in spans {
                let free = lanes.iter().position(|(until, _)| *until <= start);
                let place = match free {
                    Some(place) => place,
                    None if lanes.len() >= LANES_MAX => lanes.len() - 1,
                    None => {
                        let title = format!("{category} {}", lanes.len() + 1);
                        let Some(who) = people.beside(&pid, title, telling) else { return };
                        lanes.push((0, who));
                        lanes.len() - 1
                    }
                };
                let Some((until, who)) = lanes.get_mut(place) else { continue };
                *until = end.max(*until);
                let name = self.names.get(name as usize).map_or("", String::as_str);
                telling.span(*who, (start, end), SpanKind::User, name);
            }
        }
    }
}
