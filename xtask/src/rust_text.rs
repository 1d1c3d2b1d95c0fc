//! Views of Rust source for text scans: without comments and literals, and without tests.
//!
//! Not a parser: it knows just enough of the lexical grammar that a word inside a string or a
//! comment is never taken for code. Lines keep their numbers.

/// The source with comments and the inside of string and character literals turned into spaces.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment_end(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// String literals outside tests, with the line on which each starts. Escapes become spaces or line breaks.
pub fn shipped_strings(text: &str) -> Vec<(usize, String)> {
    let shipped = shipped_code(text);
    let is_shipped: Vec<bool> = shipped.lines().map(|line| !line.trim().is_empty()).collect();
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 0);
    while at < chars.len() {
        let end = literal_or_comment_end(&chars, at).max(at + 1);
        let literal: String = chars[at..end].iter().collect();
        let is_string = literal.len() > 1 && literal.ends_with(['"', '#']) && !literal.starts_with('/');
        if is_string && is_shipped.get(line).copied().unwrap_or(false) {
            found.push((line + 1, unescaped(&literal)));
        }
        line += literal.matches('\n').count();
        at = end;
    }
    found
}

/// The inside of a literal as a reader sees it, near enough for counting words.
fn unescaped(literal: &str) -> String {
    let inside = literal.trim_start_matches('r').trim_matches('#').trim_matches('"');
    let mut out = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('\n') => {
                    let rest = chars.as_str().trim_start();
                    chars = rest.chars();
                }
                Some('"') => out.push('"'),
                _ => out.push(' '),
            },
            (c, false) => out.push(c),
        }
    }
    out
}

/// End of the literal or comment that starts at `at`. `at` itself if none starts there.
fn literal_or_comment_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |c| c == '\n'),
        '/' if next == Some('*') => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        'r' if !follows_word(chars, at) => raw_string_end(chars, at).unwrap_or(at),
        '\'' => char_end(chars, at),
        _ => at,
    }
}

/// `br"…"` is raw too, so a lone `b` or `c` before the `r` is no word.
fn follows_word(chars: &[char], at: usize) -> bool {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let before = |back: usize| at.checked_sub(back).and_then(|index| chars.get(index));
    match before(1) {
        Some('b' | 'c') => before(2).is_some_and(is_word),
        Some(c) => is_word(c),
        None => false,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|index| wanted(chars[*index])).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut index) = (0, at);
    while index + 1 < chars.len() {
        match (chars[index], chars[index + 1]) {
            ('/', '*') => (depth, index) = (depth + 1, index + 2),
            ('*', '/') if depth == 1 => return index + 2,
            ('*', '/') => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut index: usize) -> usize {
    while index < chars.len() {
        match chars[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"` or `r#"…"#`. `None` for identifiers, including `r#type`.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let quote = find(chars, at + 1, |c| c != '#');
    let hashes = quote - at - 1;
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let closes = |index: &usize| {
        chars[*index] == '"' && (1..=hashes).all(|back| chars.get(index + back) == Some(&'#'))
    };
    Some((quote + 1..chars.len()).find(closes).map_or(chars.len(), |index| index + 1 + hashes))
}

/// Distinguishes `'x'` and `'\n'` from a lifetime.
fn char_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => (find(chars, at + 3, |c| c == '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// [`code_only`] with every item under `#[cfg(test)]` emptied too. Relies on rustfmt's layout: an
/// item ends at a `}` or `;` that stands as deep as its attribute.
pub fn shipped_code(text: &str) -> String {
    let code = code_only(text);
    let mut out = String::with_capacity(code.len());
    let mut test_indent: Option<usize> = None;
    for line in code.lines() {
        let indent = line.len() - line.trim_start().len();
        let trimmed = line.trim();
        match test_indent {
            None if trimmed.starts_with("#[cfg(test)]") => test_indent = Some(indent),
            None => out.push_str(line),
            Some(depth) if indent == depth && ends_item(trimmed) => test_indent = None,
            Some(_) => {}
        }
        out.push('\n');
    }
    out
}

fn ends_item(trimmed: &str) -> bool {
    trimmed.starts_with('}') || trimmed.ends_with(';') || (trimmed.contains('{') && trimmed.ends_with('}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_vanish() {
        let text = "a(\"x \\\" todo!()\"); // todo!()\n/* b /* c */ */ d(r#\"e\"f\"#, '\\'', 'g', br\"h\"); fn i<'a>() {}";
        let code = code_only(text);
        assert_eq!(code.lines().count(), 2);
        for gone in ["x", "todo", "e\"f", "g'", "h\"", "/*", "c */"] {
            assert!(!code.contains(gone), "{gone} in {code}");
        }
        for kept in ["a(", "d(", "fn i<'a>() {}"] {
            assert!(code.contains(kept), "{kept} not in {code}");
        }
    }

    #[test]
    fn strings_are_those_outside_tests() {
        let text = "fn a() { b(\"one \\\"two\\\" \\\n    three\\nfour\"); }\n#[cfg(test)]\nmod tests {\n    fn c() { d(\"no\") }\n}\n";
        assert_eq!(shipped_strings(text), [(1, "one \"two\" three\nfour".to_owned())]);
    }

    #[test]
    fn names_that_end_in_r_are_no_raw_strings() {
        assert_eq!(code_only("for r in var { r#type }"), "for r in var { r#type }");
    }

    #[test]
    fn tests_are_not_shipped() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n#[cfg(test)]\nmod c;\nfn d() {}\n";
        let shipped = shipped_code(text);
        assert!(shipped.contains("fn a") && shipped.contains("fn d"));
        assert!(!shipped.contains("fn b") && !shipped.contains("mod c"));
        assert_eq!(shipped.lines().count(), text.lines().count());
    }
}
