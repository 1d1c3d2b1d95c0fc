//! A trigger that the user pulls by a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdup_events::Timestamp;
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;

use crate::watch::Armed;
use crate::watch::triggers::Trigger;

/// Number of requests, shared with the requester.
#[derive(Clone, Default)]
pub struct Request(Arc<AtomicU64>);

impl Request {
    /// Asks once more.
    pub fn ask(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the trigger for the requests.
    pub fn armed(&self) -> Armed {
        Armed::own("key w", Box::new(Asked { request: self.clone(), seen: 0 }))
    }
}

struct Asked {
    request: Request,
    seen: u64,
}

impl Trigger for Asked {
    fn step(&mut self, now: Timestamp, _: &Standing, fire: &mut dyn FnMut(Fired)) {
        let asked = self.request.0.load(Ordering::Relaxed);
        if asked > self.seen {
            self.seen = asked;
            fire(Fired { at_ns: now.0, what: "asked for in holdup top".to_owned(), ..Fired::default() });
        }
    }
}
