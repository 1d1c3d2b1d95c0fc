//! Splits a command given as one text into words, as a shell would. If the text needs a shell, a shell runs
//! it.

/// Characters outside of quotes that need a shell.
const SHELL: &str = "|&;<>()$`*?[]~#";

/// Characters that a backslash escapes within double quotes. Before any other character, the backslash is
/// literal.
const ESCAPED: &str = "$`\"\\";

/// The words of a command.
pub fn split(text: &str) -> Vec<String> {
    plain(text).unwrap_or_else(|| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()])
}

/// `None` if it needs a shell, or if a quote is not closed.
fn plain(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"'), '$' | '`') => return None,
            (Some('"') | None, '\\') => match letters.next()? {
                // The line goes on.
                '\n' => {}
                kept if quote.is_some() && !ESCAPED.contains(kept) => {
                    word.get_or_insert_default().extend(['\\', kept]);
                }
                escaped => word.get_or_insert_default().push(escaped),
            },
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) if SHELL.contains(letter) => return None,
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    // NAME=value before a command is the shell's, too.
    let is_assignment = words.first().is_some_and(|first| first.contains('=') && !first.starts_with('/'));
    (quote.is_none() && !words.is_empty() && !is_assignment).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(split("xz -T2  'a b' \"c\\\"d\" e\\ f ''"), ["xz", "-T2", "a b", "c\"d", "e f", ""]);
        for needs in ["a | b", "FOO=1 x", "echo $HOME", "a 'b", "echo \"$x\"", ""] {
            assert_eq!(split(needs), ["sh", "-c", needs]);
        }
    }

    #[test]
    fn backslashes_are_those_of_a_shell() {
        for (text, words) in [
            // Within double quotes most characters are literal.
            (r#"rg "\d+\\.\"" f"#, &["rg", r#"\d+\.""#, "f"][..]),
            (r#"echo "\$HOME \`x\` \n \' \ ""#, &["echo", r"$HOME `x` \n \' \ "]),
            (r"echo '\d \\' \d \\ \'", &["echo", r"\d \\", "d", "\\", "'"]),
            // A line that goes on is no blank and no word, but within single quotes.
            ("xz \\\n -T2 a\\\nb \"c\\\nd\" 'e\\\nf'", &["xz", "-T2", "ab", "cd", "e\\\nf"]),
        ] {
            assert_eq!(split(text), words, "{text}");
        }
    }
}
