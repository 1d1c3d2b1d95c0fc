//! Words → messages.

/// Who defined the id of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The ring's or a domain's life: id as in the runtime's `ev_lifecycle`.
    Lifecycle,
    /// A phase of the runtime begins.
    Begin,
    /// ... or ends.
    End,
    /// A counter of the runtime.
    Counter,
    /// An event of the program, without a value.
    UserUnit,
    /// ... with a number.
    UserInt,
    /// ... that begins a span.
    UserBegin,
    /// ... that ends one.
    UserEnd,
    /// ... with bytes.
    UserBytes,
    /// Of a kind that is not told on (allocation statistics of the instrumented runtime), or not known.
    Other,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Which kind of thing is told.
    pub kind: Kind,
    /// Of the runtime's lists, or an index of the program's names.
    pub id: u16,
    /// When (ns, CLOCK_MONOTONIC).
    pub at: u64,
    /// What comes with it.
    pub payload: &'a [u64],
}

/// Passes on the whole messages in `words`, which begin at one; returns how many words they have. No progress means
/// that the first has no possible length, or is not there whole.
pub fn each(words: &[u64], sink: &mut dyn FnMut(Message)) -> u64 {
    let mut rest = words;
    while let Some((header, _)) = rest.split_first() {
        let length = (header >> 54) as usize;
        let Some((words, behind)) = rest.split_at_checked(length).filter(|_| length > 0) else { break };
        let is_user = header >> 53 & 1 == 1;
        let code = header >> 49 & 15;
        let id = (header >> 36 & 0x1fff) as u16;
        let is_padding = !is_user && code == 0;
        match words {
            [_, at, payload @ ..] if !is_padding => {
                sink(Message { kind: kind(is_user, code), id, at: *at, payload });
            }
            _ if is_padding => {}
            // A message without a time.
            _ => break,
        }
        rest = behind;
    }
    (words.len() - rest.len()) as u64
}

/// Words of the whole messages in front of the first one that was told at `from` or later.
pub fn before(words: &[u64], from: u64) -> u64 {
    let mut rest = words;
    while let Some((header, _)) = rest.split_first() {
        let length = (header >> 54) as usize;
        let Some((words, behind)) = rest.split_at_checked(length).filter(|_| length > 0) else { break };
        let is_padding = header >> 49 & 31 == 0;
        if !is_padding && words.get(1).is_none_or(|at| *at >= from) {
            break;
        }
        rest = behind;
    }
    (words.len() - rest.len()) as u64
}

fn kind(is_user: bool, code: u64) -> Kind {
    match (is_user, code) {
        (false, 1) => Kind::Lifecycle,
        (false, 2) => Kind::Begin,
        (false, 3) => Kind::End,
        (false, 4) => Kind::Counter,
        (true, 0) => Kind::UserUnit,
        (true, 1) => Kind::UserInt,
        (true, 2) => Kind::UserBegin,
        (true, 3) => Kind::UserEnd,
        (true, 4) => Kind::UserBytes,
        _ => Kind::Other,
    }
}
