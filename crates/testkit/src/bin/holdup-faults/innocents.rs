//! Programs with nothing wrong: no rule may speak.

use std::sync::{Condvar, Mutex};

use crate::tools;
use crate::{Plan, Truth};

type Body<'a> = (String, Box<dyn FnOnce() + Send + 'a>);

/// Two threads compute, and a pool is idle.
pub fn idle_pool(mut plan: Plan) -> std::io::Result<Truth> {
    let pool = plan.random.within(2, 8);
    let (over, changed) = (Mutex::new(0), Condvar::new());
    let (plan, over, changed) = (&plan, &over, &changed);
    let worker = |cpu| {
        let body = move || {
            tools::bind(cpu);
            while plan.goes_on() {
                tools::compute(std::time::Duration::from_millis(1));
            }
            if let Ok(mut over) = over.lock() {
                *over += 1;
                changed.notify_all();
            }
        };
        (format!("worker-{cpu}"), Box::new(body) as Box<dyn FnOnce() + Send>)
    };
    let idle = |number| {
        let body = move || {
            let Ok(mut ended) = over.lock() else { return };
            while *ended < 2 {
                ended = match changed.wait(ended) {
                    Ok(ended) => ended,
                    Err(_) => return,
                };
            }
        };
        (format!("pool-{number}"), Box::new(body) as Box<dyn FnOnce() + Send>)
    };
    let mut bodies: Vec<Body> = (0..pool).map(idle).collect();
    bodies.extend([tools::VICTIMS, tools::OTHERS].map(worker));
    tools::together(bodies)?;
    Ok(Truth::default())
}

/// Each thread takes a lock of its own for every item. The locks are hot but never contended.
pub fn uncontended_lock(mut plan: Plan) -> std::io::Result<Truth> {
    let length = plan.draw(1, 10);
    let locks = [tools::Mutex::new(), tools::Mutex::new()];
    let plan = &plan;
    let worker = |(cpu, lock): (usize, &'static tools::Mutex)| {
        let body = move || {
            tools::bind(cpu);
            while plan.goes_on() {
                for _ in 0..64 {
                    lock.hold(|| tools::compute(length));
                }
            }
        };
        (format!("worker-{cpu}"), Box::new(body) as Box<dyn FnOnce() + Send>)
    };
    let locks: &'static [tools::Mutex; 2] = Box::leak(Box::new(locks));
    tools::together([tools::VICTIMS, tools::OTHERS].into_iter().zip(locks).map(worker).collect())?;
    Ok(Truth::default())
}
