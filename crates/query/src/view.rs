//! What a view is: columns, each with its meaning, and rows that are made when they are asked for.
//!
//! A view is never held as a table: a query reads it in batches, and only the columns that it names are made.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::DataType;

use crate::facts::Facts;

/// Getter of a column's value in a row. Unknown values are NULL, never zero.
pub enum Get<R> {
    /// A whole number: a count, an id, nanoseconds.
    Int(fn(&Facts, &R) -> Option<i64>),
    /// A number with a fraction.
    Real(fn(&Facts, &R) -> Option<f64>),
    /// Yes or no.
    Flag(fn(&Facts, &R) -> Option<bool>),
    /// Text.
    Text(for<'a> fn(&'a Facts, &'a R) -> Option<Cow<'a, str>>),
}

/// A column of rows `R`.
pub struct Column<R> {
    /// The name, with the unit last.
    pub name: &'static str,
    /// The meaning.
    pub meaning: &'static str,
    /// The value.
    pub get: Get<R>,
}

/// A column in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// The name, with the unit last.
    pub name: String,
    /// The SQL type.
    pub kind: String,
    /// The meaning.
    pub meaning: String,
}

/// A view of a recording.
pub trait View: Send + Sync {
    /// The name.
    fn name(&self) -> &'static str;
    /// Meaning of a row, in one line.
    fn meaning(&self) -> &'static str;
    /// Name, type and meaning of each column.
    fn columns(&self) -> Vec<(&'static str, DataType, &'static str)>;
    /// How many places there are to look for rows at: [`View::batch`] is asked for ranges of these.
    fn places(&self, facts: &Facts) -> usize;
    /// The rows of some places: these columns, and how many rows there are.
    fn batch(&self, facts: &Facts, places: Range<usize>, columns: &[usize]) -> (Vec<ArrayRef>, usize);
}

/// A view whose rows are made of values `R`.
pub struct Table<R> {
    /// See [`View::name`].
    pub name: &'static str,
    /// See [`View::meaning`].
    pub meaning: &'static str,
    /// The columns, in order.
    pub columns: Vec<Column<R>>,
    /// See [`View::places`].
    pub places: fn(&Facts) -> usize,
    /// The rows of some places.
    pub rows: fn(&Facts, Range<usize>) -> Vec<R>,
}

impl<R> View for Table<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn columns(&self) -> Vec<(&'static str, DataType, &'static str)> {
        self.columns.iter().map(|column| (column.name, column.get.kind(), column.meaning)).collect()
    }

    fn places(&self, facts: &Facts) -> usize {
        (self.places)(facts)
    }

    fn batch(&self, facts: &Facts, places: Range<usize>, columns: &[usize]) -> (Vec<ArrayRef>, usize) {
        let rows = (self.rows)(facts, places);
        let chosen = columns.iter().filter_map(|column| self.columns.get(*column));
        (chosen.map(|column| column.get.array(facts, &rows)).collect(), rows.len())
    }
}

impl<R> Get<R> {
    fn kind(&self) -> DataType {
        match self {
            Get::Int(_) => DataType::Int64,
            Get::Real(_) => DataType::Float64,
            Get::Flag(_) => DataType::Boolean,
            Get::Text(_) => DataType::Utf8View,
        }
    }

    fn array(&self, facts: &Facts, rows: &[R]) -> ArrayRef {
        match self {
            Get::Int(get) => Arc::new(rows.iter().map(|row| get(facts, row)).collect::<Int64Array>()),
            Get::Real(get) => Arc::new(rows.iter().map(|row| get(facts, row)).collect::<Float64Array>()),
            Get::Flag(get) => Arc::new(rows.iter().map(|row| get(facts, row)).collect::<BooleanArray>()),
            Get::Text(get) => Arc::new(texts(facts, rows, *get)),
        }
    }
}

fn texts<R>(
    facts: &Facts,
    rows: &[R],
    get: for<'a> fn(&'a Facts, &'a R) -> Option<Cow<'a, str>>,
) -> StringViewArray {
    let mut texts = StringViewBuilder::with_capacity(rows.len()).with_deduplicate_strings();
    for row in rows {
        texts.append_option(get(facts, row));
    }
    texts.finish()
}

/// Columns of a table: kind, name, meaning, and the value of `$row` given `$facts`.
macro_rules! columns {
    ($facts:ident, $row:ident: $type:ty; $($kind:ident $name:literal $meaning:literal = $value:expr;)*) => {
        vec![$(crate::view::Column {
            name: $name,
            meaning: $meaning,
            get: crate::view::Get::$kind(|$facts: &crate::facts::Facts, $row: &$type| {
                let _ = ($facts, $row);
                $value
            }),
        },)*]
    };
}
pub(crate) use columns;

/// Text that a row or the recording holds.
pub(crate) fn text(text: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(text))
}

/// Returns the text. `None` for empty text, which means unknown.
pub(crate) fn non_empty(text: &str) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(Cow::Borrowed(text))
}

/// A number as SQL has it: what exceeds the greatest signed one (no time and no count does) is that.
pub(crate) fn int(number: u64) -> Option<i64> {
    Some(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The rows of a range of a list.
pub(crate) fn part<R>(rows: Vec<R>, places: Range<usize>) -> Vec<R> {
    rows.into_iter().skip(places.start).take(places.len()).collect()
}
