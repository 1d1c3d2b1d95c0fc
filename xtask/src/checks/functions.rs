//! No function is longer than 70 lines: it would not fit on a screen.
//!
//! A scan of the indentation, right for formatted code: a function ends at the closing brace that
//! stands as deep as its first line.

use super::Complaint;
use crate::rust_text;
use crate::tree::{File, Tree};

/// In lines, from the signature to the closing brace.
const LINES_MAX: usize = 70;

/// Rust, C and TypeScript.
pub fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (line, length) in lengths(file) {
            if length > LINES_MAX {
                let what = format!("a function of {length} lines, at most {LINES_MAX}: name its steps");
                complaints.push(Complaint::new(&file.path, line, what));
            }
        }
    }
    complaints
}

/// Each function: its first line and its length in lines.
fn lengths(file: &File) -> Vec<(usize, usize)> {
    let text = file.text.as_deref().unwrap_or("");
    match file.extension() {
        "rs" => by_indent(&rust_text::code_only(text), starts_rust_function),
        "ts" => by_indent(text, starts_ts_function),
        "c" | "h" => by_column_zero(text),
        _ => Vec::new(),
    }
}

fn by_indent(text: &str, starts: fn(&str) -> bool) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        if !starts(trimmed) {
            continue;
        }
        let indent = &line[..line.len() - trimmed.len()];
        if let Some(end) = (index..lines.len()).find(|at| ends_function(lines[*at], indent, *at == index)) {
            found.push((index + 1, end - index + 1));
        }
    }
    found
}

/// The closing brace at the same depth, or a line that is the whole function or declaration.
fn ends_function(line: &str, indent: &str, is_first: bool) -> bool {
    let Some(rest) = line.strip_prefix(indent) else { return false };
    if is_first {
        return rest.ends_with('}') || rest.ends_with(';');
    }
    rest.starts_with('}') || (rest.starts_with([')', 'w']) && rest.ends_with(';'))
}

fn starts_rust_function(trimmed: &str) -> bool {
    let mut rest = trimmed;
    if let Some(behind) = rest.strip_prefix("pub") {
        rest = match behind.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or(behind, |(_, behind)| behind),
            None => behind,
        }
        .trim_start();
    }
    for word in ["default ", "const ", "async ", "unsafe ", "extern "] {
        rest = rest.strip_prefix(word).unwrap_or(rest).trim_start();
    }
    rest.starts_with("fn ")
}

fn starts_ts_function(trimmed: &str) -> bool {
    let rest = trimmed.strip_prefix("export ").unwrap_or(trimmed);
    let rest = rest.strip_prefix("default ").unwrap_or(rest);
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let is_method = || {
        let name = rest.split('(').next().unwrap_or("");
        let is_name = name.chars().all(|c| c.is_alphanumeric() || "_$ #<>*".contains(c));
        let is_control = ["if ", "for ", "while ", "switch ", "catch ", "do ", "else "].contains(&name);
        rest.contains('(') && is_name && !is_control && rest.ends_with('{')
    };
    rest.starts_with("function ") || (rest.starts_with("const ") && rest.ends_with("=> {")) || is_method()
}

/// C in the kernel's style: a body opens and closes in column zero.
fn by_column_zero(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut signature = None;
    let mut body = None;
    for (index, line) in lines.iter().enumerate() {
        let at_zero = line.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if body.is_none() && at_zero && line.contains('(') {
            signature = Some(index);
        }
        let opens = *line == "{" || (at_zero && line.ends_with(") {"));
        if let (None, true, Some(first)) = (body, opens, signature) {
            body = Some(first);
        } else if let (Some(first), true) = (body, line.starts_with('}')) {
            found.push((first + 1, index - first + 1));
            (body, signature) = (None, None);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(indent: &str) -> String {
        format!("{indent}    x();\n").repeat(LINES_MAX)
    }

    #[test]
    fn long_functions_are_found_in_every_language() {
        let rust = format!(
            "impl A {{\n    pub(crate) const fn a(\n        b: u8,\n    ) -> u8 {{\n{}    }}\n}}\n",
            body("    ")
        );
        let c = format!("SEC(\"x\")\nint BPF_PROG(a, int b)\n{{\n{}}}\n", body(""));
        let ts = format!(
            "class A {{\n  run(a: number): void {{\n{}  }}\n}}\nexport function b() {{\n{}}}\n",
            body(""),
            body("")
        );
        let found = check(&Tree::of_texts(&[("a.rs", &rust), ("a.c", &c), ("a.ts", &ts)]));
        let lines: Vec<_> = found.iter().map(|one| (one.path.as_str(), one.line)).collect();
        assert_eq!(lines, [("a.rs", 2), ("a.c", 2), ("a.ts", 2), ("a.ts", 75)]);
    }

    #[test]
    fn short_ones_and_declarations_are_not() {
        let rust = format!(
            "trait A {{\n    fn a();\n    fn b(\n        c: u8,\n    );\n}}\nfn d() {{}}\nconst E: &str = r\"\n{}\";\n",
            body("")
        );
        let c = "struct a {\n\tint b;\n};\nint f(int);\nint g(void)\n{\n\treturn 1;\n}\n";
        assert_eq!(check(&Tree::of_texts(&[("a.rs", &rust), ("a.h", c)])), []);
        let c = Tree::of_texts(&[("a.c", c)]);
        assert_eq!(lengths(&c.files[0]), [(5, 4)]);
    }
}
