//! Goroutines that wait for locks: which locks, and for how long, compared with the program's own
//! measurements. Skipped if a tool is missing.

mod support;

use serde_json::Value;
use support::{Scratch, bpf_or_skip, made, record_json};

/// Four goroutines hold a lock while they sleep. Prints their total and their longest time in `Lock` (ns).
const GO: &str = "package main
import (\"fmt\"; \"os\"; \"sync\"; \"time\")
type shelf struct { lock sync.Mutex; books int }
//go:noinline
func (s *shelf) put() time.Duration {
	began := time.Now()
	s.lock.Lock()
	waited := time.Since(began)
	defer s.lock.Unlock()
	time.Sleep(2 * time.Millisecond)
	s.books++
	return waited
}
func main() {
	var all sync.WaitGroup
	var s shelf
	var waited, most [4]time.Duration
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			for at := 0; at < 100; at++ {
				one := s.put()
				waited[worker] += one
				most[worker] = max(most[worker], one)
			}
		}(worker)
	}
	all.Wait()
	waited[0] += waited[1] + waited[2] + waited[3]
	file, _ := os.Create(os.Args[1])
	fmt.Fprintln(file, waited[0].Nanoseconds(), max(most[0], most[1], most[2], most[3]).Nanoseconds())
}
";

/// Whether this kernel can set the probes. Prints a message if not.
fn is_active_or_skip(report: &Value) -> bool {
    let sources = report["sources"].as_array().expect("sources");
    let source = sources.iter().find(|source| source["name"] == "task-waits").expect("the source");
    if source["active"] == true {
        return true;
    }
    let missing = source["missing"].as_str().expect("a reason");
    assert!(support::lacks_function_probes(missing), "{missing}");
    println!("skipped: {missing}");
    false
}

#[test]
fn waits_of_goroutines_are_reported_with_their_lock() {
    let scratch = Scratch::new("task-waits");
    for flags in ["", "-s -w"] {
        let build = ["go", "build", "-ldflags", flags, "-o", "shelf", "shelf.go"];
        if !bpf_or_skip(&scratch) || !made(&scratch, ("shelf.go", GO), &build) {
            return;
        }
        let (program, measured) = (scratch.join("shelf"), scratch.join("measured"));
        let command = [program.to_str().expect("a path"), measured.to_str().expect("a path")];
        let report = record_json(&scratch, &[], &command);
        if !is_active_or_skip(&report) {
            return;
        }
        let measured = std::fs::read_to_string(&measured).expect("what it measured");
        let [all_ns, most_ns] =
            &measured.split_whitespace().map(|ns| ns.parse().unwrap()).collect::<Vec<u64>>()[..]
        else {
            panic!("{measured}")
        };
        let locks = report["task_locks"].as_array().expect("locks");
        let lock = locks.first().unwrap_or_else(|| panic!("{flags}: no lock"));
        assert_eq!(lock["place"], "main.(*shelf).put", "{flags}: {lock:#}");
        assert_eq!(lock["objects"], 1, "{flags}: {lock:#}");
        let number = |key: &str| lock[key].as_u64().expect("a number");
        assert!(number("waits") > 50, "{flags}: {lock:#}");
        assert!(number("wait_ns") <= *all_ns && number("max_ns") <= *most_ns, "{flags}: {measured} {lock:#}");
        assert!(number("max_ns") >= 1_000_000, "{flags}: {lock:#}");
        // The releasing goroutine slept with the lock, in any thread: its stack shows where.
        assert_eq!(lock["let_go"][0]["function"], "main.(*shelf).put", "{flags}: {lock:#}");
    }
}
