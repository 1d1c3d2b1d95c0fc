//! Numbers of records, and which are missing.

use holdup_events::Timestamp;

/// A short gap is believed only after this many more records: an interrupt's program may number and send
/// its record between another's numbering and sending.
const PATIENCE: u32 = 4;

/// State of one CPU's stream.
#[derive(Clone, Default)]
pub struct Sequence {
    next: u32,
    last_at: Timestamp,
    seen: bool,
    /// A gap that may still fill: its numbers that have not come, and how many records came since.
    pending: Option<Gap>,
}

/// Numbers that have not come.
#[derive(Clone)]
pub struct Gap {
    first: u32,
    /// How many.
    pub missing: u32,
    records_since: u32,
    /// When the record before them was made.
    pub start: Timestamp,
    /// When the one behind them was.
    pub end: Timestamp,
}

impl Sequence {
    /// Takes the expected next number, the usual case. `false` if it is another number, or a gap is pending.
    #[inline]
    pub fn take_next(&mut self, seq: u32, at: Timestamp) -> bool {
        let is_next = self.seen && self.next == seq && self.pending.is_none();
        if is_next {
            (self.next, self.last_at) = (seq.wrapping_add(1), at);
        }
        is_next
    }

    /// The records missing at the end, if the next number would be `next`.
    pub fn left(&self, next: u32) -> Option<(u32, Timestamp)> {
        let behind = next.wrapping_sub(self.next);
        let behind = if behind > u32::MAX / 2 { 0 } else { behind };
        let missing = behind + self.pending.as_ref().map_or(0, |gap| gap.missing);
        let since = self.pending.as_ref().map_or(self.last_at, |gap| gap.start);
        (missing > 0).then_some((missing, since))
    }

    /// Takes the next number. Returns the gap that is now certain, if any.
    pub fn take(&mut self, seq: u32, at: Timestamp) -> Option<Gap> {
        let ahead = seq.wrapping_sub(self.next);
        if self.seen && ahead > u32::MAX / 2 {
            // An earlier number comes late: it was not lost.
            if let Some(gap) = &mut self.pending
                && seq.wrapping_sub(gap.first) <= PATIENCE
            {
                gap.missing = gap.missing.saturating_sub(1);
            }
            return None;
        }
        let mut certain = None;
        if let Some(gap) = &mut self.pending {
            gap.records_since += 1;
            if gap.records_since > PATIENCE || ahead > 0 {
                certain = self.pending.take().filter(|gap| gap.missing > 0);
            }
        }
        if ahead > 0 {
            let gap = Gap {
                first: self.next,
                missing: ahead,
                records_since: 0,
                start: self.last_at.min(at),
                end: at,
            };
            if ahead < PATIENCE && self.seen && certain.is_none() {
                self.pending = Some(gap);
            } else if let Some(before) = certain {
                certain = Some(Gap { missing: before.missing + ahead, end: at, ..before });
            } else {
                certain = Some(gap);
            }
        }
        self.next = seq.wrapping_add(1);
        self.last_at = at;
        self.seen = true;
        certain
    }
}
