//! Places at which a runtime's tasks wait for locks, invisible to the kernel: where to set probes.

use serde::Deserialize;

use super::file::{DescriptorError, all_plain};

/// Functions, and the registers of their arguments. Registers are numbered as in x86-64's instructions (0 is
/// `rax`, 14 is `r14`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskProbe {
    /// Where a task begins to wait, all that the binary has.
    pub waits: Vec<TaskWaits>,
    /// One is made to go on where one of these is entered.
    pub goes_on: Vec<String>,
    /// The register that has the address of a record of it there.
    pub woken: u8,
    /// Offset of the task's ID in that record, in bytes.
    pub woken_task_at: u32,
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
    /// The register with the address of the awaited object.
    pub object: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    waits: Vec<WaitsEntry>,
    goes_on: Vec<String>,
    woken: String,
    woken_task_at: u32,
    locks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitsEntry {
    entry: String,
    task: String,
    object: String,
}

const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

impl TaskProbe {
    pub(super) fn read(entry: Entry) -> Result<TaskProbe, DescriptorError> {
        let Entry { waits, goes_on, woken, woken_task_at, locks } = entry;
        if waits.is_empty() || goes_on.is_empty() {
            return Err(DescriptorError::NoEntry("task_wait".to_owned()));
        }
        all_plain("task_wait", waits.iter().map(|one| &one.entry).chain(&goes_on).chain(&locks))?;
        let begins = |WaitsEntry { entry, task, object }| {
            Ok(TaskWaits { entry, task: register(task)?, object: register(object)? })
        };
        let waits = waits.into_iter().map(begins).collect::<Result<_, DescriptorError>>()?;
        Ok(TaskProbe { waits, goes_on, woken: register(woken)?, woken_task_at, locks })
    }
}

fn register(name: String) -> Result<u8, DescriptorError> {
    let at = REGISTERS.iter().position(|known| *known == name);
    at.map(|at| at as u8).ok_or(DescriptorError::Register(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(function: &str, task: &str) -> Result<TaskProbe, DescriptorError> {
        let waits = format!("[{{ entry = \"{function}\", task = \"{task}\", object = \"rbx\" }}]");
        let rest = "goes_on = [\"g\"]\nwoken = \"rax\"\nwoken_task_at = 8\nlocks = [\"a.l\"]";
        TaskProbe::read(toml::from_str(&format!("waits = {waits}\n{rest}")).unwrap())
    }

    #[test]
    fn registers_are_numbered_as_instructions_do() {
        let read = read("a.(*b).f", "r14").unwrap();
        let begins = TaskWaits { entry: "a.(*b).f".to_owned(), task: 14, object: 3 };
        assert_eq!((&read.waits[..], read.woken, read.woken_task_at), (&[begins][..], 0, 8));
        assert_eq!(read.locks, ["a.l"]);
    }

    #[test]
    fn what_can_not_be_probed_is_refused() {
        assert_eq!(read("f", "x0").unwrap_err(), DescriptorError::Register("x0".to_owned()));
        assert!(read("f(int)", "r14").unwrap_err().to_string().contains("write `f`"));
        let nowhere = "waits = []\ngoes_on = [\"g\"]\nwoken = \"rax\"\nwoken_task_at = 8\nlocks = []";
        let refused = TaskProbe::read(toml::from_str(nowhere).unwrap()).unwrap_err();
        assert_eq!(refused, DescriptorError::NoEntry("task_wait".to_owned()));
    }
}
