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

/// Maximum rows per byte of a table. If all rows are equal, holdup writes 97, because each 20,000 values of a
/// column have their own page and header. Rewriting such a table with larger pages gives about 2,000.
const ROWS_PER_BYTE_MAX: u64 = 4096;

/// Values that are read at a time: the library makes room for as many as it is asked for, whether they are there or not.
const PIECE: usize = 1 << 16;

type Result<T> = std::result::Result<T, ParquetError>;

impl TableReader {
    /// Opens a file, or bytes of one.
    ///
    /// # Errors
    /// It is no Parquet file, or one that promises more rows than it can have.
    pub fn open<C: ChunkReader + 'static>(source: C) -> Result<TableReader> {
        let bytes = source.len();
        let table = TableReader { reader: Box::new(SerializedFileReader::new(source)?) };
        let rows = table.groups().into_iter().fold(0, |all: u64, rows| all.saturating_add(rows as u64));
        if rows > ROWS_PER_BYTE_MAX.saturating_mul(bytes) {
            return Err(ParquetError::General(format!("{rows} rows in {bytes} bytes")));
        }
        Ok(table)
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

    /// A whole text column. Invalid UTF-8 is replaced.
    pub fn all_text(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.all_bytes(name)?.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect())
    }
}

/// The values of one column of one group, front to back.
pub struct ColumnBatches<T: DataType> {
    reader: ColumnReaderImpl<T>,
}

impl<T: DataType> ColumnBatches<T> {
    /// Appends the next `count` values. An error if there are fewer.
    pub fn read(&mut self, count: usize, into: &mut Vec<T::T>) -> Result<()> {
        let mut missing = count;
        while missing > 0 {
            let (_, values, _) = self.reader.read_records(missing.min(PIECE), None, None, into)?;
            if values == 0 {
                return Err(ParquetError::General(format!("{missing} values are missing")));
            }
            missing = missing.saturating_sub(values);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bytes::Bytes;
    use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};

    use super::super::schema::{Column, Kind};
    use super::super::{TableWriter, Values, schema};
    use super::*;

    /// A table of groups of so many rows that are all the same.
    fn table(name: &str, table: &'static str, groups: &[usize]) -> Bytes {
        let dir = std::env::temp_dir().join(format!("holdup-parquet-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let schema = schema(table);
        let mut writer = TableWriter::create(&dir, schema).unwrap();
        for rows in groups {
            let column = |column: &Column| match column.kind {
                Kind::Time | Kind::U64 => Values::Wide(vec![7; *rows]),
                Kind::U32 | Kind::I32 => Values::Narrow(vec![7; *rows]),
                Kind::Text | Kind::Bytes => Values::Bytes(vec![vec![7]; *rows]),
            };
            writer.group(schema.columns.iter().map(column).collect()).unwrap();
        }
        writer.finish().unwrap();
        let bytes = fs::read(dir.join(format!("{table}.parquet"))).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        bytes.into()
    }

    #[test]
    fn tables_of_equal_rows_are_within_the_row_limit() {
        for (name, groups) in [
            ("steals", &[1 << 18][..]),
            ("steals", &[1 << 18; 2]),
            ("slices", &[1 << 18; 2]),
            ("task_windows", &[500_000]),
        ] {
            let bytes = table("same", name, groups);
            let rows: usize = groups.iter().sum();
            let read =
                TableReader::open(bytes.clone()).unwrap().all_u32(schema(name).columns[0].name).unwrap();
            assert!(read.len() == rows && read.iter().all(|value| *value == 7));
            assert!(rows as u64 * 4 <= ROWS_PER_BYTE_MAX * bytes.len() as u64, "{rows} in {}", bytes.len());
        }
    }

    #[test]
    fn more_rows_than_a_file_can_have_are_refused() {
        let bytes = table("lies", "steals", &[3]);
        let known = ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap();
        let of = |rows: i64| {
            let group = known.row_group(0).clone().into_builder().set_num_rows(rows).build().unwrap();
            let told = known.clone().into_builder().set_row_groups(vec![group]).build();
            let mut lies = bytes.to_vec();
            ParquetMetaDataWriter::new(&mut lies, &told).finish().unwrap();
            TableReader::open(Bytes::from(lies))
        };
        assert_eq!(of(3).unwrap().all_u32("thread").unwrap(), [7; 3]);
        assert!(of(1 << 40).err().is_some_and(|error| error.to_string().contains("1099511627776 rows")));
        assert!(of(i64::MAX).is_err());
        let error = of(100_000).unwrap().all_u32("thread").unwrap_err().to_string();
        assert_eq!(error, "Parquet error: 99997 values are missing");
    }
}
