//! Where each frame's box is: its width is its share of the whole, its row is its depth.

use std::collections::BTreeMap;

/// Maximum number of rows, because browsers limit the height of a picture.
const ROWS_MAX: usize = 1000;

/// One frame of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    /// The name.
    pub name: String,
    /// The module. Empty if unknown.
    pub module: String,
}

/// A stack with its time, root first.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The frames.
    pub steps: Vec<Step>,
    /// Kind of time: what its colour is (row of the legend).
    pub kind: usize,
    /// The time (ns).
    pub ns: u64,
    /// The time in the recording to compare with (ns).
    pub before_ns: u64,
}

/// One box.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The name.
    pub name: String,
    /// Where it is from.
    pub module: String,
    /// Row, from the root.
    pub depth: usize,
    /// Left end as a share (0 to 1) of the whole.
    pub from: f64,
    /// Width as a share of the whole.
    pub width: f64,
    /// Kind of time.
    pub kind: usize,
    /// The time (ns).
    pub ns: u64,
    /// The time in the other recording (ns).
    pub before_ns: u64,
}

/// All boxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Callers before callees, left to right.
    pub frames: Vec<Frame>,
    /// Time of the whole (ns).
    pub total_ns: u64,
    /// The same of the other recording (ns).
    pub before_total_ns: u64,
    /// Boxes that were too narrow or too high to be seen, without those above them.
    pub hidden: usize,
}

#[derive(Default)]
struct Node {
    ns: u64,
    before_ns: u64,
    children: BTreeMap<(usize, Step), Node>,
}

impl Graph {
    /// Lays out the paths. Boxes below `share_min` of the whole are left out.
    pub(crate) fn lay_out(paths: Vec<Path>, share_min: f64) -> Graph {
        let mut root = Node::default();
        for path in paths {
            let mut node = &mut root;
            node.ns += path.ns;
            node.before_ns += path.before_ns;
            for step in path.steps {
                node = node.children.entry((path.kind, step)).or_default();
                node.ns += path.ns;
                node.before_ns += path.before_ns;
            }
        }
        let mut graph = Graph { total_ns: root.ns, before_total_ns: root.before_ns, ..Graph::default() };
        // By hand, not by calls: a stack may be deeper than ours.
        let mut open = vec![(&root, 0usize, 0u64)];
        while let Some((node, depth, from)) = open.pop() {
            let mut from = from;
            for ((kind, step), child) in &node.children {
                let share = |ns: u64| ns as f64 / root.ns.max(1) as f64;
                if child.ns == 0 {
                    // It is in the recording before only.
                    continue;
                }
                if share(child.ns) < share_min || depth == ROWS_MAX {
                    graph.hidden += 1;
                } else {
                    graph.frames.push(Frame {
                        name: step.name.clone(),
                        module: step.module.clone(),
                        depth,
                        from: share(from),
                        width: share(child.ns),
                        kind: *kind,
                        ns: child.ns,
                        before_ns: child.before_ns,
                    });
                    open.push((child, depth + 1, from));
                }
                from += child.ns;
            }
        }
        graph
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0)
    }
}

impl Drop for Node {
    /// Deep trees are taken apart level by level.
    fn drop(&mut self) {
        let mut open: Vec<Node> = std::mem::take(&mut self.children).into_values().collect();
        while let Some(mut node) = open.pop() {
            open.extend(std::mem::take(&mut node.children).into_values());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &str, kind: usize, ns: u64) -> Path {
        let step = |name: &str| Step { name: name.into(), module: String::new() };
        Path { steps: names.split(' ').map(step).collect(), kind, ns, before_ns: 0 }
    }

    #[test]
    fn children_lie_within_their_parent_side_by_side() {
        let paths =
            vec![path("main a", 0, 30), path("main b", 0, 50), path("main", 0, 20), path("main c", 1, 100)];
        let graph = Graph::lay_out(paths, 0.0);
        let said: Vec<(&str, usize, f64, f64)> = graph
            .frames
            .iter()
            .map(|frame| (frame.name.as_str(), frame.depth, frame.from, frame.width))
            .collect();
        // One name in two kinds of time is two boxes.
        assert_eq!(
            said,
            [
                ("main", 0, 0.0, 0.5),
                ("main", 0, 0.5, 0.5),
                ("c", 1, 0.5, 0.5),
                ("a", 1, 0.0, 0.15),
                ("b", 1, 0.15, 0.25),
            ]
        );
        assert_eq!((graph.total_ns, graph.rows(), graph.hidden), (200, 2, 0));
    }

    #[test]
    fn what_is_too_narrow_is_counted() {
        let graph = Graph::lay_out(vec![path("a b", 0, 999), path("c", 0, 1)], 0.01);
        assert_eq!((graph.frames.len(), graph.hidden), (2, 1));
    }

    #[test]
    fn a_very_deep_stack_is_no_harm() {
        let steps = (0..60_000).map(|_| Step { name: "f".into(), module: String::new() }).collect();
        let graph = Graph::lay_out(vec![Path { steps, kind: 0, ns: 1, before_ns: 0 }], 0.0);
        assert_eq!((graph.rows(), graph.hidden), (ROWS_MAX, 1));
    }
}
