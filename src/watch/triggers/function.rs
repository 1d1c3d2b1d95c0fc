//! A call of a function that takes longer than it should, or than it mostly does.

use holdup_events::recording::Fired;
use holdup_events::standing::Standing;
use holdup_events::{Duration, Event};
use holdup_report::numbers::duration;

use super::spans::OpenSpans;
use super::{Probe, Trigger, happened_to};

pub const HELP: &str =
    "function:NAME>10ms, function:NAME>p99.9  a call takes longer than 10 ms, or than 99.9 % of its calls";

/// Minimum number of calls beyond a percentile.
const BEYOND_MIN: f64 = 10.0;
/// Lengths whose highest bits are the same are counted together: a share is known to a sixteenth of its length.
const SUB_BITS: u32 = 4;

/// Beyond which length.
enum Limit {
    Length(Duration),
    /// The length that this share of the calls so far did not exceed.
    Share {
        share: f64,
        calls: Lengths,
    },
}

/// How many calls were of which length.
struct Lengths {
    counts: Vec<u64>,
    all: u64,
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths { counts: vec![0; 64 << SUB_BITS], all: 0 }
    }
}

impl Lengths {
    fn bucket(length: Duration) -> usize {
        let exponent = length.0.checked_ilog2().unwrap_or(0);
        let sub = match exponent.checked_sub(SUB_BITS) {
            Some(shift) => length.0 >> shift & ((1 << SUB_BITS) - 1),
            None => length.0 & ((1 << SUB_BITS) - 1),
        };
        (exponent << SUB_BITS) as usize + sub as usize
    }

    fn add(&mut self, length: Duration) {
        self.all += 1;
        if let Some(count) = self.counts.get_mut(Self::bucket(length)) {
            *count += 1;
        }
    }

    /// Whether fewer calls than the rest were at least this long. `false` while there are few calls.
    fn is_beyond(&self, length: Duration, share: f64) -> bool {
        let rest = self.all as f64 * (1.0 - share);
        let as_long: u64 = self.counts.iter().skip(Self::bucket(length)).sum();
        rest >= BEYOND_MIN && (as_long as f64) < rest
    }
}

struct Function {
    name: String,
    limit: Limit,
    spans: OpenSpans,
    too_often: bool,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    let wanted = "a function and a time, or a share of its calls, are wanted: function:parse>10ms, function:parse>p99.9";
    // The last one: names of operators have some, too.
    let (name, limit) = rest.rsplit_once('>').filter(|(name, _)| !name.is_empty()).ok_or(wanted)?;
    let limit = match limit.strip_prefix('p') {
        Some(percent) => match percent.parse::<f64>() {
            Ok(percent) if (1.0..100.0).contains(&percent) => {
                Limit::Share { share: percent / 100.0, calls: Lengths::default() }
            }
            _ => return Err(format!("'p{percent}' is not a share: write p99 or p99.9")),
        },
        None => Limit::Length(Duration(crate::cli::parse_duration(limit)?.as_nanos() as u64)),
    };
    Ok(Box::new(Function { name: name.to_owned(), limit, spans: OpenSpans::default(), too_often: false }))
}

impl Function {
    fn is_too_long(&mut self, length: Duration) -> bool {
        match &mut self.limit {
            Limit::Length(limit) => length > *limit,
            Limit::Share { share, calls } => {
                let is_beyond = calls.is_beyond(length, *share);
                calls.add(length);
                is_beyond
            }
        }
    }
}

impl Trigger for Function {
    fn event(&mut self, event: &Event, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        match event {
            Event::Runtime(tell) => {
                let Some(span) = self.spans.take(tell).filter(|span| *span.name == *self.name) else {
                    return;
                };
                if self.is_too_long(span.length) {
                    let what = format!("was in {} for {}", self.name, duration(span.length.0));
                    fire(happened_to(span.tid, standing, (span.at, what, span.length.0)));
                }
            }
            Event::Loss(loss) => {
                self.too_often |= loss.reason.strip_prefix("too-often: ") == Some(&self.name)
            }
            _ => {}
        }
    }

    fn probe(&self) -> Option<Probe> {
        Some(Probe { name: self.name.clone(), entry: self.name.clone(), is_mark: false, when: None })
    }

    fn silence(&self) -> Option<String> {
        self.too_often.then(|| format!("{} was called too often to be probed", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::Timestamp;
    use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
    use holdup_events::tables::SpanKind;

    fn call(trigger: &mut dyn Trigger, at: u64, length: u64) -> Vec<String> {
        let mut fired = Vec::new();
        for (at, what) in
            [(at, RuntimeEventKind::Begin(SpanKind::User)), (at + length, RuntimeEventKind::End)]
        {
            let tell =
                RuntimeEvent { at: Timestamp(at), tgid: 5, tid: 7, lane: 7, what, name: "parse".into() };
            trigger.event(&Event::Runtime(tell), &Standing::default(), &mut |one| fired.push(one.what));
        }
        fired
    }

    #[test]
    fn a_call_beyond_a_length_fires() {
        let mut trigger = parse("parse>10ms").unwrap();
        assert_eq!(call(trigger.as_mut(), 0, 9_999_999), Vec::<String>::new());
        assert_eq!(call(trigger.as_mut(), 0, 12_000_000), ["was in parse for 12.0 ms"]);
        assert!(parse(">10ms").is_err() && parse("parse>p100").is_err() && parse("parse").is_err());
    }

    #[test]
    fn a_call_beyond_its_like_fires_once_enough_are_known() {
        let mut trigger = parse("parse>p99").unwrap();
        assert!(call(trigger.as_mut(), 0, 50_000_000).is_empty(), "nothing is known yet");
        for number in 0..1_000 {
            assert!(call(trigger.as_mut(), 0, 1_000_000 + number % 7 * 100_000).is_empty());
        }
        assert_eq!(call(trigger.as_mut(), 0, 3_000_000), ["was in parse for 3.00 ms"]);
        assert!(call(trigger.as_mut(), 0, 1_600_000).is_empty());
    }

    #[test]
    fn lengths_have_a_resolution_of_a_sixteenth() {
        let all: Vec<usize> = [0, 1, 2, 15, 16, 17, 31, 32, 34, 1 << 40, u64::MAX]
            .map(|ns| Lengths::bucket(Duration(ns)))
            .into();
        assert!(all.is_sorted() && all.iter().all(|bucket| *bucket < 64 << SUB_BITS), "{all:?}");
        assert_ne!(Lengths::bucket(Duration(1600)), Lengths::bucket(Duration(1730)));
    }
}
