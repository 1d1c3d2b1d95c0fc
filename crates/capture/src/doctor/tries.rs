//! The doctor's checks, one function each. They leave nothing behind.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{fs, io};

use crate::bpf::uprobes;
use crate::mappings::read_maps;
use crate::perf_ring::{self, Attr, flag};

/// How much of `union bpf_attr` the commands below use.
const ATTR_BYTES: usize = 72;

/// `union bpf_attr`.
#[repr(C, align(8))]
struct BpfAttr([u8; ATTR_BYTES]);

impl BpfAttr {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(field) = self.0.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    }

    fn call(&self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: the kernel reads ATTR_BYTES at a valid pointer, and the memory that the fields point at,
        // which the callers keep alive. It keeps no pointer.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), self.0.len()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }
}

/// Loads a tracepoint program and drops it again.
pub fn bpf_ready() -> io::Result<()> {
    const TYPE_TRACEPOINT: u32 = 5;
    load((TYPE_TRACEPOINT, 0)).map(drop)
}

/// Loads a program of two instructions (`r0 = 0; exit`), of this type, for that kind of attachment.
fn load((kind, attached): (u32, u32)) -> io::Result<OwnedFd> {
    const PROG_LOAD: libc::c_int = 5;
    const INSTRUCTIONS: [u64; 2] = [0xb7, 0x95];
    let license = c"GPL";
    let mut attr = BpfAttr([0; ATTR_BYTES]);
    attr.put(0, &kind.to_ne_bytes());
    attr.put(4, &(INSTRUCTIONS.len() as u32).to_ne_bytes());
    attr.put(8, &(INSTRUCTIONS.as_ptr() as u64).to_ne_bytes());
    attr.put(16, &(license.as_ptr() as u64).to_ne_bytes());
    attr.put(68, &attached.to_ne_bytes());
    attr.call(PROG_LOAD)
}

const LINK_CREATE: libc::c_int = 28;
const TYPE_KPROBE: u32 = 2;

/// Probes a function of this program that is never called, in this process alone, with a link for many probes.
pub fn function_probe() -> io::Result<()> {
    const UPROBE_MULTI: u32 = 48;
    let offset = offset_of_never_called()?;
    let program = load((TYPE_KPROBE, UPROBE_MULTI))?;
    let mut attr = BpfAttr([0; ATTR_BYTES]);
    attr.put(0, &program.as_raw_fd().to_ne_bytes());
    attr.put(8, &UPROBE_MULTI.to_ne_bytes());
    attr.put(16, &(c"/proc/self/exe".as_ptr() as u64).to_ne_bytes());
    attr.put(24, &(&raw const offset as u64).to_ne_bytes());
    attr.put(48, &1u32.to_ne_bytes());
    attr.put(56, &std::process::id().to_ne_bytes());
    attr.call(LINK_CREATE).map(drop)
}

/// The same with a perf event, which a link with a number holds the program at.
pub fn single_function_probe() -> io::Result<()> {
    const PERF_EVENT: u32 = 41;
    let event_type = uprobes::event_type().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSYS))?;
    let mut event = uprobes::event_attr(event_type, (offset_of_never_called()?, 0));
    event.config1 = c"/proc/self/exe".as_ptr() as u64;
    let event = perf_ring::open(&event, 0, -1)?;
    let program = load((TYPE_KPROBE, 0))?;
    let mut attr = BpfAttr([0; ATTR_BYTES]);
    attr.put(0, &program.as_raw_fd().to_ne_bytes());
    attr.put(4, &event.as_raw_fd().to_ne_bytes());
    attr.put(8, &PERF_EVENT.to_ne_bytes());
    attr.put(16, &1u64.to_ne_bytes());
    attr.call(LINK_CREATE).map(drop)
}

fn offset_of_never_called() -> io::Result<u64> {
    let address = never_called as *const () as u64;
    let mapping =
        read_maps(std::process::id()).into_iter().find(|one| (one.start..one.end).contains(&address));
    let mapping = mapping.ok_or_else(|| io::Error::other("the program does not find itself"))?;
    Ok(address - mapping.start + mapping.file_offset)
}

#[inline(never)]
extern "C" fn never_called() -> u32 {
    std::process::id()
}

/// Makes a ring buffer of one page and drops it again.
pub fn bpf_map() -> io::Result<()> {
    const MAP_CREATE: libc::c_int = 0;
    const TYPE_RINGBUF: u32 = 27;
    let mut attr = BpfAttr([0; ATTR_BYTES]);
    attr.put(0, &TYPE_RINGBUF.to_ne_bytes());
    attr.put(12, &4096u32.to_ne_bytes());
    attr.call(MAP_CREATE).map(drop)
}

/// Opens a cpu-clock event for `pid` on `cpu`.
pub fn perf_cpu_clock(pid: i32, cpu: i32, user_only: bool) -> io::Result<()> {
    let attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK).with(flag::DISABLED);
    let attr = if user_only { attr.with(flag::EXCLUDE_KERNEL | flag::CONTEXT_SWITCH) } else { attr };
    perf_ring::open(&attr, pid, cpu).map(drop)
}

/// Puts a hardware watchpoint on a word of this process.
pub fn perf_watchpoint() -> io::Result<()> {
    const WRITES: u32 = 2;
    let word = 0u64;
    let mut attr = Attr::new(perf_ring::TYPE_BREAKPOINT, 0).with(flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
    attr.breakpoint_kind = WRITES;
    attr.config1 = (&raw const word) as u64;
    attr.config2 = 8;
    perf_ring::open(&attr, 0, -1).map(drop)
}

/// The number of a tracepoint (`group/name`), if it can be read.
pub fn tracepoint_id(name: &str) -> Option<u32> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|root| fs::read_to_string(format!("{root}/events/{name}/id")).ok()?.trim().parse().ok())
}

/// The kernel's report of steal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal {
    /// There is no hypervisor.
    NoHypervisor,
    /// Some was reported.
    Reported,
    /// None was reported since boot.
    Silent,
}

/// See [`Steal`].
pub fn steal() -> Steal {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    steal_of(&read("/proc/cpuinfo"), &read("/proc/stat"))
}

fn steal_of(cpuinfo: &str, stat: &str) -> Steal {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    if !flags.split_ascii_whitespace().any(|word| word == "hypervisor") {
        return Steal::NoHypervisor;
    }
    // cpu user nice system idle iowait irq softirq steal …
    let steal =
        stat.lines().next().and_then(|line| line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok());
    if steal.is_some_and(|ticks| ticks > 0) { Steal::Reported } else { Steal::Silent }
}

/// `/proc/kallsyms` shows addresses, not zeros.
pub fn kernel_symbols_readable() -> bool {
    use std::io::BufRead;
    let Ok(file) = fs::File::open("/proc/kallsyms") else { return false };
    // Per-CPU symbols, which come first, may truly be at 0.
    io::BufReader::new(file).lines().take(10_000).map_while(Result::ok).any(|line| has_address(&line))
}

fn has_address(line: &str) -> bool {
    line.split(' ').next().is_some_and(|address| address.bytes().any(|digit| digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time() {
        let guest = "processor : 0\nflags : fpu hypervisor sse\n";
        assert_eq!(steal_of(guest, "cpu  1 2 3 4 5 6 7 8 0 0\n"), Steal::Reported);
        assert_eq!(steal_of(guest, "cpu  1 2 3 4 5 6 7 0 0 0\n"), Steal::Silent);
        assert_eq!(steal_of(guest, ""), Steal::Silent);
        assert_eq!(steal_of("flags : fpu\n", "cpu 1 2 3 4 5 6 7 8"), Steal::NoHypervisor);
    }

    #[test]
    fn functions_can_be_probed_in_both_forms() {
        if let Err(error) = bpf_ready() {
            return println!("skipped: BPF is not allowed here: {error}");
        }
        for (form, tried) in [("many", function_probe()), ("single", single_function_probe())] {
            match tried {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => {
                    println!("skipped: {form}: {error}");
                }
                tried => tried.unwrap_or_else(|error| panic!("{form}: {error}")),
            }
        }
    }

    #[test]
    fn hidden_symbols_are_zeros() {
        assert!(!has_address("0000000000000000 T _stext"));
        assert!(has_address("ffffffff81000000 T _stext"));
    }

    #[test]
    fn attributes_do_not_overflow() {
        let mut attr = BpfAttr([0; ATTR_BYTES]);
        attr.put(ATTR_BYTES - 4, &[1; 8]);
        assert_eq!(attr.0, [0; ATTR_BYTES]);
    }
}
