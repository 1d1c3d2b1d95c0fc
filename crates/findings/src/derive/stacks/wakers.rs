//! Waker chains: the stack of each wait, its waker, and the waker's stack. The waker's stack is leaf first,
//! so that the waiting leaf and the waking leaf are adjacent. If the waker itself had waited during this
//! wait, its own waker follows, and so on. Weights are the time of the first wait.
//!
//! Times and probabilities of waits come from `observations`. If wakers' stacks were sampled too, a wait with
//! a waker's stack represents waits with the same thread, reason, stack and waker. Waits without any such
//! stack keep their waker's name and the marker [`NO_STACK`]. Later links of a chain only show recorded
//! stacks.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState, Wakeup};
use holdup_events::{StackId, ThreadId, Timestamp, Trace, WaitReason};

use super::folding::Folding;
use super::observations::{Basis, Observation, Selection, observe};
use super::places::{Place, PlaceId};
use super::profile::{Paths, Profile, StackUse};
use super::tally::Tally;
use crate::derive::class::Class;

/// Wakers that one chain shows.
pub const LINKS_MAX: usize = 5;
/// Maximum number of a waker's slices in which its last wait is searched.
const LOOK_BACK: usize = 256;
/// Marker for a waker's stack that was not recorded.
pub const NO_STACK: &str = "(no stack of the waker)";

/// The profile of all waits of a selection, each stack going on with its wakers.
pub fn derive(trace: &Trace, selection: &Selection, folding: &Folding) -> Profile {
    let mut observed = observe(trace, &selection.only(Class::is_wait));
    let observations = std::mem::take(&mut observed.observations);
    let mut chains = Chains { trace, paths: Paths::new(trace, folding) };
    let mut sums = Sums::default();
    let mut strata: BTreeMap<Like, Stratum> = BTreeMap::new();
    for seen in observations {
        let row = chains.paths.path_of(seen.stack, seen.class);
        let wait = chains.wait_of(&seen);
        let ended = wait.as_ref().and_then(|wait| Some((wait, chains.waker_of(wait)?)));
        if let Some((_, wakeup)) = &ended
            && wakeup.stack_every > 0
            && !seen.lent
        {
            observed.wakers += 1;
            observed.wakers_with_stack += u64::from(wakeup.stack != StackId::NONE);
            observed.wakers_sampled |= wakeup.stack_every > 1;
        }
        match ended {
            Some((wait, wakeup)) if wakeup.stack_every > 1 => {
                let waker = chains.mark(&wakeup);
                let Observation { thread, class, reason, .. } = seen;
                let like = Like { thread, class, reason, row, waker };
                strata.entry(like).or_default().add(seen, &wakeup, wait.start);
            }
            Some((wait, wakeup)) => {
                let path = chains.path(row, &wakeup, wait.start);
                sums.add(&seen, path);
            }
            None => {
                let path = wait.map_or(row, |wait| chains.unended(row, &wait));
                sums.add(&seen, path);
            }
        }
    }
    for (like, stratum) in strata {
        stratum.spread(&like, &mut chains, &mut sums);
    }
    sums.profile(Profile { observed, ..Profile::default() }, chains.paths)
}

/// Key of waits with sampled wakers' stacks that represent each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Like {
    thread: ThreadId,
    class: Class,
    reason: WaitReason,
    row: usize,
    waker: PlaceId,
}

#[derive(Default)]
struct Stratum {
    total_ns: u64,
    /// Waits without a waker's stack.
    unseen: Vec<Observation>,
    /// The others, each with its wakeup and the start of its wait.
    seen: Vec<(Observation, Wakeup, Timestamp)>,
}

impl Stratum {
    fn add(&mut self, seen: Observation, wakeup: &Wakeup, since: Timestamp) {
        self.total_ns += seen.weight_ns;
        match wakeup.stack {
            StackId::NONE => self.unseen.push(seen),
            _ => self.seen.push((seen, *wakeup, since)),
        }
    }

    /// Divides the total time among the waits with a waker's stack, without a remainder.
    fn spread(self, like: &Like, chains: &mut Chains, sums: &mut Sums) {
        if self.seen.is_empty() {
            let path = chains.without_stack(like);
            self.unseen.iter().for_each(|seen| sums.add(seen, path));
            return;
        }
        let raw =
            |seen: &Observation, wakeup: &Wakeup| u128::from(seen.weight_ns) * u128::from(wakeup.stack_every);
        let all: u128 = self.seen.iter().map(|(seen, wakeup, _)| raw(seen, wakeup)).sum();
        let (mut before, mut given) = (0u128, 0u128);
        for (mut seen, wakeup, since) in self.seen {
            before += raw(&seen, &wakeup);
            let upto = u128::from(self.total_ns) * before / all.max(1);
            reweigh(&mut seen, (upto - given) as u64, f64::from(wakeup.stack_every));
            given = upto;
            let path = chains.path(like.row, &wakeup, since);
            sums.add(&seen, path);
        }
    }
}

/// Changes the weight of a wait that represents more waits. `every` is the sampling interval of its waker's
/// stack. The two stacks are sampled independently.
fn reweigh(seen: &mut Observation, weight_ns: u64, every: f64) {
    let missed = match seen.weight_ns {
        0 => 0.0,
        ns => seen.doubt / (ns as f64).powi(2),
    };
    seen.weight_ns = weight_ns;
    seen.basis = Basis::Slices;
    seen.doubt = (weight_ns as f64).powi(2) * (missed + (1.0 - missed).max(0.0) * (1.0 - 1.0 / every));
}

/// Builds paths.
struct Chains<'a> {
    trace: &'a Trace,
    paths: Paths<'a>,
}

impl Chains<'_> {
    /// The whole wait that an observation belongs to. `None` for time without a stack, which combines many
    /// waits.
    fn wait_of(&self, seen: &Observation) -> Option<Slice> {
        if seen.stack == StackId::NONE {
            return None;
        }
        let row = self.trace.slices.covering(seen.seen_of, seen.at)?;
        let slice = self.trace.slices.at(seen.seen_of, row);
        (slice.state == ThreadState::Blocked).then_some(slice)
    }

    fn waker_of(&self, wait: &Slice) -> Option<Wakeup> {
        self.trace.ended_by(wait).copied()
    }

    /// The last wait of `thread` that ended in `since..=at`.
    fn last_wait(&self, thread: ThreadId, since: Timestamp, at: Timestamp) -> Option<Slice> {
        let rows = self.trace.slices.rows(thread);
        let upto = self.trace.slices.covering(thread, at).map_or(rows.end, |row| row + 1);
        let back = (rows.start..upto).rev().take(LOOK_BACK).map(|row| self.trace.slices.at(thread, row));
        back.skip_while(|slice| slice.end > at)
            .take_while(|slice| slice.end > since)
            .find(|slice| slice.state == ThreadState::Blocked)
    }

    /// Path of a wait that `wakeup` ended: its own stack, and its wakers' stacks. A waker's wait counts if it
    /// ended after `since`, the start of the first wait. Otherwise the first thread did not wait for it.
    fn path(&mut self, row: usize, wakeup: &Wakeup, since: Timestamp) -> usize {
        let mut path = self.paths.list[row].clone();
        let mut next = Some(*wakeup);
        for _ in 0..LINKS_MAX {
            let Some(wakeup) = next else { break };
            path.push(self.mark(&wakeup));
            if wakeup.context != WakeContext::Thread || wakeup.waker == wakeup.wakee {
                break;
            }
            if wakeup.stack != StackId::NONE {
                let waker = self.paths.path_of(wakeup.stack, Class::Useful);
                path.extend(self.paths.list[waker].iter().rev());
            } else if wakeup.stack_every > 0 {
                path.push(self.word(NO_STACK.to_owned()));
            }
            let own = self.last_wait(wakeup.waker, since, wakeup.at);
            next = own.and_then(|own| self.waker_of(&own));
        }
        self.paths.intern(path)
    }

    fn without_stack(&mut self, like: &Like) -> usize {
        let mut path = self.paths.list[like.row].clone();
        path.extend([like.waker, self.word(NO_STACK.to_owned())]);
        self.paths.intern(path)
    }

    /// Path of a wait without a recorded wakeup.
    fn unended(&mut self, row: usize, wait: &Slice) -> usize {
        let thread = &self.trace.threads[wait.thread.index()];
        let words = if thread.alive_at_end && wait.end >= thread.end {
            "(still waiting at the end)"
        } else {
            "(waker not known)"
        };
        let mut path = self.paths.list[row].clone();
        path.push(self.word(words.to_owned()));
        self.paths.intern(path)
    }

    /// The place that names a waker.
    fn mark(&mut self, wakeup: &Wakeup) -> PlaceId {
        let words = match wakeup.context {
            WakeContext::Timer => "(woken by a timer)".to_owned(),
            WakeContext::SoftIrq => "(woken by a soft interrupt)".to_owned(),
            WakeContext::Irq => "(woken by a device)".to_owned(),
            WakeContext::Thread if wakeup.waker == wakeup.wakee => "(woken by itself)".to_owned(),
            WakeContext::Thread => match self.trace.threads.get(wakeup.waker.index()) {
                Some(thread) if thread.target => format!("(woken by {})", thread.name),
                Some(thread) => format!("(woken by {}, another program)", thread.name),
                None => "(waker not known)".to_owned(),
            },
        };
        self.word(words)
    }

    fn word(&mut self, name: String) -> PlaceId {
        self.paths.places.intern(Place { name, ..Place::default() })
    }
}

/// Adds up by thread, class, reason, stack and path.
#[derive(Default)]
struct Sums {
    sums: BTreeMap<(ThreadId, Class, WaitReason, StackId, usize), Tally>,
}

impl Sums {
    fn add(&mut self, seen: &Observation, path: usize) {
        let key = (seen.thread, seen.class, seen.reason, seen.stack, path);
        self.sums.entry(key).or_default().add(seen);
    }

    fn profile(self, mut profile: Profile, paths: Paths) -> Profile {
        for ((thread, class, reason, stack, path), tally) in self.sums {
            profile.all.merge(&tally);
            profile.stacks.push(StackUse { thread, class, reason, stack, path, tally });
        }
        profile.bare = paths.bare;
        profile.paths = paths.list;
        profile.places = paths.places.finish();
        profile
    }
}
