//! The forms that STYLE.md bans, and how a sentence is searched for them.

/// One form: a name, and the word sequences that match it. `*` matches any single word.
pub struct Form {
    /// Name in the ratchet file.
    pub name: &'static str,
    /// Lower-case phrases; a phrase matches whole words only.
    pub phrases: &'static [&'static str],
}

/// Maximum words of a sentence (STYLE.md, rule 1).
pub const SENTENCE_WORDS_MAX: usize = 25;
/// A sentence with more words than this is its own form: none may remain in docs.
pub const LONG_SENTENCE_WORDS_MAX: usize = 40;

/// Banned phrases of STYLE.md's rules 2 to 7 and of its table of words.
pub const FORMS: &[Form] = &[
    Form { name: "noun-who", phrases: &["who", "whom", "whoever"] },
    Form { name: "somebody", phrases: &["somebody", "nobody", "anybody"] },
    Form { name: "thing", phrases: &["thing", "things"] },
    Form { name: "told", phrases: &["tell", "tells", "told", "telling", "untold"] },
    Form { name: "said", phrases: &["say", "says", "said", "saying"] },
    Form { name: "had", phrases: &["be had", "is had", "are had", "was had", "were had", "not had"] },
    Form { name: "drawn", phrases: &["drawn"] },
    Form { name: "goes-by", phrases: &["go by", "goes by", "went by", "going by", "gone by"] },
    Form { name: "stands-for", phrases: &["stand for", "stands for", "stood for", "standing for"] },
    Form { name: "look", phrases: &["look at", "looks at", "looked at", "looking at"] },
    Form { name: "gone", phrases: &["gone"] },
    Form { name: "in-place-of", phrases: &["in place of"] },
    Form { name: "at-the-most", phrases: &["at the most", "at the least"] },
    Form { name: "meanwhile", phrases: &["meanwhile"] },
    Form { name: "anew", phrases: &["anew"] },
    Form { name: "but-for", phrases: &["but for"] },
    Form { name: "as-a-rule", phrases: &["as a rule"] },
    Form { name: "beside", phrases: &["beside", "side by side"] },
    Form { name: "so-many", phrases: &["so many", "so much", "so few"] },
    Form { name: "meeting", phrases: &["meeting", "meetings", "meet", "last to come"] },
    Form { name: "strangers", phrases: &["stranger", "strangers"] },
    Form { name: "rung", phrases: &["rung", "rungs"] },
    Form { name: "without-a-cpu", phrases: &["without a cpu", "wanted to run"] },
    Form { name: "time-is-up", phrases: &["time is up", "may be off"] },
    Form {
        name: "what-noun",
        phrases: &[
            "what it",
            "what they",
            "what is",
            "what are",
            "what was",
            "what were",
            "what there",
            "what has",
            "what goes",
            "what comes",
            "what stands",
            "what lies",
            "what follows",
            "what runs",
            "what waits",
        ],
    },
];

/// Nouns behind which `who` is a person's.
const PEOPLE: &[&str] = &[
    "people",
    "engineers",
    "engineer",
    "users",
    "user",
    "developers",
    "developer",
    "person",
    "readers",
    "those",
];

/// `so many threads that …` compares; `that` follows within this many words.
const SO_THAT_WORDS: usize = 4;

/// Words that open a doc comment without naming its subject (rule 4).
pub const PRONOUNS: &[&str] =
    &["it", "its", "this", "that", "these", "those", "they", "their", "who", "what", "such", "so", "whose"];

/// Parts of names that state nothing about what the item computes.
pub const NAME_PARTS: &[&str] = &[
    "who",
    "whom",
    "whose",
    "told",
    "tell",
    "tells",
    "untold",
    "says",
    "said",
    "say",
    "beside",
    "meanwhile",
    "somebody",
    "nobody",
    "anybody",
    "others",
    "thing",
    "things",
    "stranger",
    "strangers",
    "rung",
    "rungs",
    "meeting",
    "meetings",
    "gone",
    "anew",
    "bottle",
    "standstills",
    "takeovers",
];

/// Module names that state nothing (STYLE.md, last paragraph).
pub const MODULE_NAMES: &[&str] = &[
    "untold",
    "told",
    "kept_back",
    "given_back",
    "room",
    "sides",
    "bottle",
    "bound",
    "beside",
    "asked",
    "served",
    "takeovers",
    "standstills",
];

/// Names of the forms in a sentence, one entry per match.
///
/// `words` are lower-case; `sentence` is the text, for its punctuation.
pub fn in_sentence(sentence: &str, words: &[String]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for form in FORMS {
        for phrase in form.phrases {
            let parts: Vec<&str> = phrase.split(' ').collect();
            let matches = (0..words.len()).filter(|at| phrase_at(words, *at, &parts)).count();
            found.extend(std::iter::repeat_n(form.name, matches));
        }
    }
    if words.first().is_some_and(|word| word == "of") && words.len() > 3 {
        found.push("of-opening");
    }
    if words.len() > LONG_SENTENCE_WORDS_MAX {
        found.push("sentence-over-40");
    } else if words.len() > SENTENCE_WORDS_MAX {
        found.push("sentence-over-25");
    }
    if outside_parentheses(sentence).contains("; ") {
        found.push("semicolon");
    }
    found
}

/// Lists in parentheses may be parted by semicolons.
fn outside_parentheses(sentence: &str) -> String {
    let mut depth = 0_usize;
    let mut keep = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    };
    sentence.chars().filter(|c| keep(c)).collect()
}

fn phrase_at(words: &[String], at: usize, parts: &[&str]) -> bool {
    let matches =
        parts.iter().enumerate().all(|(index, part)| words.get(at + index).is_some_and(|w| w == part));
    let before = at.checked_sub(1).map_or("", |index| words[index].as_str());
    let is_allowed = || match parts {
        ["who"] => PEOPLE.contains(&before),
        ["without", ..] => before == "runnable",
        ["so", _] => words.iter().skip(at + 2).take(SO_THAT_WORDS).any(|word| word == "that"),
        _ => false,
    };
    matches && !is_allowed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::prose::words_of;

    fn found(sentence: &str) -> Vec<&'static str> {
        in_sentence(sentence, &words_of(sentence))
    }

    #[test]
    fn banned_phrases_are_found_as_whole_words() {
        assert_eq!(found("Who had it is told in place of the rest."), ["noun-who", "told", "in-place-of"]);
        assert_eq!(found("Engineers who foretold the outage."), [""; 0]);
        assert_eq!(found("Of the rest, nothing remains."), ["of-opening"]);
        assert_eq!(found("One lock; another lock."), ["semicolon"]);
        assert_eq!(found("Two locks (a mutex; a semaphore)."), [""; 0]);
        assert_eq!(found("So many threads that the queue grows."), [""; 0]);
        assert_eq!(found("Runnable without a CPU, or without a CPU."), ["without-a-cpu"]);
    }

    #[test]
    fn sentences_count_as_over_25_or_over_40_words() {
        assert_eq!(found(&"word ".repeat(25)), [""; 0]);
        assert_eq!(found(&"word ".repeat(26)), ["sentence-over-25"]);
        assert_eq!(found(&"word ".repeat(41)), ["sentence-over-40"]);
    }
}
