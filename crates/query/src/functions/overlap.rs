//! `overlap_ns` and `seconds`: functions of a row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, Float64Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::cast::{as_float64_array, as_int64_array};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// `overlap_ns(a_start, a_end, b_start, b_end)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Overlap {
    signature: Signature,
}

impl Overlap {
    /// The function.
    pub fn new() -> Overlap {
        let four = TypeSignature::Uniform(4, vec![DataType::Int64]);
        Overlap { signature: Signature::new(four, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Overlap {
    fn name(&self) -> &str {
        "overlap_ns"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [a_start, a_end, b_start, b_end] = &arrays[..] else {
            return datafusion::common::plan_err!("overlap_ns takes four moments");
        };
        let (a_start, a_end) = (as_int64_array(a_start)?, as_int64_array(a_end)?);
        let (b_start, b_end) = (as_int64_array(b_start)?, as_int64_array(b_end)?);
        let one = |row: usize| {
            let known = [a_start, a_end, b_start, b_end].iter().all(|column| column.is_valid(row));
            known.then(|| {
                overlap((a_start.value(row), a_end.value(row)), (b_start.value(row), b_end.value(row)))
            })
        };
        let overlaps: Int64Array = (0..a_start.len()).map(one).collect();
        Ok(ColumnarValue::Array(Arc::new(overlaps)))
    }
}

/// How long two intervals have in common.
fn overlap(a: (i64, i64), b: (i64, i64)) -> i64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0)).max(0)
}

/// `seconds(ns)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Seconds {
    signature: Signature,
}

impl Seconds {
    /// The function.
    pub fn new() -> Seconds {
        let one = TypeSignature::Uniform(1, vec![DataType::Float64]);
        Seconds { signature: Signature::new(one, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Seconds {
    fn name(&self) -> &str {
        "seconds"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(times) = arrays.first() else {
            return datafusion::common::plan_err!("seconds takes a time in nanoseconds");
        };
        let seconds: Float64Array = as_float64_array(times)?.iter().map(|ns| ns.map(|ns| ns / 1e9)).collect();
        Ok(ColumnarValue::Array(Arc::new(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn what_intervals_have_in_common() {
        assert_eq!(overlap((0, 10), (5, 20)), 5);
        assert_eq!(overlap((5, 20), (0, 10)), 5);
        assert_eq!(overlap((0, 100), (20, 30)), 10);
        assert_eq!(overlap((0, 10), (10, 20)), 0, "they touch");
        assert_eq!(overlap((0, 10), (50, 60)), 0);
        assert_eq!(overlap((i64::MIN, 0), (i64::MAX, i64::MAX)), 0);
    }
}
