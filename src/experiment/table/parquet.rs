//! Parquet, for DuckDB, pandas and the like.

use std::sync::Arc;

use anyhow::Result;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Column, Values};

/// One row group of all rows.
pub(super) fn bytes(columns: &[Column]) -> Result<Vec<u8>> {
    let fields = columns.iter().map(|(name, values)| field(name, values)).collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder("runs").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut group = file.next_row_group()?;
    for (_, values) in columns {
        let Some(mut column) = group.next_column()? else { break };
        match values {
            Values::Whole(values) => {
                let (values, levels) = present(values, |value| value.cast_signed());
                column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Values::Real(values) => {
                let (values, levels) = present(values, |value| value);
                column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            Values::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    Ok(file.into_inner()?)
}

fn field(name: &str, values: &Values) -> Result<Arc<Type>> {
    let (kind, repetition, converted) = match values {
        Values::Whole(_) => (Physical::INT64, Repetition::OPTIONAL, ConvertedType::NONE),
        Values::Real(_) => (Physical::DOUBLE, Repetition::OPTIONAL, ConvertedType::NONE),
        Values::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, ConvertedType::UTF8),
    };
    let builder = Type::primitive_type_builder(name, kind);
    Ok(Arc::new(builder.with_repetition(repetition).with_converted_type(converted).build()?))
}

/// The values that are there, and for each row whether it has one.
fn present<T: Copy, U>(values: &[Option<T>], convert: impl Fn(T) -> U) -> (Vec<U>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().flatten().map(|value| convert(*value)).collect(), levels)
}

#[cfg(test)]
mod tests {
    use super::super::{columns, example};
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn it_is_read_back() {
        let path = std::env::temp_dir().join(format!("holdup-runs-{}.parquet", std::process::id()));
        std::fs::write(&path, bytes(&columns(&example())).unwrap()).unwrap();
        let reader = SerializedFileReader::try_from(path.as_path()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        let of = |row: usize, name: &str| {
            rows[row].get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone()
        };
        assert_eq!(rows.len(), 2);
        assert_eq!(of(0, "failure"), Field::Str("said \"no\"".into()));
        assert_eq!((of(0, "progress"), of(1, "progress")), (Field::Null, Field::Double(2.5)));
        assert_eq!((of(1, "wall_ns"), of(1, "cpus")), (Field::Long(12), Field::Str("0,1".into())));
    }
}
