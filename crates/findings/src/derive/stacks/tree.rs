//! Call trees: from the root down, or from a function up to its callers.

use std::collections::{BTreeMap, BTreeSet};

use super::places::PlaceId;
use super::profile::Profile;
use super::tally::Tally;

/// Which way a tree grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From callers to callees.
    #[default]
    Down,
    /// From callees to callers.
    Up,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Which function.
    pub place: PlaceId,
    /// Time of paths that end here.
    pub own: Tally,
    /// Time of all paths through here.
    pub cumulated: Tally,
    /// Rows of [`Tree::nodes`], the most time first.
    pub children: Vec<usize>,
}

/// A tree of all paths, or of those through some function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Root nodes, most time first.
    pub roots: Vec<usize>,
}

impl Tree {
    /// Tree of a profile. With `focus`, only paths that contain one of these functions, from its outermost
    /// call on or up to it. An upward tree without `focus` begins at the leaf.
    pub fn derive(profile: &Profile, direction: Direction, focus: Option<&BTreeSet<PlaceId>>) -> Tree {
        let mut growing = Growing::default();
        for (row, tally) in profile.by_path() {
            let path = profile.paths[row].as_slice();
            let at = match focus {
                None => Some(0),
                Some(focus) => path.iter().position(|place| focus.contains(place)),
            };
            match (at, direction) {
                (None, _) => {}
                (Some(at), Direction::Down) => growing.add(path[at..].iter().copied(), &tally),
                (Some(at), Direction::Up) => {
                    let upto = if focus.is_some() { at + 1 } else { path.len() };
                    growing.add(path[..upto].iter().rev().copied(), &tally);
                }
            }
        }
        growing.finish(profile)
    }

    /// Nodes with their depth, in print order. A node and its subtree are left out if `enters` returns false.
    pub fn walk(&self, enters: impl Fn(&Node) -> bool) -> Vec<(usize, &Node)> {
        let mut out = Vec::new();
        let mut open: Vec<(usize, usize)> = self.roots.iter().rev().map(|row| (0, *row)).collect();
        while let Some((depth, row)) = open.pop() {
            let node = &self.nodes[row];
            if enters(node) {
                out.push((depth, node));
                open.extend(node.children.iter().rev().map(|child| (depth + 1, *child)));
            }
        }
        out
    }
}

#[derive(Default)]
struct Growing {
    nodes: Vec<Node>,
    /// Node by parent and place.
    index: BTreeMap<(Option<usize>, PlaceId), usize>,
}

impl Growing {
    fn add(&mut self, path: impl Iterator<Item = PlaceId>, tally: &Tally) {
        let mut parent = None;
        for place in path {
            let next = self.nodes.len();
            let row = *self.index.entry((parent, place)).or_insert(next);
            if row == next {
                let empty = Tally::default();
                self.nodes.push(Node { place, own: empty, cumulated: empty, children: Vec::new() });
            }
            self.nodes[row].cumulated.merge(tally);
            parent = Some(row);
        }
        if let Some(row) = parent {
            self.nodes[row].own.merge(tally);
        }
    }

    fn finish(self, profile: &Profile) -> Tree {
        let mut tree = Tree { nodes: self.nodes, roots: Vec::new() };
        for ((parent, _), row) in self.index {
            match parent {
                Some(parent) => tree.nodes[parent].children.push(row),
                None => tree.roots.push(row),
            }
        }
        let rank: Vec<(u64, &str)> = tree
            .nodes
            .iter()
            .map(|node| (node.cumulated.ns, profile.place(node.place).name.as_str()))
            .collect();
        let before = |a: &usize, b: &usize| {
            rank[*b].0.cmp(&rank[*a].0).then_with(|| rank[*a].1.cmp(rank[*b].1)).then(a.cmp(b))
        };
        tree.roots.sort_by(before);
        for node in &mut tree.nodes {
            node.children.sort_by(before);
        }
        tree
    }
}
