//! Records a command with the `perf` or `proc` backend and prints its events: `lower perf|proc [--summary]
//! CMD ARGS...`, or `lower perf|proc --attach PID SECONDS`.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use holdup_capture::lower::{self, Backend, Mode, Target};
use holdup_events::event::{Outcome, SnapshotState};
use holdup_events::{Event, recording};

const SAMPLE_HZ: u32 = 499;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let summary =
        arguments.iter().position(|word| word == "--summary").map(|at| arguments.remove(at)).is_some();
    let kind = match arguments.first().map(String::as_str) {
        Some("perf") if arguments.len() > 1 => recording::Backend::Perf,
        Some("proc") if arguments.len() > 1 => recording::Backend::Proc,
        _ => {
            eprintln!("usage: lower perf|proc [--summary] CMD ARGS... | --attach PID SECONDS");
            return ExitCode::from(2);
        }
    };
    let mut counts = BTreeMap::new();
    let mut sink = |event: Event| {
        if !summary {
            println!("{event:?}");
        }
        *counts.entry(label(&event)).or_insert(0u64) += 1;
    };
    let outcome = match &arguments[1..] {
        [flag, pid, seconds] if flag == "--attach" => attach(kind, pid, seconds, &mut sink),
        command => run(kind, command, &mut sink),
    };
    if let Err(error) = outcome {
        eprintln!("lower: {error}");
        return ExitCode::FAILURE;
    }
    for (label, count) in counts {
        println!("{count:>9} {label}");
    }
    ExitCode::SUCCESS
}

fn attach(
    kind: recording::Backend,
    pid: &str,
    seconds: &str,
    sink: &mut dyn FnMut(Event),
) -> Result<(), String> {
    let pid = pid.parse().map_err(|_| "PID must be a number")?;
    let seconds: f64 = seconds.parse().map_err(|_| "SECONDS must be a number")?;
    let target = Target { pid, mode: Mode::Attach, sample_hz: SAMPLE_HZ };
    let mut backend = lower::open(kind, &target).map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        pause(backend.as_ref());
        backend.drain(sink);
    }
    close(backend, sink);
    Ok(())
}

fn run(kind: recording::Backend, command: &[String], sink: &mut dyn FnMut(Event)) -> Result<(), String> {
    let (pid, gate) = spawn_suspended(command)?;
    let target = Target { pid: pid as u32, mode: Mode::Run, sample_hz: SAMPLE_HZ };
    let mut backend = lower::open(kind, &target).map_err(|error| error.to_string())?;
    // SAFETY: closes the descriptor that `spawn_suspended` gave us: the child goes on.
    unsafe { libc::close(gate) };
    let mut status = 0;
    // SAFETY: writes the status behind the pointer.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        pause(backend.as_ref());
        backend.drain(sink);
    }
    close(backend, sink);
    println!("exit status: {}", libc::WEXITSTATUS(status));
    Ok(())
}

fn pause(backend: &dyn Backend) {
    std::thread::sleep(backend.interval().min(Duration::from_millis(20)));
}

fn close(mut backend: Box<dyn Backend>, sink: &mut dyn FnMut(Event)) {
    backend.finish(sink);
    let missing = backend.missing();
    if !missing.is_empty() {
        println!("missing: {missing}");
    }
    // SAFETY: an all-zero rusage is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let milliseconds = |time: libc::timeval| time.tv_sec * 1000 + time.tv_usec / 1000;
    println!("own cpu: {} ms", milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime));
}

/// Forks a child that waits until the returned descriptor is closed, then runs `command`.
fn spawn_suspended(command: &[String]) -> Result<(libc::pid_t, i32), String> {
    let words: Vec<CString> = command
        .iter()
        .map(|word| CString::new(word.as_str()))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let mut pipe = [0; 2];
    // SAFETY: this process has one thread. Between fork and exec only async-signal-safe calls are made.
    unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err("pipe".to_owned());
        }
        let pid = libc::fork();
        if pid == 0 {
            libc::close(pipe[1]);
            let mut byte = 0u8;
            libc::read(pipe[0], (&raw mut byte).cast(), 1);
            libc::execvp(pointers[0], pointers.as_ptr());
            libc::_exit(127);
        }
        libc::close(pipe[0]);
        if pid < 0 { Err("fork".to_owned()) } else { Ok((pid, pipe[1])) }
    }
}

fn label(event: &Event) -> String {
    match event {
        Event::Switch(switch) => match &switch.outcome {
            Outcome::Untracked => "switch in".to_owned(),
            Outcome::Blocked(wait) => format!("switch out blocked, stack {}", wait.stack != 0),
            outcome => format!("switch out {outcome:?}"),
        },
        Event::Sample(sample) => format!("sample, kernel {}, stack {}", sample.in_kernel, sample.stack != 0),
        Event::Snapshot(snapshot) => match &snapshot.state {
            SnapshotState::Running(_) => "snapshot running".to_owned(),
            SnapshotState::Blocked(wait) => {
                format!("snapshot blocked in {} on {:?}", wait.syscall, wait.object_kind)
            }
            state => format!("snapshot {state:?}"),
        },
        Event::Lifecycle(lifecycle) => {
            format!("{:?}", lifecycle.change).split(' ').next().unwrap_or_default().to_lowercase()
        }
        Event::Loss(loss) => format!("loss {} {}", loss.source, loss.reason),
        Event::Mapping(_) => "mapping".to_owned(),
        Event::Stack(_) => "stack".to_owned(),
        Event::Runtime(_) => "tell".to_owned(),
        Event::Affinity(affinity) => format!("affinity {}", affinity.cpus),
        Event::Calls(_) | Event::ObjectName(_) => "calls".to_owned(),
        Event::Allocated(_) | Event::Freed(_) => "allocation".to_owned(),
        Event::Counted(counted) => format!("count {}", counted.what.name()),
        Event::Fault(_) => "fault".to_owned(),
        Event::Watched(_) => "watched".to_owned(),
        Event::TaskWait(_) | Event::TaskWindow(_) => "tasks".to_owned(),
        Event::SyscallCount(_) => "syscall count".to_owned(),
        Event::Waking(_) => "waking".to_owned(),
    }
}
