//! The heap profile of a program compiled by GHC (`+RTS -h…` in addition to `-l`). From time to time, the
//! collector counts live data by the chosen breakdown. A census is not an allocation. The largest census is
//! kept, and of the others only the number of live bytes.

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::{Allocated, RawStack};
use holdup_events::tables::{CENSUS, Frame, FrameKind};
use holdup_events::{Event, Timestamp};

use super::layout::{Body, LoggedEvent};
use crate::imported::Names;
use crate::telling::{Telling, Who};

/// Numbers of events (GHC's rts/include/rts/EventLogFormat.h).
pub(super) mod id {
    pub const BEGIN: u16 = 160;
    pub const COST_CENTRE: u16 = 161;
    pub const CENSUS_BEGIN: u16 = 162;
    pub const OF_COST_CENTRES: u16 = 163;
    pub const OF_NAME: u16 = 164;
    pub const CENSUS_END: u16 = 165;
    pub const PAST_CENSUS_BEGIN: u16 = 166;
}

/// Breakdowns of the live data (`HEAP_PROF_BREAKDOWN_*`).
const BREAKDOWNS: [&str; 9] = [
    "cost centre",
    "module",
    "closure description",
    "type description",
    "retainer",
    "what becomes of it",
    "closure type",
    "info table",
    "era",
];
/// Maximum number of counters for the largest names.
const COUNTERS_MAX: usize = 8;
/// Maximum characters of a name in a counter's name.
const NAME_MAX: usize = 60;
/// More censuses are not kept: each takes many times its bytes in the file. At GHC's usual interval these are three hours.
const CENSUSES_MAX: usize = 1 << 17;

/// Owner of live bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    Name(String),
    /// Numbers of cost centres, the innermost first.
    CostCentres(Vec<u32>),
}

#[derive(Clone, Debug, Default)]
struct Census {
    at: u64,
    bytes: BTreeMap<Site, u64>,
}

impl Census {
    fn total(&self) -> u64 {
        self.bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Censuses read so far.
#[derive(Debug, Default)]
pub(super) struct HeapProfile {
    breakdown: u32,
    centres: HashMap<u32, Frame>,
    all: Vec<Census>,
    /// The next samples belong to the last census.
    open: bool,
    /// Censuses that are not kept.
    pub left_out: u64,
}

impl HeapProfile {
    /// Takes an event if it is one of these.
    pub fn take(&mut self, event: &LoggedEvent) {
        let mut body = Body(event.body);
        match event.id {
            id::BEGIN => {
                let kind = body.u8().and_then(|_| body.u64()).and_then(|_| body.u32());
                self.breakdown = kind.unwrap_or(0);
            }
            id::COST_CENTRE => {
                if let Some(number) = body.u32() {
                    self.centres.insert(number, centre(&mut body));
                }
            }
            id::CENSUS_BEGIN | id::PAST_CENSUS_BEGIN => {
                // A biographical census is written at the end and holds its own time.
                let past = (event.id == id::PAST_CENSUS_BEGIN).then(|| body.u64().and_then(|_| body.u64()));
                let at = past.flatten().unwrap_or(event.at);
                self.open = self.all.len() < CENSUSES_MAX;
                match self.open {
                    true => self.all.push(Census { at, ..Census::default() }),
                    false => self.left_out += 1,
                }
            }
            id::CENSUS_END => self.open = false,
            id::OF_NAME | id::OF_COST_CENTRES if self.open => self.add(event.id, &mut body),
            _ => {}
        }
    }

    fn add(&mut self, id: u16, body: &mut Body) {
        let (Some(bytes), Some(census)) = (body.u8().and_then(|_| body.u64()), self.all.last_mut()) else {
            return;
        };
        let site = match id {
            id::OF_NAME => Site::Name(body.string()),
            _ => {
                let depth = body.u8().unwrap_or(0);
                Site::CostCentres((0..depth).map_while(|_| body.u32()).collect())
            }
        };
        let sum = census.bytes.entry(site).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// There is no census.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Emits counters of live bytes at each census: the total, and those of the largest names.
    pub fn count(&self, who: Who, telling: &mut Telling) {
        let mut most: BTreeMap<&Site, u64> = BTreeMap::new();
        for (site, bytes) in self.all.iter().flat_map(|census| &census.bytes) {
            let most = most.entry(site).or_default();
            *most = (*most).max(*bytes);
        }
        let mut most: Vec<(&Site, u64)> = most.into_iter().collect();
        most.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        most.truncate(COUNTERS_MAX);
        let names: Vec<(&Site, String)> =
            most.iter().map(|(site, _)| (*site, format!("live {}", self.name(site)))).collect();
        for census in &self.all {
            telling.counter(who, census.at, "census_bytes", census.total());
            for (site, name) in &names {
                telling.counter(who, census.at, name, census.bytes.get(*site).copied().unwrap_or(0));
            }
        }
    }

    fn name(&self, site: &Site) -> String {
        let name = match site {
            Site::Name(name) => name.clone(),
            Site::CostCentres(centres) => centres.first().map_or_else(
                || "no cost centre".to_owned(),
                |number| {
                    self.centres.get(number).map_or_else(|| format!("{number}"), |of| of.function.clone())
                },
            ),
        };
        name.chars().take(NAME_MAX).collect()
    }

    /// The largest census as rows of `tid`, with the names of their frames. Empty without a census.
    pub fn rows(&self, (tid, tgid): (u32, u32), names: &mut Names) -> Vec<Event> {
        let Some(largest) = self.largest() else { return Vec::new() };
        let at = Timestamp(largest.at);
        let mut events = Vec::new();
        for (nth, (site, bytes)) in (1..).zip(largest.bytes.iter().filter(|(_, bytes)| **bytes > 0)) {
            let addresses = self.addresses(site, names);
            events.push(Event::Stack(RawStack { at, id: nth, tgid, addresses, ..RawStack::default() }));
            events.push(Event::Allocated(Allocated {
                at,
                tid,
                tgid,
                address: nth,
                bytes: *bytes,
                every_bytes: 0,
                own_bytes: CENSUS,
                stack: nth,
            }));
        }
        events
    }

    fn addresses(&self, site: &Site, names: &mut Names) -> Vec<u64> {
        let named = |function: &str| Frame {
            kind: FrameKind::User,
            function: function.to_owned(),
            ..Frame::default()
        };
        match site {
            Site::Name(name) => vec![names.frame(named(name))],
            Site::CostCentres(centres) => {
                let frame = |number: &u32| {
                    self.centres
                        .get(number)
                        .cloned()
                        .unwrap_or_else(|| named(&format!("cost centre {number}")))
                };
                centres.iter().map(|number| names.frame(frame(number))).collect()
            }
        }
    }

    /// The last of those with the most.
    fn largest(&self) -> Option<&Census> {
        self.all.iter().filter(|census| census.total() > 0).max_by_key(|census| census.total())
    }

    /// Description of the profile for the report. `start`: start of the file (ns).
    pub fn description(&self, start: u64) -> Option<String> {
        let largest = self.largest()?;
        let by = (self.breakdown as usize).checked_sub(1).and_then(|of| BREAKDOWNS.get(of));
        Some(format!(
            "its heap profile says what lived, by {}: the largest of {} is kept, {:.3} s after the start; what was allocated in \
             all, and by whom, it does not say",
            by.unwrap_or(&"a kind that is not known"),
            if self.all.len() == 1 { "1 census".to_owned() } else { format!("{} censuses", self.all.len()) },
            largest.at.saturating_sub(start) as f64 / 1e9,
        ))
    }
}

/// A cost centre as a frame: its label, of which module, at which place of the source (`file.hs:12:3-9` or `file.hs:(1,2)-(3,4)`).
fn centre(body: &mut Body) -> Frame {
    let (label, module, place) = (body.string(), body.string(), body.string());
    let (file, rest) = place.split_once(':').unwrap_or((&place, ""));
    let line = rest.trim_start_matches('(').split(|c: char| !c.is_ascii_digit()).next();
    Frame {
        kind: FrameKind::User,
        function: format!("{module}.{label}"),
        module,
        // `<built-in>` and the like are no files.
        file: if file.starts_with('<') { String::new() } else { file.to_owned() },
        line: line.and_then(|line| line.parse().ok()).unwrap_or(0),
        ..Frame::default()
    }
}
