//! A function is entered, or a probe passed that its authors put there.

use holdup_events::Event;
use holdup_events::event::Told;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

use super::{Probe, Trigger, happened_to, tracepoint};

pub const HELP: &str = "hit:function:NAME, hit:usdt:PROVIDER:NAME, hit:syscall:NAME, hit:tracepoint:CATEGORY:NAME  a thread \
                        enters it, or passes that probe; of the last two with (CONDITION) on their fields";

struct Hit {
    probe: Probe,
    too_often: bool,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    if let Some(parsed) = tracepoint::parse(rest) {
        return parsed;
    }
    if rest.ends_with(')') && rest.starts_with("function:") && rest.contains(['<', '>', '=']) {
        return Err("arguments of functions are not looked at; those of a syscall or tracepoint are: \
                    hit:syscall:write(count > 4096)"
            .to_owned());
    }
    let name = match (rest.strip_prefix("function:"), rest.strip_prefix("usdt:")) {
        (Some(name), _) if !name.is_empty() => name,
        (_, Some(probe)) if probe.split(':').filter(|part| !part.is_empty()).count() == 2 => rest,
        _ => return Err("write hit:function:NAME, hit:usdt:PROVIDER:NAME, hit:syscall:NAME or hit:tracepoint:CATEGORY:NAME".to_owned()),
    };
    // Not the function's name: its calls may be watched for their length, too.
    let probe = Probe { name: format!("hit {name}"), entry: name.to_owned(), is_mark: true };
    Ok(Box::new(Hit { probe, too_often: false }))
}

impl Trigger for Hit {
    fn event(&mut self, event: &Event, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        match event {
            Event::Tell(tell) if matches!(tell.what, Told::Mark { .. }) && *tell.name == *self.probe.name => {
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
