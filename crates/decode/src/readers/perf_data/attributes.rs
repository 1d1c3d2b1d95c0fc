//! The events of a file, and how each is used.

use std::collections::BTreeSet;

use super::layout::{Layout, Section};
use super::tracepoints::{Tracepoint, Tracepoints};
use crate::imported::Bytes;
use crate::readers::ReadError;

/// Bits of `perf_event_attr.sample_type`, in the order of the kernel's header.
pub(super) mod has {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of the flags of `perf_event_attr`.
mod flag {
    pub const FREQUENCY: u64 = 1 << 10;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
}

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// The half of a hardware event's config that identifies the event. The upper half identifies the kind of
/// core.
const EVENT: u64 = 0xffff_ffff;

/// How the period of a sample becomes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The period is CPU time in nanoseconds.
    Nanoseconds,
    /// Approximate number of samples per second of CPU time.
    Frequency(u64),
    /// Samples do not represent time.
    None,
}

/// Use of an event's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Samples of running threads.
    Samples(Clock),
    /// Hits of a tracepoint.
    Tracepoint(Tracepoint),
    /// Nothing.
    Nothing,
}

/// One event of the file.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    kind: u32,
    config: u64,
    period_or_hz: u64,
    flags: u64,
    /// [`has`]
    pub sample_type: u64,
    pub read_format: u64,
    pub branch_sample_type: u64,
    /// Which registers a sample has, one bit each.
    pub user_registers: u64,
    pub ids: Vec<u64>,
    pub use_: Use,
}

impl Attribute {
    fn parse(entry: &[u8]) -> Option<Attribute> {
        let mut bytes = Bytes(entry);
        let kind = bytes.u32()?;
        bytes.u32()?;
        let (config, period_or_hz) = (bytes.u64()?, bytes.u64()?);
        let (sample_type, read_format, flags) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        // Later fields are not there in files of old kernels.
        let mut late = Bytes(entry.get(72..).unwrap_or_default());
        let branch_sample_type = late.u64().unwrap_or(0);
        let user_registers = late.u64().unwrap_or(0);
        Some(Attribute {
            kind,
            config,
            period_or_hz,
            flags,
            sample_type,
            read_format,
            branch_sample_type,
            user_registers,
            ids: Vec::new(),
            use_: Use::Nothing,
        })
    }

    /// Every record but samples ends with the id and time of its event.
    pub fn sample_id_all(&self) -> bool {
        self.flags & flag::SAMPLE_ID_ALL != 0
    }

    /// The period of samples without their own period.
    pub fn period(&self) -> u64 {
        if self.flags & flag::FREQUENCY == 0 { self.period_or_hz } else { 0 }
    }

    fn clock(&self) -> Option<Clock> {
        const SOFTWARE: u32 = 1;
        let by_frequency = match self.flags & flag::FREQUENCY {
            0 => Clock::None,
            _ => Clock::Frequency(self.period_or_hz),
        };
        match (self.kind, self.config & EVENT) {
            // A sample without a period has the event's period. An event with a frequency has none.
            (SOFTWARE, 0 | 1) if by_frequency != Clock::None && self.sample_type & has::PERIOD == 0 => {
                Some(by_frequency)
            }
            (SOFTWARE, 0 | 1) => Some(Clock::Nanoseconds),
            (HARDWARE, 0 | 9) => Some(by_frequency),
            _ => None,
        }
    }

    /// The kind of core on which a hardware event counts, on a machine with several kinds.
    fn core_kind(&self) -> Option<u64> {
        Some(self.config >> 32).filter(|kind| self.kind == HARDWARE && *kind != 0)
    }

    /// Whether its samples show where programs are at all: neither a tracepoint nor the dummy event.
    fn shows_places(&self) -> bool {
        const TRACEPOINT: u32 = 2;
        !matches!((self.kind, self.config), (TRACEPOINT, _) | (1, 9 | 10)) && self.sample_type & has::IP != 0
    }
}

/// The events of the file. Which of them are the source of samples is chosen when it is known which have some: see
/// [`choose_samples`].
pub(super) fn parse(layout: &Layout<'_>) -> Result<Vec<Attribute>, ReadError> {
    let tracepoints = Tracepoints::parse(layout);
    let offset = layout.attributes.offset;
    let broken = |what| ReadError::Broken { what, offset };
    let length = layout.attribute_length;
    // The entry ends with the section of its ids.
    let own = length.checked_sub(16).filter(|own| *own >= 64).ok_or(broken("events too short to be any"))?;
    let section = Bytes::part(layout.bytes, offset, layout.attributes.length).unwrap_or_default();
    let mut attributes = Vec::new();
    let mut rest = Bytes(section);
    while let Some(entry) = rest.take(length) {
        let mut bytes = Bytes(entry);
        let attribute = bytes.take(own).and_then(Attribute::parse);
        let mut attribute = attribute.ok_or(broken("an event that is cut"))?;
        let ids = Section { offset: bytes.u64().unwrap_or(0), length: bytes.u64().unwrap_or(0) };
        attribute.ids = read_ids(layout, ids)?;
        if let Some(tracepoint) = tracepoints.get(attribute.config).filter(|_| attribute.kind == 2) {
            attribute.use_ = Use::Tracepoint(tracepoint);
        }
        attributes.push(attribute);
    }
    if attributes.is_empty() {
        return Err(broken("it describes no event"));
    }
    Ok(attributes)
}

/// Chooses the events that samples are read of. `sampled`: of which there is one, by their places.
pub(super) fn choose_samples(attributes: &mut [Attribute], sampled: &BTreeSet<usize>) {
    let usefulness = |attribute: &Attribute| match attribute.clock() {
        Some(Clock::Nanoseconds) => 4,
        Some(Clock::Frequency(_)) => 3,
        Some(Clock::None) => 2,
        None => u8::from(attribute.shows_places()),
    };
    let rank = |(place, attribute): (usize, &Attribute)| {
        // If several events are equally useful, the first is used.
        let rank = (sampled.contains(&place), usefulness(attribute), std::cmp::Reverse(place));
        (usefulness(attribute) > 0).then_some(rank)
    };
    let main = attributes.iter().enumerate().filter_map(rank).max();
    let Some((_, _, std::cmp::Reverse(main))) = main else { return };
    let Some(main) = attributes.get_mut(main) else { return };
    let used = |attribute: &Attribute| Use::Samples(attribute.clock().unwrap_or(Clock::None));
    main.use_ = used(main);
    let (event, Some(kind)) = (main.config & EVENT, main.core_kind()) else { return };
    // With one event per kind of core, each thread is sampled once, because it runs on one kind at a time.
    let mut kinds = BTreeSet::from([kind]);
    for attribute in attributes.iter_mut().filter(|attribute| attribute.config & EVENT == event) {
        if attribute.core_kind().is_some_and(|kind| kinds.insert(kind)) {
            attribute.use_ = used(attribute);
        }
    }
}

fn read_ids(layout: &Layout<'_>, section: Section) -> Result<Vec<u64>, ReadError> {
    let bytes = Bytes::part(layout.bytes, section.offset, section.length);
    let broken = ReadError::Broken { what: "the numbers of an event lie outside", offset: section.offset };
    let mut bytes = Bytes(bytes.ok_or(broken)?);
    Ok(std::iter::from_fn(|| bytes.u64()).collect())
}
