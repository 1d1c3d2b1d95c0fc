//! Running a query to its end, or until the user wants no more.

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::QueryError;

/// Plans are walked recursively, and a query may nest as deeply as it is long (bytes). Only the used part of
/// the stack takes memory.
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// Longer than any query written by hand (bytes). At this length, the deepest nesting fits into the stack.
pub(crate) const SQL_BYTES_MAX: usize = 16 << 10;

/// Runs tasks, one after another. While a runner exists, Ctrl-C and SIGTERM end its current or next task
/// instead of the process. Incomplete files can then be removed.
pub struct Runner {
    /// `None` only during the drop.
    runtime: Option<Runtime>,
    interrupted: Signal,
    terminated: Signal,
}

impl Runner {
    /// A runner with this number of threads.
    ///
    /// # Errors
    /// If the system has no more threads or descriptors.
    pub fn new(threads: usize) -> Result<Runner, QueryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let (interrupted, terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        drop(inside);
        Ok(Runner { runtime: Some(runtime), interrupted, terminated })
    }

    /// Runs a task. A panic, which a damaged table may cause, is an error.
    ///
    /// # Errors
    /// Those of `work`, and [`QueryError::Interrupted`] after a signal.
    pub fn run<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = Result<T, QueryError>> + Send + 'static,
    ) -> Result<T, QueryError> {
        let Runner { runtime: Some(runtime), interrupted, terminated } = self else {
            return Err(QueryError::Failed("it has ended".to_owned()));
        };
        runtime.block_on(async {
            let work = runtime.spawn(work);
            let (interrupted, terminated) = (pin!(interrupted.recv()), pin!(terminated.recv()));
            match select(work, select(interrupted, terminated)).await {
                Either::Left((Ok(result), _)) => result,
                Either::Left((Err(error), _)) => Err(QueryError::Failed(error.to_string())),
                Either::Right((Either::Left(_), _)) => Err(interruption(SignalKind::interrupt())),
                Either::Right((Either::Right(_), _)) => Err(interruption(SignalKind::terminate())),
            }
        })
    }
}

impl Drop for Runner {
    /// Does not wait for running computations.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn interruption(by: SignalKind) -> QueryError {
    QueryError::Interrupted { signal: by.as_raw_value() }
}
