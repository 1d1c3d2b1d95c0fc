//! Places at which a runtime's tasks wait for locks and channels, invisible to the kernel: where to set probes.

use serde::Deserialize;

use super::file::{DescriptorError, all_plain};

/// Functions, and the registers of their arguments. Registers are numbered as in x86-64's instructions (0 is
/// `rax`, 14 is `r14`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskProbe {
    /// Where a task begins to wait, all that the binary has.
    pub waits: Vec<TaskWaits>,
    /// Where a task is woken, all that the binary has.
    pub goes_on: Vec<TaskWakes>,
    /// Offset of the task's ID in the record of a woken task, in bytes.
    pub woken_task_at: u32,
    /// Offsets in a channel of the number of its slots and of the size of an item, in bytes.
    pub channel_fields: [u16; 2],
    /// Functions of which one is on the stack if a task waits for a lock. Otherwise it waits for something
    /// else.
    pub locks: Vec<String>,
}

/// Where a task begins to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWaits {
    /// Where this is entered.
    pub entry: String,
    /// The register with the task's ID.
    pub task: u8,
    /// The register with the address of the awaited object. `None` if only the waker knows the object.
    pub object: Option<u8>,
}

/// Where a task wakes another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWakes {
    /// Where this is entered.
    pub entry: String,
    /// The register with the address of a record of the woken task.
    pub woken: u8,
    /// The channel through which the task wakes. `None` for locks.
    pub channel: Option<WakesByChannel>,
}

/// Registers where a task wakes another one through a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakesByChannel {
    /// The register with the channel's address.
    pub object: u8,
    /// The register with the waking task's ID.
    pub task: u8,
    /// The woken task waited to send. False: it waited to receive.
    pub wakes_sender: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    waits: Vec<WaitsEntry>,
    goes_on: Vec<WakesEntry>,
    woken_task_at: u32,
    #[serde(default)]
    slots_at: u16,
    #[serde(default)]
    item_bytes_at: u16,
    locks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitsEntry {
    entry: String,
    task: String,
    object: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WakesEntry {
    entry: String,
    woken: String,
    channel: Option<WakesByEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WakesByEntry {
    object: String,
    task: String,
    wakes: Waiter,
}

/// The operation that the woken task waited for.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Waiter {
    Sender,
    Receiver,
}

const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

impl TaskProbe {
    pub(super) fn read(entry: Entry) -> Result<TaskProbe, DescriptorError> {
        let Entry { waits, goes_on, woken_task_at, slots_at, item_bytes_at, locks } = entry;
        if waits.is_empty() || goes_on.is_empty() {
            return Err(DescriptorError::NoEntry("task_wait".to_owned()));
        }
        let entries = waits.iter().map(|one| &one.entry).chain(goes_on.iter().map(|one| &one.entry));
        all_plain("task_wait", entries.chain(&locks))?;
        let waits = waits.into_iter().map(TaskWaits::read).collect::<Result<_, DescriptorError>>()?;
        let goes_on = goes_on.into_iter().map(TaskWakes::read).collect::<Result<_, DescriptorError>>()?;
        let channel_fields = [slots_at, item_bytes_at];
        Ok(TaskProbe { waits, goes_on, woken_task_at, channel_fields, locks })
    }
}

impl TaskWaits {
    fn read(WaitsEntry { entry, task, object }: WaitsEntry) -> Result<TaskWaits, DescriptorError> {
        Ok(TaskWaits { entry, task: register(task)?, object: object.map(register).transpose()? })
    }
}

impl TaskWakes {
    fn read(WakesEntry { entry, woken, channel }: WakesEntry) -> Result<TaskWakes, DescriptorError> {
        let by = |WakesByEntry { object, task, wakes }| {
            let (object, task) = (register(object)?, register(task)?);
            Ok(WakesByChannel { object, task, wakes_sender: wakes == Waiter::Sender })
        };
        Ok(TaskWakes { entry, woken: register(woken)?, channel: channel.map(by).transpose()? })
    }
}

fn register(name: String) -> Result<u8, DescriptorError> {
    let at = REGISTERS.iter().position(|known| *known == name);
    at.map(|at| at as u8).ok_or(DescriptorError::Register(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKES: &str = r#"[
        { entry = "g", woken = "rax" },
        { entry = "h", woken = "rbx", channel = { object = "rax", task = "r14", wakes = "sender" } },
    ]"#;

    fn read(waits: &str, goes_on: &str) -> Result<TaskProbe, DescriptorError> {
        let rest = "woken_task_at = 8\nslots_at = 16\nitem_bytes_at = 24\nlocks = [\"a.l\"]";
        TaskProbe::read(toml::from_str(&format!("waits = {waits}\ngoes_on = {goes_on}\n{rest}")).unwrap())
    }

    fn waits(function: &str, task: &str) -> String {
        format!("[{{ entry = \"{function}\", task = \"{task}\", object = \"rbx\" }}]")
    }

    #[test]
    fn registers_are_numbered_as_instructions_do() {
        let read = read(&waits("a.(*b).f", "r14"), WAKES).unwrap();
        let begins = TaskWaits { entry: "a.(*b).f".to_owned(), task: 14, object: Some(3) };
        assert_eq!(read.waits, [begins]);
        let by = WakesByChannel { object: 0, task: 14, wakes_sender: true };
        let wakes = |entry: &str, woken, channel| TaskWakes { entry: entry.to_owned(), woken, channel };
        assert_eq!(read.goes_on, [wakes("g", 0, None), wakes("h", 3, Some(by))]);
        assert_eq!((&read.locks[..], read.channel_fields), (&["a.l".to_owned()][..], [16, 24]));
    }

    #[test]
    fn an_object_may_be_known_to_the_waker_alone() {
        let read = read("[{ entry = \"f\", task = \"r14\" }]", WAKES).unwrap();
        assert_eq!(read.waits[0].object, None);
    }

    #[test]
    fn what_can_not_be_probed_is_refused() {
        let refused = |function: &str, task: &str| read(&waits(function, task), WAKES).unwrap_err();
        assert_eq!(refused("f", "x0"), DescriptorError::Register("x0".to_owned()));
        assert!(refused("f(int)", "r14").to_string().contains("write `f`"));
        assert_eq!(read("[]", WAKES).unwrap_err(), DescriptorError::NoEntry("task_wait".to_owned()));
    }
}
