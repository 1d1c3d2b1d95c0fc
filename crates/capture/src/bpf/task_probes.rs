//! Probes where a runtime's tasks wait for locks and channels, and go on, in one process each (`bpf/tasks.h`). Links as those of spans.

use std::collections::BTreeMap;
use std::path::Path;

use holdup_events::Timestamp;
use libbpf_rs::{MapCore, MapFlags, Object};

use super::messages;
use super::span_probes::put_into;
use super::uprobes::{Attached, Place, Point, Uprobes};
use crate::error::CaptureError;
use crate::lower;

/// A place where a task begins to wait. Registers are numbered as instructions do (0 is `rax`, 14 is `r14`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPlace {
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// The register that identifies the task.
    pub task: u8,
    /// The register with the address of the awaited object. `None` if only the waker knows the object.
    pub object: Option<u8>,
}

/// A place where a task wakes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakePlace {
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// The register with the address of a record of the woken task.
    pub woken: u8,
    /// The channel through which the task wakes. `None` for locks.
    pub channel: Option<ChannelRegisters>,
}

/// Registers where a task wakes another one through a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelRegisters {
    /// The register with the channel's address.
    pub object: u8,
    /// The register that identifies the waking task.
    pub task: u8,
    /// The woken task waited to send. False: it waited to receive.
    pub wakes_sender: bool,
}

/// The wait sites of a process, and the data read there.
#[derive(Clone, Copy, Debug)]
pub struct TaskPlaces<'a> {
    /// The process.
    pub tgid: u32,
    /// The binary, as we can open it.
    pub file: &'a Path,
    /// Where a task begins to wait.
    pub waits: &'a [WaitPlace],
    /// Where a task is woken.
    pub goes_on: &'a [WakePlace],
    /// Offset of the task ID in the record of a woken task (bytes).
    pub woken_task_at: u32,
    /// Offsets in a channel of the number of its slots and of the size of an item (bytes).
    pub channel_fields: [u16; 2],
    /// Hits per second beyond which recording stops.
    pub per_second_max: u32,
}

/// A task that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Since when.
    pub since: Timestamp,
    /// For what.
    pub object: u64,
    /// Id of the stack at the begin of the wait. 0 for none.
    pub stack: u64,
    /// The thread that it was on then.
    pub tid: u32,
}

/// The probes that are in place, by process.
#[derive(Default)]
pub(super) struct TaskProbes {
    /// With each one's generation.
    links: BTreeMap<u32, (Attached, u32)>,
    /// The last one given.
    generation: u32,
}

const PROGRAM: &str = "on_task";
const GUARDS: &str = "task_guards";
const WAITS: &str = "task_waits";
/// `struct task_guard`: offsets of the fields that user space writes, and its size.
const LIMIT_AT: usize = 12;
const GENERATION_AT: usize = 20;
const OPENED_AT: usize = 24;
const TASK_AT: usize = 32;
const SLOTS_AT: usize = 36;
const ITEM_BYTES_AT: usize = 38;
const GUARD_BYTES: usize = 40;
/// `struct task_key`: where the process is.
const TGID_AT: usize = 8;
/// `struct task_waiting`.
const WAITING_BYTES: usize = 32;
/// `TASK_WAITS` and `TASK_GOES_ON` in `bpf/tasks.h`. The registers are in higher bits.
const BEGINS: u64 = 0;
const GOES_ON: u64 = 1;
/// `NO_REGISTER` in `bpf/tasks.h`.
const NO_REGISTER: u8 = 0xff;
/// `enum wire_task_end` in `bpf/wire.h`.
const RECEIVED: u64 = 1;
const SENT: u64 = 2;

impl TaskProbes {
    /// Sets the probes. All waits are recorded from now on.
    pub fn arm(
        &mut self,
        object: &Object,
        uprobes: &Uprobes,
        at: &TaskPlaces<'_>,
    ) -> Result<(), CaptureError> {
        self.generation = self.generation.wrapping_add(1);
        put_into(object, GUARDS, (&at.tgid.to_ne_bytes(), &bytes_of(at, (self.generation, lower::now()))))?;
        let point = |offset: u64, cookie: u64| Point { offset, semaphore: 0, cookie };
        let begins = at.waits.iter().map(|place| point(place.offset, cookie(place)));
        let goes_on = at.goes_on.iter().map(|place| point(place.offset, wake_cookie(place)));
        let points: Vec<Point> = begins.chain(goes_on).collect();
        let place = Place { program: PROGRAM, tgid: at.tgid, number: 0, file: at.file, points: &points };
        let attached = uprobes.attach(object, &place)?;
        self.links.insert(at.tgid, (attached, self.generation));
        messages::take();
        Ok(())
    }

    /// Removes the probes of a process. Returns the tasks whose wait began with the probes in place and goes
    /// on.
    pub fn disarm(&mut self, object: &Object, tgid: u32) -> Vec<Waiting> {
        let Some((attached, generation)) = self.links.remove(&tgid) else { return Vec::new() };
        drop(attached);
        let map = |name: &'static str| object.maps().find(move |map| map.name() == name);
        // What stays costs its room.
        if let Some(guards) = map(GUARDS) {
            let _ = guards.delete(&tgid.to_ne_bytes());
        }
        let Some(waits) = map(WAITS) else { return Vec::new() };
        let is_its = |key: &Vec<u8>| key.get(TGID_AT..TGID_AT + 4) == Some(&tgid.to_ne_bytes()[..]);
        let its: Vec<Vec<u8>> = waits.keys().filter(is_its).collect();
        let mut waiting = Vec::new();
        for key in its {
            let found = waits.lookup(&key, MapFlags::ANY).ok().flatten();
            let found = found.and_then(|bytes| waiting_of(&bytes));
            waiting.extend(found.filter(|(_, of)| *of == generation));
            let _ = waits.delete(&key);
        }
        waiting.into_iter().map(|(one, _)| one).collect()
    }

    /// Whether probes of this process are still being removed: new ones would wait for that.
    pub fn are_being_removed(&self, uprobes: &Uprobes, tgid: u32) -> bool {
        uprobes.is_being_removed(PROGRAM, tgid, 0)
    }

    /// Detaches all probes. Nothing is recorded from then on.
    pub fn clear(&mut self, object: &Object) {
        let processes: Vec<u32> = self.links.keys().copied().collect();
        for tgid in processes {
            self.disarm(object, tgid);
        }
    }
}

/// `struct task_guard`.
fn bytes_of(at: &TaskPlaces<'_>, (generation, opened): (u32, Timestamp)) -> [u8; GUARD_BYTES] {
    let mut guard = [0; GUARD_BYTES];
    let mut put = |from: usize, bytes: &[u8]| guard[from..from + bytes.len()].copy_from_slice(bytes);
    put(LIMIT_AT, &at.per_second_max.to_ne_bytes());
    put(GENERATION_AT, &generation.to_ne_bytes());
    put(OPENED_AT, &opened.0.to_ne_bytes());
    put(TASK_AT, &at.woken_task_at.to_ne_bytes());
    put(SLOTS_AT, &at.channel_fields[0].to_ne_bytes());
    put(ITEM_BYTES_AT, &at.channel_fields[1].to_ne_bytes());
    guard
}

fn cookie(place: &WaitPlace) -> u64 {
    BEGINS | u64::from(place.task) << 8 | u64::from(place.object.unwrap_or(NO_REGISTER)) << 16
}

fn wake_cookie(place: &WakePlace) -> u64 {
    let channel = |at: &ChannelRegisters| {
        let ended = if at.wakes_sender { RECEIVED } else { SENT };
        u64::from(at.object) << 16 | u64::from(at.task) << 24 | ended << 32
    };
    GOES_ON | u64::from(place.woken) << 8 | place.channel.as_ref().map_or(0, channel)
}

/// `struct task_waiting`, with its generation.
fn waiting_of(bytes: &[u8]) -> Option<(Waiting, u32)> {
    let bytes: &[u8; WAITING_BYTES] = bytes.try_into().ok()?;
    let wide = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let narrow = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    let waiting = Waiting { since: Timestamp(wide(0)), object: wide(8), stack: wide(16), tid: narrow(24) };
    Some((waiting, narrow(28)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_laid_out_as_the_kernel_program_has_it() {
        let place = WaitPlace { offset: 1, task: 14, object: Some(3) };
        let wakes = |channel| WakePlace { offset: 2, woken: 3, channel };
        let receives = ChannelRegisters { object: 0, task: 14, wakes_sender: true };
        let sends = ChannelRegisters { wakes_sender: false, ..receives };
        let at = TaskPlaces {
            tgid: 7,
            file: Path::new("/bin/true"),
            waits: &[place],
            goes_on: &[wakes(None)],
            woken_task_at: 8,
            channel_fields: [16, 24],
            per_second_max: 500,
        };
        let (word, long) = (|number: u32| number.to_ne_bytes(), |number: u64| number.to_ne_bytes());
        let tail = [&word(500)[..], &word(0), &word(9), &long(77), &word(8), &[16, 0, 24, 0]].concat();
        assert_eq!(bytes_of(&at, (9, Timestamp(77))).as_slice(), [vec![0; 12], tail].concat());
        assert_eq!(cookie(&place), 0x03_0e_00);
        assert_eq!(cookie(&WaitPlace { object: None, ..place }), 0xff_0e_00);
        let cookies = [None, Some(receives), Some(sends)].map(|channel| wake_cookie(&wakes(channel)));
        assert_eq!(cookies, [0x03_01, 0x01_0e_00_03_01, 0x02_0e_00_03_01]);
        let waiting = [&long(5)[..], &long(6), &long(7), &word(8), &word(9)].concat();
        let expected = Waiting { since: Timestamp(5), object: 6, stack: 7, tid: 8 };
        assert_eq!(waiting_of(&waiting), Some((expected, 9)));
        assert_eq!(waiting_of(&waiting[1..]), None);
    }
}
