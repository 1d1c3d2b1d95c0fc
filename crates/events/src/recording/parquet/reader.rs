//! Reading one table.

use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};

/// A table opened for reading. Files are foreign bytes: every answer may be an error.
pub struct TableReader {
    reader: Box<dyn FileReader>,
}

type Result<T> = std::result::Result<T, ParquetError>;

impl TableReader {
    /// Opens a file, or bytes of one.
    pub fn open<C: ChunkReader + 'static>(source: C) -> Result<TableReader> {
        Ok(TableReader { reader: Box::new(SerializedFileReader::new(source)?) })
    }

    /// Rows of each row group.
    pub fn groups(&self) -> Vec<usize> {
        let metadata = self.reader.metadata();
        metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect()
    }

    /// The table has a column of this name: later versions may have added it.
    pub fn has_column(&self, name: &str) -> bool {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.columns().iter().any(|column| column.name() == name)
    }

    fn column(&self, group: usize, name: &str) -> Result<ColumnReader> {
        let row_group = self.reader.get_row_group(group)?;
        let index = row_group
            .metadata()
            .columns()
            .iter()
            .position(|column| column.column_path().string() == name)
            .ok_or_else(|| ParquetError::General(format!("no column {name}")))?;
        row_group.get_column_reader(index)
    }

    /// A 32-bit column of one group, in batches of at most `batch` values.
    pub fn narrow(&self, group: usize, name: &str) -> Result<ColumnBatches<Int32Type>> {
        self.typed::<Int32Type>(group, name, Type::INT32)
    }

    /// A 64-bit column of one group.
    pub fn wide(&self, group: usize, name: &str) -> Result<ColumnBatches<Int64Type>> {
        self.typed::<Int64Type>(group, name, Type::INT64)
    }

    fn typed<T: DataType>(&self, group: usize, name: &str, stored: Type) -> Result<ColumnBatches<T>> {
        let column = self.column(group, name)?;
        let found = match &column {
            ColumnReader::Int32ColumnReader(_) => Type::INT32,
            ColumnReader::Int64ColumnReader(_) => Type::INT64,
            ColumnReader::ByteArrayColumnReader(_) => Type::BYTE_ARRAY,
            _ => Type::BOOLEAN,
        };
        if found != stored {
            return Err(ParquetError::General(format!("column {name} is {found}, not {stored}")));
        }
        Ok(ColumnBatches { reader: get_typed_column_reader(column) })
    }

    /// A whole 32-bit column.
    pub fn all_u32(&self, name: &str) -> Result<Vec<u32>> {
        Ok(self.all_i32(name)?.into_iter().map(|value| value as u32).collect())
    }

    /// A whole signed column.
    pub fn all_i32(&self, name: &str) -> Result<Vec<i32>> {
        let mut all = Vec::new();
        for (group, rows) in self.groups().into_iter().enumerate() {
            self.narrow(group, name)?.read(rows, &mut all)?;
        }
        Ok(all)
    }

    /// A whole 64-bit column.
    pub fn all_u64(&self, name: &str) -> Result<Vec<u64>> {
        let mut all = Vec::new();
        for (group, rows) in self.groups().into_iter().enumerate() {
            self.wide(group, name)?.read(rows, &mut all)?;
        }
        Ok(all.into_iter().map(|value| value as u64).collect())
    }

    /// A whole column of bytes.
    pub fn all_bytes(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        for (group, rows) in self.groups().into_iter().enumerate() {
            self.typed::<ByteArrayType>(group, name, Type::BYTE_ARRAY)?.read(rows, &mut all)?;
        }
        Ok(all.iter().map(|value| value.data().to_vec()).collect())
    }

    /// A whole column of text; what is no UTF-8 is replaced.
    pub fn all_text(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.all_bytes(name)?.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect())
    }
}

/// The values of one column of one group, front to back.
pub struct ColumnBatches<T: DataType> {
    reader: ColumnReaderImpl<T>,
}

impl<T: DataType> ColumnBatches<T> {
    /// Appends the next `count` values; an error if there are fewer.
    pub fn read(&mut self, count: usize, into: &mut Vec<T::T>) -> Result<()> {
        let mut missing = count;
        while missing > 0 {
            let (_, values, _) = self.reader.read_records(missing, None, None, into)?;
            if values == 0 {
                return Err(ParquetError::General(format!("{missing} values are missing")));
            }
            missing = missing.saturating_sub(values);
        }
        Ok(())
    }
}
