//! The held child before its exec has our own image, and waits to be released. Its user frames are not the
//! program's and are dropped from stacks. Kernel frames are kept.

use holdup_events::Event;
use holdup_events::event::LifecycleChange;
use holdup_events::tables::StackEnd;

/// The child until its exec was seen.
pub struct Launcher {
    pid: Option<u32>,
}

impl Launcher {
    /// `None`: the program runs already.
    pub fn new(pid: Option<u32>) -> Launcher {
        Launcher { pid }
    }

    /// Removes our own frames from a stack. Returns `false` if no frame is left.
    pub fn pass(&mut self, event: &mut Event) -> bool {
        match event {
            Event::Lifecycle(change) if self.pid == Some(change.tgid) => {
                if matches!(change.change, LifecycleChange::Exec { .. }) {
                    self.pid = None;
                }
                true
            }
            Event::Stack(stack) if self.pid == Some(stack.tgid) => {
                stack.addresses.truncate(usize::from(stack.kernel_frames));
                stack.vias.clear();
                (stack.raw, stack.end) = (None, StackEnd::Unknown);
                !stack.addresses.is_empty()
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::Timestamp;
    use holdup_events::event::{Lifecycle, RawStack};

    use super::*;

    fn stack(tgid: u32, kernel_frames: u16, addresses: &[u64]) -> Event {
        Event::Stack(RawStack {
            at: Timestamp(1),
            id: 7,
            tgid,
            kernel_frames,
            addresses: addresses.to_vec(),
            vias: Vec::new(),
            end: StackEnd::UnknownMapping,
            raw: None,
        })
    }

    #[test]
    fn until_its_exec_the_childs_own_frames_are_left_out() {
        let mut launcher = Launcher::new(Some(5));
        assert!(!launcher.pass(&mut stack(5, 0, &[1, 2])), "nothing but frames of ours");
        let mut mixed = stack(5, 1, &[9, 1, 2]);
        assert!(launcher.pass(&mut mixed));
        let Event::Stack(left) = mixed else { unreachable!() };
        assert_eq!((left.addresses, left.end), (vec![9], StackEnd::Unknown));
        assert!(launcher.pass(&mut stack(6, 0, &[1])), "another process's");
        let exec = LifecycleChange::Exec { old_tid: 0 };
        let mut change = Event::Lifecycle(Lifecycle {
            at: Timestamp(2),
            change: exec,
            tid: 5,
            tgid: 5,
            target: true,
            name: String::new(),
        });
        assert!(launcher.pass(&mut change));
        let mut own = stack(5, 0, &[1, 2]);
        assert!(launcher.pass(&mut own));
        assert_eq!(own, stack(5, 0, &[1, 2]), "the program's");
    }
}
