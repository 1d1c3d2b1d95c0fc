//! What a simulated program is: a list of operations a thread.

/// An operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Computes for so long (ns).
    Compute(u64),
    /// Computes in that function for so long (ns).
    Section(u16, u64),
    /// Takes the lock of that number, once it is free.
    Lock(usize),
    /// Lets it go.
    Unlock(usize),
    /// Puts an item into a queue or pipe.
    Push(usize),
    /// Takes one out, once there is one.
    Pop(usize),
    /// Waits at the barrier of that number until all its parties are there.
    Meet(usize),
    /// Does jobs of the pool of that number until none is left.
    Work(usize),
    /// Sleeps for so long (ns).
    Sleep(u64),
    /// Reads the disk, which takes so long (ns).
    Disk(u64),
    /// Begins the next thread that is not there yet.
    Spawn,
    /// Ends.
    Exit,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether it belongs to the program, not to another program that takes CPUs.
    pub target: bool,
    /// Whether it only starts with [`Op::Spawn`].
    pub unborn: bool,
    /// The thread's operations, repeated.
    pub ops: Vec<Op>,
    /// Repetitions before it exits. `None`: until the recording ends.
    pub laps: Option<u32>,
}

/// A program, and the machine that it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// CPUs of the machine.
    pub cpus: u32,
    /// A thread that has run for so long makes room for the next one (ns).
    pub quantum_ns: u64,
    /// End of the recording (ns after its start). `None`: when all target threads have exited.
    pub length_ns: Option<u64>,
    /// The threads.
    pub threads: Vec<Plan>,
    /// How many locks there are.
    pub locks: usize,
    /// A released lock goes to the next thread that tries, not to the first waiter.
    pub barging: bool,
    /// Items in each queue at first.
    pub channels: Vec<u64>,
    /// The first channels, of this number, are pipes.
    pub pipes: usize,
    /// Number of threads at each barrier.
    pub barriers: Vec<u32>,
    /// The jobs of each pool (ns).
    pub pools: Vec<Vec<u64>>,
}

impl Program {
    /// The same with another number of CPUs.
    pub fn with_cpus(mut self, cpus: u32) -> Program {
        self.cpus = cpus;
        self
    }

    /// The same with other time slices (ns).
    pub fn with_quantum(mut self, quantum_ns: u64) -> Program {
        self.quantum_ns = quantum_ns;
        self
    }

    /// The same as if a lock were not needed.
    pub fn without_lock(self, lock: usize) -> Program {
        self.without(|op| matches!(op, Op::Lock(number) | Op::Unlock(number) if *number == lock))
    }

    /// The same without the operations that match.
    pub fn without(mut self, matches: impl Fn(&Op) -> bool) -> Program {
        for plan in self.threads.iter_mut().filter(|plan| plan.target) {
            plan.ops.retain(|op| !matches(op));
        }
        self
    }

    /// The same with a function that takes `times` less time.
    pub fn faster(mut self, function: u16, times: f64) -> Program {
        for op in self.threads.iter_mut().flat_map(|plan| &mut plan.ops) {
            if let Op::Section(number, ns) = op
                && *number == function
            {
                *ns = (*ns as f64 / times) as u64;
            }
        }
        self
    }

    /// The same without other programs.
    pub fn alone(mut self) -> Program {
        self.threads.retain(|plan| plan.target);
        self
    }
}
