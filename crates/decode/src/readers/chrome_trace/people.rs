//! Processes and threads of a trace.

use std::collections::HashMap;

use super::json::{Entry, Key};
use crate::telling::{Person, Telling, Who};

/// Everybody, by the names that the file gives them.
#[derive(Default)]
pub(super) struct People {
    threads: HashMap<(Key, Key), Who>,
    /// In the order in which they were met.
    all: Vec<(Key, Who)>,
    process_names: HashMap<Key, String>,
    /// The number of each process: that of the first of its threads, where the file has none.
    pids: HashMap<Key, u32>,
    lanes: HashMap<Key, u32>,
    runtime: &'static str,
}

impl People {
    /// The thread of an entry.
    pub fn of_entry(&mut self, entry: &Entry, telling: &mut Telling) -> Option<Who> {
        self.thread(&entry.pid, &entry.tid, telling)
    }

    fn thread(&mut self, pid: &Key, tid: &Key, telling: &mut Telling) -> Option<Who> {
        let key = (pid.clone(), tid.clone());
        if let Some(who) = self.threads.get(&key) {
            return Some(*who);
        }
        let name = format!("thread {tid}");
        let who = self.add(pid, Person { tid: tid.number(), name, ..Person::default() }, telling)?;
        self.threads.insert(key, who);
        Some(who)
    }

    /// A lane of a process that is no thread of it.
    pub fn add_lane(&mut self, pid: &Key, name: String, telling: &mut Telling) -> Option<Who> {
        self.add(pid, Person { name, outside: true, ..Person::default() }, telling)
    }

    fn add(&mut self, pid: &Key, mut person: Person, telling: &mut Telling) -> Option<Who> {
        let lane = self.lanes.entry(pid.clone()).or_default();
        // A runtime's own number is what people know it by.
        person.lane = if person.tid < 1 << 16 && !person.outside { person.tid } else { (1 << 16) + *lane };
        *lane += 1;
        person.pid = self.pids.get(pid).copied().unwrap_or_else(|| pid.number());
        let who = telling.person(person)?;
        if let Some(known) = telling.known(who) {
            self.pids.entry(pid.clone()).or_insert(known.pid);
        }
        self.all.push((pid.clone(), who));
        Some(who)
    }

    /// Metadata: names.
    pub fn describe(&mut self, entry: &Entry, telling: &mut Telling) {
        let Some(name) = entry.text("name") else { return };
        match entry.name.as_ref() {
            "process_name" => {
                self.process_names.insert(entry.pid.clone(), name.to_owned());
            }
            "thread_name" => {
                if let Some(person) = self.of_entry(entry, telling).and_then(|who| telling.known(who)) {
                    name.clone_into(&mut person.name);
                }
            }
            _ => {}
        }
    }

    /// A span of this runtime was found on a thread.
    pub fn speaks(&mut self, who: Who, runtime: &'static str, telling: &mut Telling) {
        if runtime.is_empty() {
            return;
        }
        self.runtime = runtime;
        if let Some(person) = telling.known(who)
            && person.runtime.is_empty()
        {
            runtime.clone_into(&mut person.runtime);
        }
    }

    /// Which runtime's words were met last.
    pub fn runtime(&self) -> Option<&'static str> {
        Some(self.runtime).filter(|runtime| !runtime.is_empty())
    }

    /// Where the runtime writes a thread's number for the process, all are of one.
    pub fn be_one_process(&self, telling: &mut Telling) {
        let first = self.all.first().and_then(|(_, who)| telling.known(*who)).map(|person| person.tid);
        for (_, who) in &self.all {
            if let (Some(person), Some(tid)) = (telling.known(*who), first) {
                person.pid = tid;
            }
        }
    }

    /// Restricts the program to this process (a pid or a name). Empty: all processes.
    pub fn choose(&self, wanted: &str, telling: &mut Telling) {
        for (pid, who) in self.all.iter().filter(|_| !wanted.is_empty()) {
            let named = self.process_names.get(pid).is_some_and(|name| name == wanted);
            if let Some(person) = telling.known(*who).filter(|_| !named && pid.to_string() != wanted) {
                person.outside = true;
            }
        }
    }
}
