//! Prints what the doctor finds: `doctor`.

use holdup_capture::doctor::{State, best_backend, examine};

fn main() {
    let checks = examine();
    for check in &checks {
        let mark = match check.ok {
            State::Ok => "ok      ",
            State::Degraded => "degraded",
            State::Missing => "missing ",
        };
        println!("{mark} {:<20} {}", check.name, check.what);
        if !check.remedy.is_empty() {
            println!("{:30}{}", "", check.remedy);
        }
    }
    let (backend, reason) = best_backend(&checks);
    println!("backend: {backend:?} {reason}");
}
