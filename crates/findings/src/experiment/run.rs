//! The data of an experiment: its settings, and each run with the facts of its recording.

use serde::{Deserialize, Serialize};

/// Several runs of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Seed of the order of the runs, and of each resampling.
    pub seed: u64,
    /// The goal by which runs are compared.
    pub goal: Goal,
    /// The varied settings, the baseline first.
    pub settings: Vec<Setting>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

/// The figure by which runs are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Wall time of the program. Less is better.
    #[default]
    Wall,
    /// Work done by the program per wall time. More is better.
    Work,
    /// A number that the program prints, for which more is better (a rate).
    Rate,
    /// A number that the program prints, for which less is better (a time, a size).
    Cost,
}

/// One combination of the varied knobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// For people.
    pub name: String,
    /// Each knob and its value.
    pub knobs: Vec<(String, String)>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Row of [`Experiment::settings`].
    pub setting: usize,
    /// Which round: each round has every setting once, in an order of its own.
    pub round: u32,
    /// Wall time of the program from start to exit (ns).
    pub wall_ns: u64,
    /// The number that the program printed, if the goal needs one.
    pub progress: Option<f64>,
    /// Why the run does not count. Empty if it counts.
    pub failure: String,
    /// The folder of the recording within the set. Empty without a recording.
    pub recording: String,
    /// Other activity on the machine during the run.
    pub drift: Drift,
    /// Facts of the recording.
    pub facts: Option<RunFacts>,
}

/// Other activity on the machine during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Share of the machine's CPU time that the hypervisor took.
    pub stolen: f64,
    /// Share of the machine's CPU time that others than the program and its recorder used.
    pub others: f64,
    /// Mean frequency of the CPUs before it (MHz), where it can be read.
    pub frequency_mhz: Option<f64>,
}

/// Facts of a recording, as figures that can be compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Sum of the threads' lives (ns).
    pub life_ns: u64,
    /// Time and number of occurrences by table and name.
    pub rows: Vec<FactRow>,
    /// The threads that ran the most, the most first.
    pub threads: Vec<ThreadFacts>,
    /// Events lost.
    pub lost: u64,
}

impl RunFacts {
    /// One of its rows.
    pub fn row(&self, table: Table, name: &str) -> Option<&FactRow> {
        self.rows.iter().find(|row| row.table == table && row.name == name)
    }
}

/// One fact of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRow {
    /// Of what kind.
    pub table: Table,
    /// Of which.
    pub name: String,
    /// In the unit of the table's first measure ([`Table::measures`]): thread time (ns), or bytes.
    // Sets of format 1 had times only.
    #[serde(alias = "ns")]
    pub amount: u64,
    /// How often, where that was counted: waits, calls, objects.
    pub count: Option<u64>,
    /// The longest of them (ns), where that is known.
    #[serde(default)]
    pub longest_ns: Option<u64>,
}

impl FactRow {
    /// A row with thread time (ns), without a count.
    pub fn time(table: Table, name: impl Into<String>, ns: u64) -> FactRow {
        FactRow { table, name: name.into(), amount: ns, ..FactRow::default() }
    }
}

/// Kinds of figures, in the order of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// Classes of the ledger.
    #[default]
    Ledger,
    /// Time of runnable threads, by the occupant of their CPU.
    RunQueue,
    /// Findings.
    Finding,
    /// Locks.
    Lock,
    /// Syscalls.
    Syscall,
    /// Functions, running, themselves.
    Function,
    /// Running time of functions, including their callees.
    Calls,
    /// Functions of the program in which its threads wait.
    Wait,
    /// Functions of the program that allocate memory, where that was recorded.
    Allocation,
    /// Cost of garbage collections.
    Collections,
}

/// The quantity of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Thread time (ns).
    Time,
    /// Bytes.
    Bytes,
    /// How often: waits, calls, objects.
    Count,
    /// Thread time of one of them, on average (ns).
    TimeEach,
    /// The longest of them in a run (ns).
    Longest,
}

impl Measure {
    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Time => "time",
            Measure::Bytes => "bytes",
            Measure::Count => "count",
            Measure::TimeEach => "time-each",
            Measure::Longest => "longest",
        }
    }

    /// The unit, as in JSON.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Time | Measure::TimeEach | Measure::Longest => "ns",
            Measure::Bytes => "bytes",
            Measure::Count => "times",
        }
    }

    /// Two halves of a run have together as much of it as the run.
    pub fn adds_up(self) -> bool {
        matches!(self, Measure::Time | Measure::Bytes | Measure::Count)
    }
}

impl Table {
    /// The compared quantities of each row. The first one is the quantity of [`FactRow::amount`].
    pub fn measures(self) -> &'static [Measure] {
        match self {
            Table::Lock => &[Measure::Time, Measure::Count, Measure::TimeEach, Measure::Longest],
            Table::Syscall => &[Measure::Time, Measure::Count, Measure::TimeEach],
            Table::Allocation => &[Measure::Bytes, Measure::Count],
            _ => &[Measure::Time],
        }
    }

    /// Whether the first quantity of the rows is thread time.
    pub fn is_time(self) -> bool {
        self != Table::Allocation
    }

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Table::Ledger => "ledger",
            Table::RunQueue => "run-queue",
            Table::Finding => "finding",
            Table::Lock => "lock",
            Table::Syscall => "syscall",
            Table::Function => "function",
            Table::Calls => "calls",
            Table::Wait => "wait",
            Table::Allocation => "allocation",
            Table::Collections => "collections",
        }
    }
}

/// One thread of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// From its start to its end (ns).
    pub life_ns: u64,
    /// On a CPU (ns).
    pub running_ns: u64,
    /// By class of the ledger, those that it has (ns).
    pub classes: Vec<(String, u64)>,
}

impl Goal {
    /// Whether a greater value is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Goal::Work | Goal::Rate)
    }

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Wall => "wall",
            Goal::Work => "work",
            Goal::Rate => "rate",
            Goal::Cost => "cost",
        }
    }
}

impl Run {
    /// Whether the run counts.
    pub fn is_good(&self) -> bool {
        self.failure.is_empty()
    }

    /// The run's value for the goal, if the run counts: seconds, work per second, or the program's own
    /// number.
    pub fn value(&self, goal: Goal) -> Option<f64> {
        let wall = self.wall_ns as f64 / 1e9;
        let value = match goal {
            Goal::Wall => wall,
            Goal::Work => self.progress? / wall,
            Goal::Rate | Goal::Cost => self.progress?,
        };
        (self.is_good() && value.is_finite() && value > 0.0).then_some(value)
    }

    /// Time of a row (ns): zero where the recording knows the table but not the row.
    pub fn ns(&self, table: Table, name: &str) -> Option<u64> {
        self.facts.as_ref().map(|facts| facts.row(table, name).map_or(0, |row| row.amount))
    }
}

impl Experiment {
    /// The runs of a setting that count.
    pub fn runs_of(&self, setting: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.setting == setting && run.is_good())
    }

    /// The values of a setting's runs for the goal.
    pub fn values(&self, setting: usize) -> Vec<f64> {
        self.runs_of(setting).filter_map(|run| run.value(self.goal)).collect()
    }

    /// Rounds in which both settings count, with some figure of each.
    pub fn pairs<T>(&self, (a, b): (usize, usize), figure: impl Fn(&Run) -> Option<T>) -> Vec<(T, T)> {
        let other = |round: u32| self.runs_of(b).find(|run| run.round == round);
        self.runs_of(a).filter_map(|run| Some((figure(run)?, figure(other(run.round)?)?))).collect()
    }

    /// Runs that do not count.
    pub fn failures(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.is_good())
    }
}
