//! The fields of one sample. The event's `sample_type` determines which exist and in which order
//! (`perf_event_open(2)`, PERF_RECORD_SAMPLE).

use holdup_events::event::RawMemory;

use super::attributes::{Attribute, has};
use crate::imported::Bytes;

/// The fields of a sample that are used.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a> {
    pub ip: u64,
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub cpu: Option<u32>,
    pub period: Option<u64>,
    /// Whole 8-byte words, kernel and user parts headed by markers.
    pub callchain: &'a [u8],
    pub raw: &'a [u8],
    /// The sample has a copy of the user stack for unwinding.
    pub has_user_stack: bool,
    /// Copy of the user stack, with the registers needed for unwinding.
    pub memory: Option<Box<RawMemory>>,
    /// The user instruction pointer in the registers.
    pub user_ip: Option<u64>,
}

/// Parses a sample's body. `None` if it is truncated. `is_x86_64`: the registers are those of x86-64.
pub(super) fn parse<'a>(body: &'a [u8], attribute: &Attribute, is_x86_64: bool) -> Option<Fields<'a>> {
    let mut bytes = Bytes(body);
    let there = |bit| attribute.sample_type & bit != 0;
    let mut fields = Fields::default();
    if there(has::IDENTIFIER) {
        bytes.u64()?;
    }
    if there(has::IP) {
        fields.ip = bytes.u64()?;
    }
    if there(has::TID) {
        (fields.pid, fields.tid) = (bytes.u32()?, bytes.u32()?);
    }
    if there(has::TIME) {
        fields.time = bytes.u64()?;
    }
    for bit in [has::ADDR, has::ID, has::STREAM_ID] {
        if there(bit) {
            bytes.u64()?;
        }
    }
    if there(has::CPU) {
        fields.cpu = Some(bytes.u32()?);
        bytes.u32()?;
    }
    if there(has::PERIOD) {
        fields.period = Some(bytes.u64()?);
    }
    if there(has::READ) {
        skip_counts(&mut bytes, attribute.read_format)?;
    }
    if there(has::CALLCHAIN) {
        let words = bytes.u64()?;
        fields.callchain = bytes.take(words.checked_mul(8)?)?;
    }
    if there(has::RAW) {
        let length = bytes.u32()?;
        fields.raw = bytes.take(u64::from(length))?;
    }
    if there(has::BRANCH_STACK) {
        skip_branches(&mut bytes, attribute.branch_sample_type)?;
    }
    user_side(&mut bytes, attribute, is_x86_64, &mut fields)?;
    Some(fields)
}

/// Registers and stack of user mode. Other machines, and programs of 32 bits, have something else in the registers' places.
fn user_side(
    bytes: &mut Bytes<'_>,
    attribute: &Attribute,
    is_x86_64: bool,
    fields: &mut Fields<'_>,
) -> Option<()> {
    /// `PERF_SAMPLE_REGS_ABI_64`. 0 means no registers.
    const ABI_64: u64 = 2;
    /// Places among the x86-64 registers (`enum perf_event_x86_regs`).
    const BX: u32 = 1;
    const BP: u32 = 6;
    const SP: u32 = 7;
    const IP: u32 = 8;
    let there = |bit| attribute.sample_type & bit != 0;
    let mask = attribute.user_registers;
    let mut registers: &[u8] = &[];
    if there(has::REGS_USER) {
        let abi = bytes.u64()?;
        if abi != 0 {
            let told = bytes.take(u64::from(mask.count_ones()) * 8)?;
            registers = if is_x86_64 && abi == ABI_64 { told } else { &[] };
        }
    }
    let register = |place: u32| {
        let before = (mask & ((1 << place) - 1)).count_ones() as usize;
        let there = mask >> place & 1 == 1;
        Bytes(registers.get(before * 8..)?).u64().filter(|_| there)
    };
    fields.user_ip = register(IP);
    if there(has::STACK_USER) {
        let length = bytes.u64()?;
        let copy = bytes.take(length)?;
        fields.has_user_stack = length > 0;
        // Length of the readable part.
        let filled = if length > 0 { bytes.u64()?.min(length) } else { 0 };
        if let (Some(ip), Some(sp), Some(bp)) = (register(IP), register(SP), register(BP)) {
            let bytes = Bytes::part(copy, 0, filled)?.to_vec();
            let bx = register(BX).unwrap_or_default();
            fields.memory = Some(Box::new(RawMemory { ip, sp, bp, bx, bytes })).filter(|_| filled > 0);
        }
    }
    Some(())
}

/// The values of PERF_SAMPLE_READ.
fn skip_counts(bytes: &mut Bytes<'_>, read_format: u64) -> Option<()> {
    let there = |bit: u32| read_format >> bit & 1;
    // Time enabled and time running, then the id and the number of lost events of each value.
    let (times, each) = (there(0) + there(1), 1 + there(2) + there(4));
    let words = match there(3) {
        0 => times + each,
        _ => times.checked_add(bytes.u64()?.checked_mul(each)?)?,
    };
    bytes.take(words.checked_mul(8)?).map(|_| ())
}

fn skip_branches(bytes: &mut Bytes<'_>, branch_sample_type: u64) -> Option<()> {
    const HARDWARE_INDEX: u64 = 1 << 17;
    let count = bytes.u64()?;
    if branch_sample_type & HARDWARE_INDEX != 0 {
        bytes.u64()?;
    }
    bytes.take(count.checked_mul(24)?).map(|_| ())
}

/// The addresses of a sample, leaf first, and how many of them are the kernel's.
pub(super) fn addresses(fields: &Fields<'_>, in_kernel: bool) -> (Vec<u64>, u16) {
    /// Words from here up are context markers: the following addresses belong to the kernel, user mode, or a
    /// guest.
    const MARKERS: u64 = -4095_i64 as u64;
    const KERNEL: u64 = -128_i64 as u64;
    const USER: u64 = -512_i64 as u64;
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut part = None;
    let mut words = Bytes(fields.callchain);
    while let Some(word) = words.u64() {
        match word {
            KERNEL => part = Some(true),
            USER => part = Some(false),
            MARKERS.. => part = None,
            0 => {}
            address => match part {
                Some(true) => kernel.push(address),
                Some(false) => user.push(address),
                None => {}
            },
        }
    }
    if in_kernel && kernel.is_empty() {
        kernel.push(fields.ip);
    }
    if fields.memory.is_some() {
        user.clear();
    } else if !in_kernel && user.is_empty() {
        user.push(fields.ip);
    } else if user.is_empty() && fields.has_user_stack {
        user.extend(fields.user_ip.filter(|address| *address != 0));
    }
    let kernel_frames = u16::try_from(kernel.len()).unwrap_or(u16::MAX);
    kernel.truncate(usize::from(u16::MAX));
    kernel.append(&mut user);
    (kernel, kernel_frames)
}
