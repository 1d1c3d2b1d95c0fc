//! `percentile(x, p)`: exact, by nearest rank, as the report's percentiles.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::cast::as_float64_array;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, TypeSignature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Percentile {
    signature: Signature,
}

impl Percentile {
    /// The function. Times are whole nanoseconds below 2^53, which a float holds exactly.
    pub fn new() -> Percentile {
        let two = TypeSignature::Exact(vec![DataType::Float64, DataType::Float64]);
        Percentile { signature: Signature::new(two, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        "percentile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Values::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let item = Arc::new(Field::new_list_field(DataType::Float64, true));
        Ok(vec![
            Arc::new(Field::new(format!("{}[values]", args.name), DataType::List(item), true)),
            Arc::new(Field::new(format!("{}[percent]", args.name), DataType::Float64, true)),
        ])
    }
}

/// All values of a group.
#[derive(Debug, Default)]
struct Values {
    values: Vec<f64>,
    percent: Option<f64>,
}

impl Values {
    fn set_percent(&mut self, percents: &Float64Array) -> Result<()> {
        for percent in percents.iter().flatten() {
            if !(0.0..=100.0).contains(&percent) {
                return exec_err!("percentile(x, p): p is {percent}, and not from 0 to 100");
            }
            if self.percent.is_some_and(|known| known != percent) {
                return exec_err!("percentile(x, p): p must be the same in all rows of a group");
            }
            self.percent = Some(percent);
        }
        Ok(())
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.values.extend(as_float64_array(&columns[0])?.iter().flatten());
        self.set_percent(as_float64_array(&columns[1])?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists: &ListArray = states[0].as_list();
        for values in lists.iter().flatten() {
            self.values.extend(values.as_primitive::<Float64Type>().iter().flatten());
        }
        self.set_percent(as_float64_array(&states[1])?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Float64Array::from(std::mem::take(&mut self.values));
        let item = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(item, offsets, Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list)), ScalarValue::Float64(self.percent)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let percent = self.percent.unwrap_or(0.0);
        Ok(ScalarValue::Float64(nearest_rank(&mut self.values, percent)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}

/// The smallest value that at least `percent` % do not exceed.
fn nearest_rank(values: &mut [f64], percent: f64) -> Option<f64> {
    let rank = (values.len() as f64 * percent / 100.0).ceil().max(1.0) as usize;
    if values.is_empty() {
        return None;
    }
    let (_, value, _) = values.select_nth_unstable_by(rank.min(values.len()) - 1, f64::total_cmp);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::nearest_rank;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let mut of = |percent| nearest_rank(&mut values, percent);
        assert_eq!([of(0.0), of(50.0), of(99.0), of(100.0)], [1.0, 50.0, 99.0, 100.0].map(Some));
        assert_eq!(nearest_rank(&mut [7.0], 99.0), Some(7.0));
        assert_eq!(nearest_rank(&mut [], 50.0), None);
    }
}
