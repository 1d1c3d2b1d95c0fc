//! Running a query to its end, or until the user wants no more.

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, select};

use crate::error::QueryError;

/// Plans are walked recursively, and a query may nest as deeply as it is long (bytes; only what is used is taken).
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// No question of a person's is longer (bytes); with this length, the deepest has stack enough.
pub(crate) const SQL_BYTES_MAX: usize = 16 << 10;

/// Does `work` on `threads` threads. A damaged table may make its reader panic: that is an error, too.
///
/// # Errors
/// Those of `work`; [`QueryError::Interrupted`] after Ctrl-C.
pub fn run<T: Send + 'static>(
    threads: usize,
    work: impl Future<Output = Result<T, QueryError>> + Send + 'static,
) -> Result<T, QueryError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let work = runtime.spawn(work);
        match select(work, pin!(tokio::signal::ctrl_c())).await {
            Either::Left((Ok(result), _)) => result,
            Either::Left((Err(error), _)) => Err(QueryError::Failed(error.to_string())),
            Either::Right(_) => Err(QueryError::Interrupted),
        }
    });
    // What is being computed is not waited for.
    runtime.shutdown_background();
    result
}
