//! A program with adjustable amounts of each class of thread time, which prints the real amounts.
//!
//! Each worker executes the requested phases, round after round. A thread measures every phase by its wall
//! time (CLOCK_MONOTONIC), its CPU time (CLOCK_THREAD_CPUTIME_ID), and the run-queue time of the kernel's
//! schedstat. The rest of the wall time is waiting, of the kind that the phase makes. At the end, one line of
//! JSON has these sums and the kernel's schedstat for every thread. A test compares them with a ledger. The program does not depend on holdup.

mod clock;
mod locks;
mod partner;
mod phases;

use std::sync::Arc;

use clock::{Kind, Log};
use locks::LockKind;
use phases::Worker;

const USAGE: &str =
    "usage: holdup-dial [--threads N] [--seconds S] [PHASE MS]... [--lock-kind pthread|std] [--dir PATH]

Each worker repeats the phases, each for MS milliseconds, until S seconds (5) are over:
  --compute MS    arithmetic, by CPU time
  --spin MS       re-reads a flag that its partner sets after MS
  --sleep MS      clock_nanosleep
  --lock MS       waits for a mutex that its partner holds for MS
  --pipe MS       reads a pipe that its partner writes after MS
  --disk MS       fdatasync of a file in PATH, again and again for MS
  --runqueue MS   wants the CPU that its partner spins on, for MS

example: holdup-dial --threads 2 --seconds 3 --compute 5 --lock 10 --sleep 5";

/// Parsed flags.
#[derive(Debug)]
struct Settings {
    threads: usize,
    seconds: f64,
    lock_kind: LockKind,
    directory: std::path::PathBuf,
    /// In the order of the flags (ms each).
    phases: Vec<(Kind, f64)>,
}

fn main() {
    if std::env::args().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return;
    }
    let settings = match parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("holdup-dial: {message}\n\n{USAGE}");
            std::process::exit(2);
        }
    };
    let start_ns = clock::monotonic_ns();
    match run(&settings) {
        Ok(logs) => {
            let threads: Vec<String> = logs.iter().map(Log::json).collect();
            let wall_ns = clock::monotonic_ns() - start_ns;
            let pid = std::process::id();
            let joined = threads.join(",");
            println!(
                "{{\"program\":\"holdup-dial\",\"pid\":{pid},\"start_ns\":{start_ns},\"wall_ns\":{wall_ns},\"threads\":[{joined}]}}"
            );
        }
        Err(error) => {
            eprintln!("holdup-dial: {error}");
            std::process::exit(1);
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Settings, String> {
    let mut settings = Settings {
        threads: 1,
        seconds: 5.0,
        lock_kind: LockKind::Pthread,
        directory: std::env::temp_dir(),
        phases: Vec::new(),
    };
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<f64>().map_err(|_| format!("{flag}: '{value}' is no number"));
        match flag.as_str() {
            "--threads" => settings.threads = number()? as usize,
            "--seconds" => settings.seconds = number()?,
            "--dir" => settings.directory = value.into(),
            "--lock-kind" => settings.lock_kind = LockKind::from_name(&value).ok_or("pthread or std")?,
            _ => match Kind::DIALLED.iter().find(|kind| flag.strip_prefix("--") == Some(kind.name())) {
                Some(kind) => settings.phases.push((*kind, number()?)),
                None => return Err(format!("unknown flag {flag}")),
            },
        }
    }
    if settings.phases.is_empty() || settings.threads == 0 {
        return Err("nothing to do: name a phase".to_owned());
    }
    Ok(settings)
}

/// Runs all workers with their partners. The main thread only waits for them.
fn run(settings: &Settings) -> std::io::Result<Vec<Log>> {
    let mut main_log = Log::start("main");
    let mut handles = Vec::new();
    for number in 0..settings.threads {
        let shared = Arc::new(partner::Shared::new(settings.lock_kind)?);
        let partner = Arc::clone(&shared);
        let name = format!("partner-{number}");
        handles.push(spawn(name, move || partner::serve(&partner))?);
        let worker = Worker::new(shared, &settings.directory, number)?;
        let (phases, seconds) = (settings.phases.clone(), settings.seconds);
        handles.push(spawn(format!("worker-{number}"), move || worker.work(&phases, seconds))?);
    }
    let mut logs = Vec::new();
    for handle in handles {
        let joined = main_log.measure(Kind::Join, || handle.join());
        logs.push(joined.map_err(|_| std::io::Error::other("a thread panicked"))??);
    }
    main_log.finish();
    logs.insert(0, main_log);
    Ok(logs)
}

type Handle = std::thread::JoinHandle<std::io::Result<Log>>;

fn spawn(
    name: String,
    body: impl FnOnce() -> std::io::Result<Log> + Send + 'static,
) -> std::io::Result<Handle> {
    std::thread::Builder::new().name(name).spawn(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Result<Settings, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_become_phases_in_their_order() {
        let settings = settings("--sleep 5 --threads 2 --compute 1.5").unwrap();
        assert_eq!(settings.phases, [(Kind::Sleep, 5.0), (Kind::Compute, 1.5)]);
        assert_eq!(settings.threads, 2);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["", "--threads 2", "--fly 3", "--sleep x", "--sleep", "--join 3"] {
            assert!(settings(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_thread_accounts_for_its_life() {
        let line = "--seconds 0.05 --compute 2 --spin 1 --sleep 2 --lock 2 --pipe 2 --disk 1 --runqueue 2";
        let logs = run(&settings(line).unwrap()).unwrap();
        assert_eq!(logs.len(), 3);
        for log in &logs {
            assert!(log.phases_wall_ns() <= log.life_ns(), "{}", log.json());
        }
        let worker = logs.iter().find(|log| log.name() == "worker-0").unwrap();
        for kind in Kind::DIALLED {
            assert!(worker.count(*kind) > 0, "{}: {}", kind.name(), worker.json());
        }
    }
}
