//! A call tree: cumulated and own time of each node, down or up.

use holdup_findings::derive::stacks::{Node, Profile};

use super::{is_shown, of_all};
use crate::numbers::duration;
use crate::stacks::Shape;
use crate::terminal::View;
use crate::text::{Tint, clean, right};

/// Nodes that are printed.
const ROWS_MAX: usize = 200;
/// Deeper nodes are no further indented: the line has an end.
const INDENT_MAX: usize = 30;

pub(super) fn lines(view: &View, profile: &Profile) -> Vec<String> {
    let Some(tree) = view.stacks.tree(profile) else { return Vec::new() };
    let nodes = tree.walk(|node| is_shown(view, profile, &node.cumulated));
    let up = view.stacks.shape == Shape::Callers;
    let what = if up { "function, called by" } else { "function, calls" };
    let head = format!(
        "  {}{}{}  {}  {what}",
        right("cumulated", 10),
        if profile.all.is_exact() { String::new() } else { right("±", 11) },
        right("share", 9),
        right(if up { "" } else { "self" }, 9)
    );
    let mut lines = vec![view.style.paint(Tint::Faint, &head)];
    lines.extend(nodes.iter().take(ROWS_MAX).map(|(depth, node)| line(view, profile, *depth, node)));
    if nodes.len() > ROWS_MAX {
        lines.push(super::super::nothing(
            view,
            &format!("and {} more (--min raises the threshold)", nodes.len() - ROWS_MAX),
        ));
    }
    lines
}

fn line(view: &View, profile: &Profile, depth: usize, node: &Node) -> String {
    let place = profile.place(node.place);
    // Upwards, a path ends at its root: that is nobody's own time.
    let own = if node.own.ns > 0 && view.stacks.shape == Shape::Tree {
        duration(node.own.ns)
    } else {
        String::new()
    };
    let error = match profile.all.is_exact() {
        true => String::new(),
        false => right(&super::error(&node.cumulated, &profile.all), 11),
    };
    let figures = format!(
        "  {}{error}{}  {}  ",
        right(&duration(node.cumulated.ns), 10),
        right(&of_all(&node.cumulated, &profile.all), 9),
        right(&own, 9),
    );
    let name = format!("{:indent$}{}", "", clean(&place.name), indent = depth.min(INDENT_MAX));
    let left = view.style.columns().saturating_sub(crate::text::width(&figures));
    format!("{figures}{}", view.style.fit(&name, left))
}
