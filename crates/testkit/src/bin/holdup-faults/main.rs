//! A program with one seeded fault, which prints the expected diagnosis.
//!
//! Each fault is a small program of named threads that compute, lock, wait and pass items on, with random
//! durations from the seed. The last line of its output is JSON. It has the rules that name the cause, and
//! the words (a thread, a lock's address) that a verdict must contain. Both are empty for a program without a fault.
//! `bench/faults` runs and scores them. The program does not depend on holdup.

mod innocents;
mod locks;
mod outside;
mod pools;
mod queues;
mod tools;

use std::time::{Duration, Instant};

use holdup_testkit::random::Random;

const USAGE: &str = "usage: holdup-faults FAULT [--seed N] [--seconds S]
       holdup-faults hog [--seconds S]     (computes on the CPU that victims of a hog are bound to)
       holdup-faults list";

/// The expected verdict on the program.
#[derive(Debug, Default)]
pub struct Truth {
    /// The rules that may come first. Empty if no rule may fire.
    pub rules: &'static [&'static str],
    /// Words that the first finding must contain.
    pub names: Vec<String>,
}

/// Parameters of a fault.
pub struct Plan {
    /// Draws lengths.
    pub random: Random,
    /// When to stop.
    pub until: Instant,
}

impl Plan {
    /// Whether the program should continue.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// A length of time in `from..to` microseconds.
    pub fn draw(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(self.random.within(from, to))
    }
}

/// A fault: its name, whether the runner must start a hog with it, and the program.
type Fault = (&'static str, bool, fn(Plan) -> std::io::Result<Truth>);

const FAULTS: &[Fault] = &[
    ("holder-preempted", true, locks::holder_preempted),
    ("holder-asleep", false, locks::holder_asleep),
    ("convoy", false, locks::convoy),
    ("priority-inversion", false, locks::priority_inversion),
    ("lock-chain", false, locks::chain),
    ("barrier-imbalance", false, queues::barrier_imbalance),
    ("barrier-preempted", true, queues::barrier_preempted),
    ("slow-consumer", false, queues::slow_consumer),
    ("ping-pong", false, queues::ping_pong),
    ("herd", false, pools::herd),
    ("pool-starved", false, pools::starved),
    ("delayed-ack", false, outside::delayed_ack),
    ("throttled", false, outside::throttled),
    ("short-sleeps", false, outside::short_sleeps),
    ("bound-together", false, outside::bound_together),
    ("children-in-turn", false, outside::children_in_turn),
    ("prompt-requests", false, outside::prompt_requests),
    ("idle-pool", false, innocents::idle_pool),
    ("uncontended-lock", false, innocents::uncontended_lock),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => {}
        Err(message) => {
            eprintln!("holdup-faults: {message}\n\n{USAGE}");
            std::process::exit(2);
        }
    }
}

fn run(words: &[String]) -> Result<(), String> {
    let name = words.first().ok_or("no fault is named")?;
    let number = |flag: &str, default: f64| -> Result<f64, String> {
        let Some(place) = words.iter().position(|word| word == flag) else { return Ok(default) };
        let value = words.get(place + 1).ok_or_else(|| format!("{flag} needs a value"))?;
        value.parse().map_err(|_| format!("{flag}: '{value}' is no number"))
    };
    let (seed, seconds) = (number("--seed", 1.0)? as u64, number("--seconds", 0.8)?);
    tools::calibrate();
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let plan = Plan { random: Random::new(seed), until };
    match name.as_str() {
        "list" => {
            for (name, hog, _) in FAULTS {
                println!("{name} {}", if *hog { "hog" } else { "alone" });
            }
            return Ok(());
        }
        "hog" => {
            tools::name_thread("hog");
            tools::bind(tools::VICTIMS);
            while plan.goes_on() {
                tools::compute(Duration::from_millis(1));
            }
            return Ok(());
        }
        _ => {}
    }
    let (_, _, fault) =
        FAULTS.iter().find(|(known, _, _)| known == name).ok_or_else(|| format!("unknown fault {name}"))?;
    let truth = fault(plan).map_err(|error| format!("{name}: {error}"))?;
    let quoted =
        |words: Vec<&str>| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(",");
    println!(
        "{{\"rules\":[{}],\"names\":[{}]}}",
        quoted(truth.rules.to_vec()),
        quoted(truth.names.iter().map(String::as_str).collect())
    );
    Ok(())
}
