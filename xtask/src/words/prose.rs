//! Prose out of files: Markdown, comments, string literals, and names, as pieces of plain text.

use super::Kind;
use crate::checks;
use crate::rust_text;
use crate::tree::File;

/// One paragraph, list item, table cell, heading, string or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where the text stands.
    pub kind: Kind,
    /// First line, from 1.
    pub line: usize,
    /// The text. Inline code is replaced by the word `CODE`.
    pub text: String,
    /// The text is the start of a doc comment, so its first word must not be a pronoun.
    pub opens_doc: bool,
}

/// Pieces of a file; empty for file types without prose.
pub fn of_file(file: &File) -> Vec<Piece> {
    let text = file.text.as_deref().unwrap_or("");
    match file.extension() {
        "md" => markdown(text.lines().enumerate(), Kind::Docs),
        "rs" => rust(file, text),
        "ts" | "tsx" if !checks::is_test_file(&file.path) => {
            let mut pieces = slash_comments(text);
            pieces.extend(script_strings(text));
            pieces
        }
        "c" | "h" | "ts" | "tsx" | "mjs" | "css" => slash_comments(text),
        "py" | "sh" | "toml" | "yml" => hash_comments(text).into_iter().chain(docstrings(text)).collect(),
        "" if text.starts_with("#!") => hash_comments(text).into_iter().chain(docstrings(text)).collect(),
        _ => Vec::new(),
    }
}

fn rust(file: &File, text: &str) -> Vec<Piece> {
    let mut pieces = comment_pieces(text, &["//!", "///", "//"]);
    if !checks::is_test_file(&file.path) {
        pieces.extend(
            rust_text::shipped_strings(text)
                .into_iter()
                .flat_map(|(line, literal)| string_pieces(line, &literal)),
        );
    }
    pieces.extend(names(file, text));
    pieces
}

/// A literal with at least this many words is prose and no key or path.
const STRING_WORDS_MIN: usize = 3;

/// Beginnings of values of HTTP headers.
const HEADERS: &[&str] = &["text/plain; ", "default-src "];

fn string_pieces(line: usize, literal: &str) -> Vec<Piece> {
    if HEADERS.iter().any(|header| literal.starts_with(header)) {
        return Vec::new();
    }
    let paragraphs = markdown(literal.lines().map(|text| (line - 1, text)), Kind::Strings);
    paragraphs.into_iter().filter(|piece| words_of(&piece.text).len() >= STRING_WORDS_MIN).collect()
}

fn slash_comments(text: &str) -> Vec<Piece> {
    comment_pieces(text, &["/**", "/*", "*/", "*", "//"])
}

fn hash_comments(text: &str) -> Vec<Piece> {
    comment_pieces(text, &["#"])
}

/// Python's docstrings: text between triple quotes.
fn docstrings(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut line = 0;
    for (index, part) in text.split("\"\"\"").enumerate() {
        if index % 2 == 1 {
            let first = line;
            pieces.extend(markdown(
                part.lines().enumerate().map(|(at, text)| (first + at, text)),
                Kind::Comments,
            ));
        }
        line += part.matches('\n').count();
    }
    pieces
}

/// Strings of a page's script, and text between its tags.
fn script_strings(text: &str) -> Vec<Piece> {
    let is_comment = |line: &str| line.trim_start().starts_with(['/', '*']);
    let code = text.lines().enumerate().filter(|(_, line)| !is_comment(line));
    code.flat_map(|(index, line)| {
        quoted(line).into_iter().flat_map(move |literal| string_pieces(index + 1, literal))
    })
    .collect()
}

/// Parts of a line between double quotes, back quotes, or `>` and `<`.
fn quoted(line: &str) -> Vec<&str> {
    let odd = |mark: char| line.split(mark).skip(1).step_by(2);
    let between_tags =
        line.split('>').skip(1).filter_map(|part| part.split_once('<')).map(|(inside, _)| inside);
    odd('"').chain(odd('`')).chain(between_tags).collect()
}

/// Lines of comments with the same marker form one block of Markdown.
fn comment_pieces(text: &str, markers: &[&'static str]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    let mut block_marker = "";
    for (index, line) in text.lines().enumerate() {
        let comment = comment_of(line, markers);
        let marker = comment.map_or("", |(marker, _)| marker);
        let continues = marker == block_marker || marker.starts_with('*') && block_marker.starts_with("/*");
        if !continues {
            flush(&mut pieces, &mut block, block_marker);
            block_marker = marker;
        }
        if let Some((_, words)) = comment {
            block.push((index, words));
        }
    }
    flush(&mut pieces, &mut block, block_marker);
    pieces
}

fn flush(pieces: &mut Vec<Piece>, block: &mut Vec<(usize, &str)>, marker: &str) {
    let mut found = markdown(block.drain(..), Kind::Comments);
    if matches!(marker, "///" | "/**")
        && let Some(first) = found.first_mut()
    {
        first.opens_doc = true;
    }
    pieces.append(&mut found);
}

/// The marker and the text of a line's comment: a whole line, or behind code.
fn comment_of<'a>(line: &'a str, markers: &[&'static str]) -> Option<(&'static str, &'a str)> {
    let trimmed = line.trim_start();
    for marker in markers {
        if let Some(rest) = trimmed.strip_prefix(marker) {
            let is_prose = rest.is_empty() || rest.starts_with(' ');
            return is_prose.then(|| (*marker, rest.trim_end_matches("*/")));
        }
    }
    let slash = markers.contains(&"//");
    let (_, behind) = line.rsplit_once(if slash { " // " } else { "  # " })?;
    (!behind.contains('"')).then_some((if slash { "// " } else { "# " }, behind))
}

/// Beginnings of indented lines that are examples of commands.
const COMMANDS: &[&str] = &["holdup ", "./dev "];

/// Paragraphs, list items, headings and table cells of Markdown lines (index from 0, text).
fn markdown<'a>(lines: impl Iterator<Item = (usize, &'a str)>, kind: Kind) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut fenced, mut open) = (false, false);
    for (index, raw) in lines {
        let line = raw.trim().trim_start_matches("> ");
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        }
        let is_command = raw.starts_with("  ") && COMMANDS.iter().any(|command| line.starts_with(command));
        let is_code = fenced
            || is_command
            || line.starts_with("```")
            || line.starts_with("<")
            || raw.starts_with("     ");
        if is_code || line.is_empty() {
            open = false;
            continue;
        }
        let piece = |text: &str| Piece { kind, line: index + 1, text: plain(text), opens_doc: false };
        if line.starts_with('|') {
            pieces
                .extend(line.split('|').map(piece).filter(|cell| cell.text.chars().any(char::is_alphabetic)));
            open = false;
            continue;
        }
        let item = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(|| numbered(line));
        let heading = line.starts_with('#') && kind != Kind::Strings;
        match (item, open && !heading) {
            (None, true) => append(pieces.last_mut(), line),
            (item, _) => pieces.push(piece(item.unwrap_or_else(|| line.trim_start_matches('#')))),
        }
        open = !heading;
    }
    pieces
}

fn append(piece: Option<&mut Piece>, line: &str) {
    if let Some(piece) = piece {
        piece.text.push(' ');
        piece.text.push_str(&plain(line));
    }
}

/// The text behind `1. `.
fn numbered(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(". ")?;
    (!number.is_empty() && number.len() <= 2 && number.chars().all(|c| c.is_ascii_digit())).then_some(rest)
}

/// Text without inline code, placeholders and the targets of links.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        out.push_str(if index % 2 == 1 { "CODE" } else { part });
    }
    without_targets(&without_placeholders(&out))
}

/// `{name:.1}` becomes `CODE`.
fn without_placeholders(text: &str) -> String {
    let (mut out, mut depth) = (String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    out.push_str("CODE");
                }
            }
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// `[text](target)` becomes `text`.
fn without_targets(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, target)) = rest.split_once("](") {
        out.push_str(before);
        rest = target.split_once(')').map_or("", |(_, behind)| behind);
    }
    (out + rest).replace('[', "")
}

/// Abbreviations whose dot ends no sentence.
const ABBREVIATIONS: &[&str] = &["e.g", "i.e", "vs", "etc", "cf", "approx", "no"];

/// Sentences of a piece.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?')) {
        let end = at + c.len_utf8();
        let behind = &text[end..];
        let abbreviated = ABBREVIATIONS.iter().any(|word| text[start..at].ends_with(word));
        if (behind.is_empty() || behind.starts_with([' ', '\n', ')', '"'])) && !abbreviated {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

/// Lower-case words; punctuation is dropped.
pub fn words_of(sentence: &str) -> Vec<String> {
    sentence
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Names of modules, tests and constructors, as words.
fn names(file: &File, text: &str) -> Vec<Piece> {
    let name =
        |line: usize, name: &str| Piece { kind: Kind::Names, line, text: name.to_owned(), opens_doc: false };
    let stem = file.path.rsplit('/').next().unwrap_or("").trim_end_matches(".rs");
    let mut found = vec![name(1, &format!("mod {stem}"))];
    for (index, line) in rust_text::code_only(text).lines().enumerate() {
        let declared = line.split_once("fn ").map(|(_, rest)| rest);
        if let Some(rest) = declared {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            found.push(name(index + 1, &format!("fn {}", &rest[..end])));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn pieces(path: &str, text: &str) -> Vec<(Kind, usize, String)> {
        let tree = Tree::of_texts(&[(path, text)]);
        of_file(&tree.files[0]).into_iter().map(|piece| (piece.kind, piece.line, piece.text)).collect()
    }

    #[test]
    fn markdown_has_paragraphs_cells_and_items_but_no_code() {
        let text = "# A title\nOne\nline.\n```\ncode\n```\n- an `item`\n| a | [b](c) |\n|---|---|\n";
        let texts: Vec<_> =
            pieces("a.md", text).into_iter().map(|(_, _, text)| text.trim().to_owned()).collect();
        assert_eq!(texts, ["A title", "One line.", "an CODE", "a", "b"]);
    }

    #[test]
    fn rust_has_comments_strings_and_names() {
        let text = "//! The file.\n\n/// A doc\n/// comment.\nfn of() {\n    f(\"a text of words\"); // behind\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn g() { f(\"no text of users\"); }\n}\n";
        let found = pieces("src/a.rs", text);
        let of = |kind| found.iter().filter(|one| one.0 == kind).map(|one| one.2.trim()).collect::<Vec<_>>();
        assert_eq!(of(Kind::Comments), ["The file.", "A doc comment.", "behind"]);
        assert_eq!(of(Kind::Strings), ["a text of words"]);
        assert_eq!(of(Kind::Names), ["mod a", "fn of", "fn g"]);
    }

    #[test]
    fn docstrings_and_strings_of_pages_are_prose() {
        let python =
            pieces("a.py", "def a():\n    \"\"\"Waits for\n    a lock.\"\"\"\n    return \"none\"\n");
        assert_eq!(python, [(Kind::Comments, 2, "Waits for a lock.".to_owned())]);
        let page = pieces("a.tsx", "<p title=\"why it waited\">waits for a lock</p>\n");
        let texts: Vec<_> = page.iter().map(|(kind, _, text)| (*kind, text.as_str())).collect();
        assert_eq!(texts, [(Kind::Strings, "why it waited"), (Kind::Strings, "waits for a lock")]);
    }

    #[test]
    fn commands_and_headers_are_no_prose() {
        let text = "fn f() {\n    f(\"Examples of use:\n  holdup top one two; three\");\n    f(\"text/plain; a b c\");\n}\n";
        let found = pieces("src/a.rs", text);
        let strings: Vec<_> = found.iter().filter(|one| one.0 == Kind::Strings).map(|one| &one.2).collect();
        assert_eq!(strings, ["Examples of use:"]);
    }

    #[test]
    fn sentences_end_at_dots_but_not_in_abbreviations() {
        assert_eq!(sentences("One. Two, e.g. this. 3.5 ms?"), ["One.", "Two, e.g. this.", "3.5 ms?"]);
    }
}
