//! A function is entered, or a probe passed that its authors put there.

use holdup_events::Event;
use holdup_events::condition::Condition;
use holdup_events::event::RuntimeEventKind;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

use super::{Probe, Trigger, happened_to, parentheses, tracepoint};

pub const HELP: &str = "hit:function:NAME, hit:usdt:PROVIDER:NAME, hit:syscall:NAME, hit:tracepoint:CATEGORY:NAME  a thread reaches it (a CONDITION tests arguments or fields, not for usdt: hit:function:f(arg0 > 4096))";

struct Hit {
    probe: Probe,
    too_often: bool,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    if let Some(parsed) = tracepoint::parse(rest) {
        return parsed;
    }
    let wanted =
        "write hit:function:NAME, hit:usdt:PROVIDER:NAME, hit:syscall:NAME or hit:tracepoint:CATEGORY:NAME";
    let (place, when) = with_condition(rest)?;
    let name = match (place.strip_prefix("function:"), place.strip_prefix("usdt:")) {
        (Some(name), _) if !name.is_empty() => name,
        (_, Some(probe)) if probe.split(':').filter(|part| !part.is_empty()).count() == 2 => place,
        _ => return Err(wanted.to_owned()),
    };
    if let Some(text) = when {
        if name == place {
            return Err(
                "USDT arguments have no fixed place: use a condition on a function instead".to_owned()
            );
        }
        Condition::parse(text)?;
    }
    // Not the function's name: its calls may be watched for their length, too.
    let condition = when.map(|text| format!("({text})")).unwrap_or_default();
    let probe = Probe {
        name: format!("hit {name}{condition}"),
        entry: name.to_owned(),
        is_mark: true,
        when: when.map(str::to_owned),
    };
    Ok(Box::new(Hit { probe, too_often: false }))
}

/// Splits the probed place from the condition after it. Function names may contain parentheses, too:
/// `a::operator()`.
fn with_condition(rest: &str) -> Result<(&str, Option<&str>), String> {
    let is_asked = |text: &str| text.contains(['<', '>', '=', '&']) || text.contains("arg");
    match rest.rfind('(').is_some_and(|at| is_asked(&rest[at..])) {
        true => parentheses::split(rest).map(|(place, when)| (place, Some(when))),
        false => Ok((rest, None)),
    }
}

impl Trigger for Hit {
    fn event(&mut self, event: &Event, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        match event {
            Event::Runtime(tell)
                if matches!(tell.what, RuntimeEventKind::Mark { .. }) && *tell.name == *self.probe.name =>
            {
                fire(happened_to(tell.tid, standing, (tell.at, self.probe.name.clone(), 0)));
            }
            Event::Loss(loss) => {
                self.too_often |= loss.reason.strip_prefix("too-often: ") == Some(&self.probe.name);
            }
            _ => {}
        }
    }

    fn probe(&self) -> Option<Probe> {
        Some(self.probe.clone())
    }

    fn silence(&self) -> Option<String> {
        self.too_often.then(|| "it was passed too often to be probed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_on_arguments_is_part_of_what_is_probed() {
        let probe = |text: &str| parse(text).map(|trigger| trigger.probe());
        let read =
            probe("function:read_block(arg2 > 4096 && (arg0:s32 == 3 || arg1 != 0))").unwrap().unwrap();
        assert_eq!(read.entry, "read_block");
        assert_eq!(read.name, "hit read_block(arg2 > 4096 && (arg0:s32 == 3 || arg1 != 0))");
        assert_eq!(read.when.as_deref(), Some("arg2 > 4096 && (arg0:s32 == 3 || arg1 != 0)"));
        let plain = probe("function:a::operator()").unwrap().unwrap();
        assert_eq!((plain.entry.as_str(), plain.when), ("a::operator()", None));
        let called = probe("function:a::operator()(arg1 & 1)").unwrap().unwrap();
        assert_eq!((called.entry.as_str(), called.when.as_deref()), ("a::operator()", Some("arg1 & 1")));
    }

    #[test]
    fn invalid_hit_triggers_are_explained() {
        let error = |text: &str| parse(text).err().unwrap_or_default();
        assert!(error("function:f(count > 1)").contains("'count' is no argument"));
        assert!(error("function:f(arg9 == 1)").contains("arg0 to arg5"));
        assert!(error("usdt:python:gc__start(arg0 > 1)").contains("a condition on a function"));
        assert!(error("function:f(arg0 > 1").contains("parentheses"));
        assert!(error("function:").contains("hit:function:NAME"));
    }
}
