//! The accounts in a text of Erlang maps, or of JSON objects: these differ in their signs alone.

/// More threads than this are no machine's.
const ACCOUNTS_MAX: usize = 1 << 16;
/// More states than this no runtime has.
const STATES_MAX: usize = 64;

/// One thread's sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Kind of thread.
    pub kind: String,
    /// Which of its kind.
    pub id: u64,
    /// Nanoseconds by state, in the order of the text.
    pub states: Vec<(String, u64)>,
}

impl Account {
    /// All of them.
    pub fn sum_ns(&self) -> u64 {
        self.states.iter().fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }

    /// With nothing to do.
    pub fn sleep_ns(&self) -> u64 {
        self.states
            .iter()
            .filter(|(state, _)| state == "sleep")
            .fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }
}

/// A sign of the text that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign<'a> {
    Open,
    Close,
    Word(&'a str),
}

/// Tokens. Brackets, commas and arrows are only separators.
fn signs(text: &str) -> impl Iterator<Item = Sign<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter: char| !is_word(letter) && !matches!(letter, '{' | '}'));
        if let Some(behind) = rest.strip_prefix('{') {
            rest = behind;
            return Some(Sign::Open);
        }
        if let Some(behind) = rest.strip_prefix('}') {
            rest = behind;
            return Some(Sign::Close);
        }
        let end = rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(end)?;
        rest = behind;
        (!word.is_empty()).then_some(Sign::Word(word))
    })
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Each account of the text, and how many could not be read.
pub(super) fn accounts(text: &str) -> (Vec<Account>, u64) {
    let (mut all, mut lost) = (Vec::new(), 0);
    let (mut depth, mut account, mut key) = (0usize, Account::default(), None);
    for sign in signs(text) {
        match sign {
            Sign::Open => {
                depth += 1;
                if depth == 1 {
                    account = Account::default();
                }
                key = None;
            }
            Sign::Close => {
                depth = depth.saturating_sub(1);
                key = None;
                if depth > 0 {
                    continue;
                }
                let account = std::mem::take(&mut account);
                match !account.kind.is_empty() && !account.states.is_empty() && all.len() < ACCOUNTS_MAX {
                    true => all.push(account),
                    false => lost += 1,
                }
            }
            Sign::Word(word) => match key.take() {
                None => key = Some(word),
                Some(name) => take(&mut account, depth, (name, word)),
            },
        }
    }
    (all, lost + u64::from(depth > 0))
}

/// A key and its value: of the account, or of its counters within.
fn take(account: &mut Account, depth: usize, (key, value): (&str, &str)) {
    match (depth, key) {
        (1, "type") => value.clone_into(&mut account.kind),
        (1, "id") => account.id = value.parse().unwrap_or(0),
        (2, state) if account.states.len() < STATES_MAX => {
            if let Ok(ns) = value.parse() {
                account.states.push((state.to_owned(), ns));
            }
        }
        _ => {}
    }
}
