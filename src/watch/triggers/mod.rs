//! What makes a flight recorder save: one file a kind, one line in [`KINDS`].

mod cpu;
mod function;
mod hit;
mod line;
pub mod output;
mod parentheses;
mod pause;
mod processes;
mod signal;
mod spans;
mod tracepoint;

use anyhow::{Result, bail};
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;
use holdup_events::{Event, Timestamp};

pub use processes::{Firing, Firings, Processes};

/// Watches for one condition.
pub trait Trigger {
    /// Prepares the trigger.
    ///
    /// # Errors
    /// If it cannot fire here, with the reason.
    fn arm(&mut self) -> Result<()> {
        Ok(())
    }

    /// The recording begins, maybe seconds after it was made ready.
    fn begin(&mut self, _: Timestamp) {}

    /// Called with each event, before `standing` is updated.
    fn event(&mut self, _: &Event, _: &Standing, _: &mut dyn FnMut(Fired)) {}

    /// Called about ten times per second.
    fn step(&mut self, _: Timestamp, _: &Standing, _: &mut dyn FnMut(Fired)) {}

    /// The pattern that it wants to be looked for in the program's output.
    fn output(&self) -> Option<output::Pattern> {
        None
    }

    /// Returns the probe that the trigger needs in the program.
    fn probe(&self) -> Option<Probe> {
        None
    }

    /// The user asks for a recording by it: it always saves, within the quota.
    fn is_request(&self) -> bool {
        false
    }

    /// Returns why the trigger never could fire, if that was found out.
    fn silence(&self) -> Option<String> {
        None
    }
}

/// Something that is probed wherever it is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Name of its spans or marks.
    pub name: String,
    /// A function, or `usdt:PROVIDER:NAME`.
    pub entry: String,
    /// Only hits are recorded, without a length.
    pub is_mark: bool,
    /// And only if its arguments are such (`holdup_events::condition`).
    pub when: Option<String>,
}

/// The runtime as which what triggers ask for is probed.
pub const RUNTIME: &str = "holdup-watch";

/// Returns the descriptor (docs/descriptors.md) of all probes. `None` without probes.
pub fn descriptor(all: &[Armed]) -> Option<String> {
    let mut probes: Vec<Probe> = Vec::new();
    for probe in all.iter().filter_map(|armed| armed.trigger.probe()) {
        if !probes.contains(&probe) {
            probes.push(probe);
        }
    }
    let span = |Probe { name, entry, is_mark, when }: &Probe| {
        let when = when.as_ref().map(|when| format!("when = {when:?}\n")).unwrap_or_default();
        format!("[[span]]\nname = {name:?}\nkind = \"user\"\nentry = [{entry:?}]\nmark = {is_mark}\n{when}")
    };
    let head = format!("[runtime]\nname = \"{RUNTIME}\"\ntitle = \"triggers\"\nmodule = [\"*\"]\n");
    (!probes.is_empty()).then(|| head + &probes.iter().map(span).collect::<String>())
}

/// A kind of trigger.
pub struct Kind {
    /// Prefix of the trigger's text.
    prefix: &'static str,
    /// Syntax and meaning.
    pub help: &'static str,
    parse: fn(&str) -> Result<Box<dyn Trigger>, String>,
}

/// Every kind.
pub const KINDS: &[Kind] = &[
    Kind { prefix: "pause:", help: pause::HELP, parse: pause::parse },
    Kind { prefix: "function:", help: function::HELP, parse: function::parse },
    Kind { prefix: "hit:", help: hit::HELP, parse: hit::parse },
    Kind { prefix: "signal:", help: signal::HELP, parse: signal::parse },
    Kind { prefix: "line:", help: line::HELP, parse: line::parse },
    Kind { prefix: "cpu", help: cpu::HELP, parse: cpu::parse },
    Kind { prefix: "output:", help: output::HELP, parse: output::parse },
];

/// A trigger that watches, with the text it was given by.
pub struct Armed {
    /// As the user wrote it.
    pub text: String,
    is_own: bool,
    trigger: Box<dyn Trigger>,
}

impl Armed {
    /// # Errors
    /// If it is no trigger.
    pub fn parse(text: &str) -> Result<Armed> {
        let Some((kind, rest)) = KINDS.iter().find_map(|kind| Some((kind, text.strip_prefix(kind.prefix)?)))
        else {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.prefix.trim_end_matches(':')).collect();
            bail!("--trigger {text}: no such trigger: there are {}", known.join(", "));
        };
        match (kind.parse)(rest) {
            Ok(trigger) => Ok(Armed { text: text.to_owned(), is_own: false, trigger }),
            Err(why) => bail!("--trigger {text}: {why}"),
        }
    }

    /// One of this program's own, which no text gives.
    pub fn own(text: &str, trigger: Box<dyn Trigger>) -> Armed {
        Armed { text: text.to_owned(), is_own: true, trigger }
    }

    /// Whether it was made by [`Armed::own`].
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// See [`Trigger::arm`].
    pub fn arm(&mut self) -> Result<()> {
        self.trigger.arm()
    }

    /// See [`Trigger::begin`].
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.trigger.begin(at);
    }

    /// See [`Trigger::output`].
    pub fn output(&self) -> Option<output::Pattern> {
        self.trigger.output()
    }

    /// See [`Trigger::is_request`].
    pub(super) fn is_request(&self) -> bool {
        self.trigger.is_request()
    }

    pub(super) fn event(&mut self, event: &Event, standing: &Standing, firings: &mut Firings) {
        let Armed { text, trigger, .. } = self;
        let mut take = |one| firings.take(Fired { trigger: text.clone(), ..one }, standing);
        trigger.event(event, standing, &mut take);
    }

    pub(super) fn step(&mut self, now: Timestamp, standing: &Standing, firings: &mut Firings) {
        let Armed { text, trigger, .. } = self;
        let mut take = |one| firings.take(Fired { trigger: text.clone(), ..one }, standing);
        trigger.step(now, standing, &mut take);
    }

    pub(super) fn silence(&self) -> Option<String> {
        self.trigger.silence()
    }
}

/// An event without a thread.
fn happened(at: Timestamp, what: String) -> Fired {
    Fired { at_ns: at.0, what, ..Fired::default() }
}

/// An event of a thread, with its duration (ns).
fn happened_to(tid: u32, standing: &Standing, (at, what, length_ns): (Timestamp, String, u64)) -> Fired {
    let thread = standing.threads().get(tid).map(|thread| thread.name.to_string()).unwrap_or_default();
    Fired { at_ns: at.0, tid, thread, what, length_ns, ..Fired::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::condition::Condition;
    use holdup_findings::descriptors::Descriptors;

    #[test]
    fn an_unknown_trigger_lists_the_valid_ones() {
        let error = |text| Armed::parse(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error("pauses").contains("there are pause, function, hit, signal, line, cpu, output"),
            "{}",
            error("pauses")
        );
        assert!(error("pause:naps>1s").contains("naps"), "{}", error("pause:naps>1s"));
        assert_eq!(error("pause:lock>20ms"), "");
    }

    #[test]
    fn what_is_probed_is_a_descriptor() {
        let texts = [
            "function:a::b>1ms",
            "function:a::b>p99",
            "hit:usdt:python:gc__start",
            "signal:USR1",
            "hit:function:f(arg0 > 1)",
        ];
        let armed: Vec<Armed> = texts.iter().map(|text| Armed::parse(text).unwrap()).collect();
        let text = descriptor(&armed).unwrap();
        let read = Descriptors::none().with(&[text]).unwrap();
        let spans = &read.runtimes()[0].spans;
        let told: Vec<(&str, &str, bool)> =
            spans.iter().map(|span| (span.name.as_str(), span.entry[0].as_str(), span.is_mark)).collect();
        let probe = "usdt:python:gc__start";
        let asked = ("hit f(arg0 > 1)", "f", true);
        assert_eq!(told, [("a::b", "a::b", false), ("hit usdt:python:gc__start", probe, true), asked]);
        assert_eq!(spans[2].when, Some(Condition::parse("arg0 > 1").unwrap()));
        assert_eq!(descriptor(&armed[3..4]), None);
    }
}
