//! Functions of SQL that intervals of time need.

mod overlap;
mod percentile;
mod span_join;
mod sweep;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;

/// Functions: syntax and result.
pub const LIST: &[(&str, &str)] = &[
    (
        "overlap_ns(a_start, a_end, b_start, b_end)",
        "how long both last (ns): 0 if they do not touch; the ends may be given in any unit",
    ),
    (
        "percentile(x, p)",
        "exact: the smallest value that at least p % (0 to 100) do not exceed; a value that occurred",
    ),
    (
        "span_join('A', 'B' [, 'COLUMN'])",
        "rows of two queries or tables where they overlap in time, each with start_ns and end_ns; of one COLUMN (a thread) each with each; of A all columns, of B those as b_NAME",
    ),
    ("seconds(ns)", "nanoseconds as seconds, with a fraction"),
];

/// Makes them known.
pub fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(overlap::Overlap::new()));
    context.register_udf(ScalarUDF::from(overlap::Seconds::new()));
    context.register_udaf(AggregateUDF::from(percentile::Percentile::new()));
    context.register_udtf("span_join", Arc::new(span_join::SpanJoin::new(context.clone())));
}
