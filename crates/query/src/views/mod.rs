//! The views, in the field's terms. A new one is one new file, or a function in one, and one line in the list below.

mod causes;
mod locks;
mod samples;
mod slices;
mod spans;
mod syscalls;
mod threads;
mod waits;

use std::sync::{Arc, LazyLock};

use crate::view::View;

/// Every view, in the order of listings.
pub fn all() -> &'static [Arc<dyn View>] {
    static ALL: LazyLock<Vec<Arc<dyn View>>> = LazyLock::new(|| {
        vec![
            Arc::new(threads::recording()),
            Arc::new(threads::processes()),
            Arc::new(threads::threads()),
            Arc::new(threads::ledger()),
            Arc::new(threads::cpus()),
            Arc::new(slices::slices()),
            Arc::new(waits::waits()),
            Arc::new(waits::wakeups()),
            Arc::new(locks::locks()),
            Arc::new(locks::lock_holders()),
            Arc::new(locks::blame()),
            Arc::new(locks::critical_path()),
            Arc::new(samples::samples()),
            Arc::new(samples::stacks()),
            Arc::new(syscalls::syscalls()),
            Arc::new(spans::spans()),
            Arc::new(spans::counters()),
            Arc::new(spans::marks()),
            Arc::new(causes::findings()),
            Arc::new(causes::evidence()),
            Arc::new(causes::loss()),
        ]
    });
    &ALL
}

/// The view of that name.
pub fn named(name: &str) -> Option<&'static Arc<dyn View>> {
    all().iter().find(|view| view.name() == name)
}
