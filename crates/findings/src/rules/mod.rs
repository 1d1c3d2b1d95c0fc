//! The rules. One file a cause; its module documentation is the user's manual page.

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::finding::Finding;

/// What everybody needs to know about a rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleInfo {
    /// Kebab-case id, for ever.
    pub name: &'static str,
    /// One line, at most 80 characters, no full stop.
    pub summary: &'static str,
    /// The manual page (Markdown), from the file's module documentation.
    pub manual: &'static str,
}

/// Judges every rule: ranked findings, and the rules that could not be judged with the reason.
pub fn judge(_trace: &Trace, _derived: &Derived) -> (Vec<Finding>, Vec<(&'static str, String)>) {
    (Vec::new(), Vec::new())
}

/// Every rule, in the order of the registry.
pub fn all() -> Vec<RuleInfo> {
    Vec::new()
}
