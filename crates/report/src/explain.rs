//! What `holdup explain` says: the list of rules, and each rule's manual page.

use holdup_findings::rules::{self, RuleInfo};
use serde_json::{Value, json};

use crate::text::{Style, Tint, clean, left, wrap};

/// A rule that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule `{name}`; there are: {}", names.join(", "))]
pub struct UnknownRule {
    /// What was asked for, made harmless.
    pub name: String,
    /// What there is.
    pub names: Vec<&'static str>,
}

/// Every rule with its summary.
pub fn render_rules(style: &Style) -> String {
    let rules = rules::all();
    let name_width = rules.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for rule in &rules {
        let behind = name_width + 2;
        for (index, text) in wrap(rule.summary, style.columns() - behind, 0).iter().enumerate() {
            let name = if index == 0 { rule.name } else { "" };
            lines.push(format!("{}  {text}", style.paint(Tint::Strong, &left(name, name_width))));
        }
    }
    lines.push(String::new());
    lines.push("`holdup explain RULE`: what it means, how it decides, its blind spots.".to_owned());
    style.finish(&lines)
}

/// A rule's manual page.
///
/// # Errors
/// If there is no such rule.
pub fn render_rule(name: &str, style: &Style) -> Result<String, UnknownRule> {
    let rule = find(name)?;
    let mut lines = Vec::new();
    let mut paragraph = String::new();
    for line in rule.manual.lines().chain([""]) {
        let heading = line.trim_start_matches('#').trim();
        let starts_item = line.starts_with("- ");
        if line.is_empty() || line.starts_with('#') || starts_item {
            let indent = if paragraph.starts_with("- ") { 2 } else { 0 };
            lines.extend(wrap(&paragraph, style.columns(), indent));
            paragraph.clear();
        }
        match line {
            "" => lines.push(String::new()),
            _ if line.starts_with('#') => {
                let wrapped = wrap(heading, style.columns(), 2);
                lines.extend(wrapped.iter().map(|line| style.paint(Tint::Heading, line)));
            }
            _ => {
                paragraph.push(' ');
                paragraph.push_str(line);
                paragraph = paragraph.trim_start().to_owned();
            }
        }
    }
    Ok(style.finish(&lines).trim_end().to_owned() + "\n")
}

fn find(name: &str) -> Result<RuleInfo, UnknownRule> {
    let all = rules::all();
    let names = all.iter().map(|rule| rule.name).collect();
    all.into_iter().find(|rule| rule.name == name).ok_or(UnknownRule { name: clean(name), names })
}

/// Every rule as JSON: an array.
pub fn rules_json() -> Value {
    rules::all().iter().map(|rule| json!({"name": rule.name, "summary": rule.summary})).collect()
}

/// One rule with its manual (Markdown) as JSON.
///
/// # Errors
/// If there is no such rule.
pub fn rule_json(name: &str) -> Result<Value, UnknownRule> {
    let rule = find(name)?;
    Ok(json!({"name": rule.name, "summary": rule.summary, "manual": rule.manual}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manual_is_shown_within_its_columns() {
        let style = Style { width: 60, ..Style::default() };
        for rule in rules::all() {
            let page = render_rule(rule.name, &style).unwrap();
            assert!(page.contains("Blind spots\n"), "{page}");
            let long = page.lines().find(|line| crate::text::width(line) > 60);
            assert_eq!(long, None);
            assert!(render_rules(&style).contains(rule.name));
        }
    }

    #[test]
    fn an_unknown_rule_is_answered_with_the_names() {
        let error = render_rule("lock\x1b", &Style::default()).unwrap_err().to_string();
        assert!(error.contains("`lock\\x1b`") && error.contains("lock-contention"), "{error}");
        assert!(rule_json("nothing").is_err());
    }
}
