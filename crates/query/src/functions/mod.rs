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
        "length of the overlap, 0 if the intervals do not overlap, in the unit of the arguments",
    ),
    (
        "percentile(x, p)",
        "exact percentile by nearest rank: the smallest value that at least p % (0 to 100) of the values do not exceed",
    ),
    (
        "span_join('A', 'B' [, 'COLUMN'])",
        "rows of two tables or queries (with start_ns and end_ns) that overlap in time and have equal COLUMN. Columns of B are named b_NAME",
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
