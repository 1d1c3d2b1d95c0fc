//! Words → messages.

/// Origin of a message's id.
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
    /// A custom event that begins a span.
    UserBegin,
    /// A custom event that ends a span.
    UserEnd,
    /// ... with bytes.
    UserBytes,
    /// A kind that is ignored (allocation statistics of the instrumented runtime) or unknown.
    Other,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Kind of the message.
    pub kind: Kind,
    /// Index into the runtime's lists, or into the program's custom names.
    pub id: u16,
    /// When (ns, CLOCK_MONOTONIC).
    pub at: u64,
    /// Arguments of the message.
    pub payload: &'a [u64],
}

/// Passes on the complete messages in `words`, which start at a message. Returns their number of words. 0
/// means that the first message has an invalid length, or is incomplete.
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

/// Number of words of the complete messages before the first one with a time of `from` or later.
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
