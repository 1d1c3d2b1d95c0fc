//! Output of `holdup explain`: the list of rules, and a rule's manual page. The caller chooses the rules.

use holdup_findings::rules::RuleInfo;
use serde_json::{Value, json};

use crate::text::{Style, Tint, left, wrap};

/// Rules with their summaries.
pub fn list(rules: &[RuleInfo], style: &Style) -> String {
    let name_width = rules.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for rule in rules {
        let behind = name_width + 2;
        for (index, text) in wrap(rule.summary, style.columns_behind(behind), 0).iter().enumerate() {
            let name = if index == 0 { rule.name } else { "" };
            lines.push(format!("{}  {text}", style.paint(Tint::Strong, &left(name, name_width))));
        }
    }
    lines.push(String::new());
    lines.push("`holdup explain RULE`: meaning, method, blind spots.".to_owned());
    style.finish(&lines)
}

/// A rule's manual page.
pub fn manual(rule: &RuleInfo, style: &Style) -> String {
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
    style.finish(&lines).trim_end().to_owned() + "\n"
}

/// Rules with their manuals (Markdown) as JSON: an array.
pub fn to_json(rules: &[RuleInfo]) -> Value {
    let one = |rule: &RuleInfo| json!({"name": rule.name, "summary": rule.summary, "manual": rule.manual});
    rules.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use holdup_findings::rules;

    use super::*;

    #[test]
    fn every_manual_is_shown_within_its_columns() {
        let style = Style { width: 60, ..Style::default() };
        for rule in rules::all() {
            let page = manual(&rule, &style);
            assert!(page.contains("Blind spots\n"), "{page}");
            let long = page.lines().find(|line| crate::text::width(line) > 60);
            assert_eq!(long, None);
            assert!(list(&[rule], &style).contains(rule.name));
        }
    }
}
