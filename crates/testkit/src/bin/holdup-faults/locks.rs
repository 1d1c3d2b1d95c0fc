//! Faults of those who hold locks.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::tools::{self, Mutex};
use crate::{Plan, Truth};

type Body<'a> = (String, Box<dyn FnOnce() + Send + 'a>);

fn thread<'a>(name: &str, body: impl FnOnce() + Send + 'a) -> Body<'a> {
    (name.to_owned(), Box::new(body))
}

/// A thread of low priority holds the lock while it computes. The hog on its CPU preempts it. Others wait on
/// the other CPU while there is a holder. The holder stops with the last of them, because later preemption
/// would be the hog's fault alone.
pub fn holder_preempted(mut plan: Plan) -> std::io::Result<Truth> {
    let (lock, holds) = (Mutex::new(), AtomicBool::new(true));
    let (held, free, short) = (plan.draw(8000, 12_000), plan.draw(50, 150), plan.draw(50, 150));
    let (plan, lock_ref, holds) = (&plan, &lock, &holds);
    let holder = thread("holder", move || {
        tools::bind(tools::VICTIMS);
        tools::be_nice();
        while plan.goes_on() {
            lock_ref.hold(|| tools::compute(held));
            tools::compute(free);
        }
        holds.store(false, Relaxed);
    });
    let waiter = |name| {
        thread(name, move || {
            tools::bind(tools::OTHERS);
            while holds.load(Relaxed) {
                lock_ref.hold(|| tools::compute(short));
                tools::compute(short);
            }
        })
    };
    tools::together(vec![holder, waiter("waiter-1"), waiter("waiter-2")])?;
    Ok(Truth { rules: &["preempted-lock-holder"], names: vec!["holder".into(), lock.address()] })
}

/// A thread sleeps while it holds the lock.
pub fn holder_asleep(mut plan: Plan) -> std::io::Result<Truth> {
    let lock = Mutex::new();
    let (asleep, short) = (plan.draw(2000, 6000), plan.draw(100, 400));
    let (plan, lock_ref) = (&plan, &lock);
    let sleeper = thread("sleeper", move || {
        while plan.goes_on() {
            lock_ref.hold(|| std::thread::sleep(asleep));
            tools::compute(short);
        }
    });
    let waiter = |name| {
        thread(name, move || {
            while plan.goes_on() {
                lock_ref.hold(|| tools::compute(short));
                tools::compute(short);
            }
        })
    };
    tools::together(vec![sleeper, waiter("waiter-1"), waiter("waiter-2")])?;
    Ok(Truth { rules: &["blocked-lock-holder"], names: vec!["sleeper".into(), lock.address()] })
}

/// A fair lock, held briefly by several threads, and for longer than the time between two acquisitions. Two
/// running threads suffice for a queue.
pub fn convoy(mut plan: Plan) -> std::io::Result<Truth> {
    let lock = Mutex::inheriting();
    let (held, free) = (plan.draw(5, 10), plan.draw(2, 5));
    let threads = plan.random.within(3, 6);
    let (plan, lock_ref) = (&plan, &lock);
    let worker = |number| {
        thread(&format!("worker-{number}"), move || {
            while plan.goes_on() {
                for _ in 0..32 {
                    lock_ref.hold(|| tools::compute(held));
                    tools::compute(free);
                }
            }
        })
    };
    tools::together((0..threads).map(worker).collect())?;
    Ok(Truth { rules: &["lock-convoy"], names: vec![lock.address()] })
}

/// An important thread waits for an unimportant one, which a middling one keeps off its CPU.
pub fn priority_inversion(mut plan: Plan) -> std::io::Result<Truth> {
    let lock = Mutex::new();
    let (held, burst, pause) = (plan.draw(1500, 3000), plan.draw(4000, 8000), plan.draw(3000, 5000));
    let (plan, lock_ref) = (&plan, &lock);
    let refused = std::sync::Mutex::new(None);
    let refused_ref = &refused;
    let important = move |priority| {
        if let (Err(error), Ok(mut refused)) = (tools::real_time(priority), refused_ref.lock()) {
            *refused = Some(error);
        }
    };
    let low = thread("low", move || {
        tools::bind(tools::VICTIMS);
        while plan.goes_on() {
            lock_ref.hold(|| tools::compute(held));
            tools::compute(Duration::from_micros(50));
            std::thread::yield_now();
        }
    });
    let middle = thread("middle", move || {
        tools::bind(tools::VICTIMS);
        important(10);
        while plan.goes_on() {
            tools::compute(burst);
            std::thread::sleep(pause);
        }
    });
    let high = thread("high", move || {
        tools::bind(tools::OTHERS);
        important(20);
        while plan.goes_on() {
            lock_ref.hold(|| tools::compute(Duration::from_micros(100)));
            tools::compute(Duration::from_micros(300));
        }
    });
    tools::together(vec![low, middle, high])?;
    match refused.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(Truth { rules: &["preempted-lock-holder"], names: vec!["low".into(), lock.address()] }),
    }
}

/// Three locks: the holder of the first waits for the second, whose holder waits for the third. Under the
/// third, two threads compute in turn, and without it they would run in parallel. The other locks are used
/// rarely, so that a CPU is idle at times.
pub fn chain(mut plan: Plan) -> std::io::Result<Truth> {
    let locks = [Mutex::new(), Mutex::new(), Mutex::new()];
    let (long, short, think) = (plan.draw(2000, 5000), plan.draw(50, 200), plan.draw(500, 1500));
    let (plan, [first, second, third]) = (&plan, &locks);
    let last = |name| {
        thread(name, move || {
            while plan.goes_on() {
                third.hold(|| tools::compute(long));
                tools::compute(short);
            }
        })
    };
    let comes = |name, body: fn(&dyn Fn(), [&Mutex; 3])| {
        thread(name, move || {
            while plan.goes_on() {
                body(&|| tools::compute(short), [first, second, third]);
                std::thread::sleep(think);
            }
        })
    };
    let bodies = vec![
        last("last-1"),
        last("last-2"),
        comes("middle", |work, [_, second, third]| second.hold(|| third.hold(work))),
        comes("front", |work, [first, second, _]| first.hold(|| second.hold(work))),
        comes("client", |work, [first, ..]| first.hold(work)),
    ];
    tools::together(bodies)?;
    Ok(Truth { rules: &["lock-contention"], names: vec![third.address()] })
}
