//! A real thread, stopped where its program asked for it: registers, memory and tables for the walkers.
//!
//! The program under test calls `PTRACE_TRACEME` in each of its threads that are to stop, and stops by a breakpoint
//! instruction (`int3`). No privilege is needed. All of one program's calls come from the thread that started it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, LazyLock, Mutex};

use holdup_decode::unwind::{Registers, Table};

use crate::bpf_host::HostMapping;

/// Why a program did not stop where it should.
#[derive(Debug)]
pub enum NotStopped {
    /// The program could not be started.
    Start(std::io::Error),
    /// The program ended. `ptrace` may be forbidden.
    Ended,
}

/// A program of which one thread is stopped.
pub struct Stopped {
    pid: i32,
    /// The thread that is stopped.
    tid: i32,
    memory: File,
    said: Receiver<String>,
    over: bool,
}

impl Stopped {
    /// Starts a program, and waits until a thread of it stops by itself.
    pub fn start(command: &mut Command) -> Result<Stopped, NotStopped> {
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(NotStopped::Start)?;
        let output = child.stdout.take().expect("piped");
        // Read at once: a full pipe would keep the program from getting anywhere.
        let (sender, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let pid = child.id() as i32;
        let memory = File::open(format!("/proc/{pid}/mem")).map_err(NotStopped::Start)?;
        let mut stopped = Stopped { pid, tid: pid, memory, said, over: false };
        stopped.wait()?;
        Ok(stopped)
    }

    /// Output before a line `end`, or before the program's end.
    pub fn output(&self) -> Vec<String> {
        self.said.iter().take_while(|line| line != "end").collect()
    }

    /// Waits for a breakpoint. Other signals are passed to the program.
    fn wait(&mut self) -> Result<(), NotStopped> {
        loop {
            let mut status = 0;
            // SAFETY: `status` lives through the call. Only children of this thread are waited for.
            let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            if tid < 0 || (tid == self.pid && !libc::WIFSTOPPED(status)) {
                self.over = tid < 0 || !libc::WIFSTOPPED(status);
                return Err(NotStopped::Ended);
            }
            if !libc::WIFSTOPPED(status) {
                continue;
            }
            self.tid = tid;
            let signal = libc::WSTOPSIG(status);
            if signal == libc::SIGTRAP {
                return Ok(());
            }
            self.resume(libc::PTRACE_CONT, signal);
        }
    }

    fn resume(&self, how: libc::c_uint, signal: i32) {
        // SAFETY: no memory of ours is touched.
        unsafe { libc::ptrace(how, self.tid, 0, signal as libc::c_long) };
    }

    /// Executes one instruction.
    pub fn step(&mut self) -> Result<(), NotStopped> {
        self.resume(libc::PTRACE_SINGLESTEP, 0);
        self.wait()
    }

    /// Registers of the stopped thread.
    pub fn registers(&self) -> Registers {
        // SAFETY: all zeros is a value of this struct of integers, and the kernel fills all of it.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let into = &raw mut registers;
        // SAFETY: `into` has room for what PTRACE_GETREGS writes.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.tid, 0, into) };
        assert_eq!(result, 0, "registers of {}", self.tid);
        Registers { ip: registers.rip, sp: registers.rsp, bp: registers.rbp, bx: registers.rbx }
    }

    /// Reads its memory.
    pub fn read(&self, address: u64, to: &mut [u8]) -> bool {
        self.memory.read_exact_at(to, address).is_ok()
    }

    /// A word of its memory.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word).then(|| u64::from_le_bytes(word))
    }

    /// Executable mappings with the rows of their files, in the order of addresses.
    pub fn mappings(&self) -> Vec<HostMapping> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).expect("its mappings");
        maps.lines().filter_map(|line| self.mapping(line)).collect()
    }

    fn mapping(&self, line: &str) -> Option<HostMapping> {
        let mut words = line.split_ascii_whitespace();
        let (range, protection, offset) = (words.next()?, words.next()?, words.next()?);
        let path = words.nth(2).unwrap_or("");
        if protection.as_bytes().get(2) != Some(&b'x') || path == "[vsyscall]" {
            return None;
        }
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (start, end) = (hex(start)?, hex(end)?);
        let bare = HostMapping { start, end, ..HostMapping::default() };
        let Some(table) = self.table(path, start, end) else { return Some(bare) };
        let base = table.base_when_mapped(start, end - start, hex(offset)?)?;
        Some(HostMapping { base, rows: table.rows.clone(), ..bare })
    }

    fn table(&self, path: &str, start: u64, end: u64) -> Option<Arc<Table>> {
        static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Table>>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().expect("no panic while it is held");
        if let Some(table) = known.get(path) {
            return Some(table.clone());
        }
        let bytes = if path == "[vdso]" {
            let mut bytes = vec![0; (end - start) as usize];
            self.read(start, &mut bytes).then_some(bytes)?
        } else {
            std::fs::read(path).ok()?
        };
        let table = Arc::new(Table::compile(&*bytes).ok()?);
        known.insert(path.to_owned(), table.clone());
        Some(table)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // SAFETY: the child is ours and not yet reaped, so the number is still its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL | libc::__WNOTHREAD) > 0 {}
        }
    }
}
