//! A signal to holdup.

use holdup_capture::launch;
use holdup_events::Timestamp;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

use super::{Trigger, happened};

pub const HELP: &str =
    "signal:USR2       holdup itself gets the signal, USR1 or USR2, which the program then does not";

struct Signal {
    number: i32,
    seen: u64,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    let number = match rest.trim_start_matches("SIG") {
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        other => return Err(format!("'{other}' is not USR1 or USR2: others stop holdup or the program")),
    };
    Ok(Box::new(Signal { number, seen: 0 }))
}

impl Trigger for Signal {
    fn arm(&mut self) -> anyhow::Result<()> {
        Ok(launch::keep_signal(self.number)?)
    }

    fn step(&mut self, now: Timestamp, _: &Standing, fire: &mut dyn FnMut(Fired)) {
        let count = launch::times_received(self.number);
        if count > self.seen {
            self.seen = count;
            let name = if self.number == libc::SIGUSR1 { "SIGUSR1" } else { "SIGUSR2" };
            fire(happened(now, format!("{name} came")));
        }
    }

    fn is_request(&self) -> bool {
        true
    }
}
