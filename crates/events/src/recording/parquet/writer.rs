//! Writing one table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::schema::{Kind, Schema};
use crate::recording::RecordingError;

/// The values of one column of a row group.
pub enum Values {
    /// For [`Kind::U32`] and [`Kind::I32`] (the same bits).
    Narrow(Vec<i32>),
    /// For [`Kind::Time`] and [`Kind::U64`] (the same bits).
    Wide(Vec<i64>),
    /// For [`Kind::Text`] and [`Kind::Bytes`].
    Bytes(Vec<Vec<u8>>),
}

/// Writes the row groups of one table.
pub struct TableWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl TableWriter {
    /// Creates `NAME.parquet` in `dir`.
    pub fn create(dir: &Path, schema: &Schema) -> Result<TableWriter, RecordingError> {
        let path = dir.join(format!("{}.parquet", schema.name));
        let file = File::create(&path).map_err(RecordingError::io(&path))?;
        let message = parse_message_type(&schema.message()).map_err(RecordingError::table(&path))?;
        let properties = Arc::new(properties(schema));
        let writer = SerializedFileWriter::new(file, Arc::new(message), properties)
            .map_err(RecordingError::table(&path))?;
        Ok(TableWriter { path, writer })
    }

    /// Writes one row group: every column of the schema, in order, all of one length.
    pub fn group(&mut self, columns: Vec<Values>) -> Result<(), RecordingError> {
        let failed = RecordingError::table(&self.path);
        let mut group = self.writer.next_row_group().map_err(&failed)?;
        write_columns(&mut group, columns).map_err(&failed)?;
        group.close().map_err(&failed)?;
        Ok(())
    }

    /// Completes the file.
    pub fn finish(self) -> Result<(), RecordingError> {
        let failed = RecordingError::table(&self.path);
        self.writer.close().map_err(failed)?;
        Ok(())
    }
}

fn write_columns(
    group: &mut SerializedRowGroupWriter<'_, File>,
    columns: Vec<Values>,
) -> Result<(), ParquetError> {
    for values in columns {
        let Some(mut column) = group.next_column()? else { break };
        match values {
            Values::Narrow(values) => {
                column.typed::<Int32Type>().write_batch(&values, None, None)?;
            }
            Values::Wide(values) => {
                column.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Values::Bytes(values) => {
                let values: Vec<ByteArray> = values.into_iter().map(ByteArray::from).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
        }
        column.close()?;
    }
    Ok(())
}

fn properties(schema: &Schema) -> WriterProperties {
    let zstd = ZstdLevel::try_new(1).map_or(Compression::UNCOMPRESSED, Compression::ZSTD);
    let mut properties = WriterProperties::builder().set_compression(zstd);
    for column in schema.columns.iter().filter(|column| column.kind == Kind::Time) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
