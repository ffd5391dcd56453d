//! Parquet files with the columns of `rows`, uncompressed or compressed by Snappy or Zstandard.
//! Amounts are texts or numbers: CPU in cores, memory in bytes.

use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use anyhow::{Context as _, anyhow, bail, ensure};
use csv::StringRecord;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::rows::{COLUMNS, Columns, Rows};

/// First bytes of a file.
pub(super) const MAGIC: [u8; 4] = *b"PAR1";

thread_local! {
    /// Whether panics of this thread are reported as errors.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn read(file: File, rows: &mut Rows) -> anyhow::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                usual(panic);
            }
        }));
    });
    IS_GUARDED.set(true);
    // The library panics on some damaged files.
    let read = panic::catch_unwind(AssertUnwindSafe(|| read_rows(file, rows)));
    IS_GUARDED.set(false);
    read.unwrap_or_else(|_| Err(anyhow!("the file is damaged")))
}

fn read_rows(file: File, rows: &mut Rows) -> anyhow::Result<()> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema();
    let mut header = StringRecord::new();
    let (mut fields, mut units) = (Vec::new(), Vec::new());
    for field in schema.get_fields() {
        let name = field.name().trim().to_lowercase();
        if COLUMNS.contains(&name.as_str()) {
            let unit = unit(field).with_context(|| format!("column {name:?}"))?;
            header.push_field(&name);
            fields.push(field.clone());
            units.push(unit);
        }
    }
    let columns = Columns::new(&header)?;
    let projection = Type::group_type_builder(schema.name()).with_fields(fields);
    let found = reader.get_row_iter(Some(projection.build()?))?;
    for (index, found) in found.enumerate() {
        let mut row = StringRecord::new();
        for ((_, field), unit) in found?.into_columns().iter().zip(&units) {
            row.push_field(&text(field, *unit)?);
        }
        rows.add(&columns, &row)
            .with_context(|| format!("row {}", index + 1))?;
    }
    Ok(())
}

/// Ticks per second of a column of timestamps; `None` for another column. Only types that the library
/// converts are read.
fn unit(field: &Type) -> anyhow::Result<Option<i64>> {
    ensure!(field.is_primitive(), "lists and structures are not read");
    let info = field.get_basic_info();
    if let Some(LogicalType::Timestamp(timestamp)) = info.logical_type_ref() {
        return Ok(Some(match timestamp.unit {
            TimeUnit::MILLIS => 1000,
            TimeUnit::MICROS => 1_000_000,
            TimeUnit::NANOS => 1_000_000_000,
        }));
    }
    match (field.get_physical_type(), info.converted_type()) {
        (_, ConvertedType::TIMESTAMP_MILLIS) | (PhysicalType::INT96, _) => Ok(Some(1000)),
        (_, ConvertedType::TIMESTAMP_MICROS) => Ok(Some(1_000_000)),
        (
            PhysicalType::INT32 | PhysicalType::INT64,
            ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64
            | ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64,
        )
        | (PhysicalType::FLOAT | PhysicalType::DOUBLE, _)
        | (PhysicalType::BYTE_ARRAY, ConvertedType::NONE | ConvertedType::UTF8) => Ok(None),
        (physical, converted) => bail!("the type {physical} ({converted}) is not read"),
    }
}

/// The text that a CSV file would have.
fn text(field: &Field, ticks_per_second: Option<i64>) -> anyhow::Result<String> {
    let number = match field {
        Field::Null => return Ok(String::new()),
        Field::Str(text) => return Ok(text.clone()),
        Field::Bytes(bytes) => return Ok(bytes.as_utf8()?.to_owned()),
        Field::Float(number) => return Ok(number.to_string()),
        Field::Double(number) => return Ok(number.to_string()),
        Field::Byte(number) => i64::from(*number),
        Field::Short(number) => i64::from(*number),
        Field::Int(number) => i64::from(*number),
        Field::UByte(number) => i64::from(*number),
        Field::UShort(number) => i64::from(*number),
        Field::UInt(number) => i64::from(*number),
        Field::ULong(number) => i64::try_from(*number)?,
        Field::Long(number) | Field::TimestampMillis(number) | Field::TimestampMicros(number) => {
            *number
        }
        other => bail!("the value {other} is not read"),
    };
    Ok(number.div_euclid(ticks_per_second.unwrap_or(1)).to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::{Compression, ZstdLevel};
    use parquet::column::writer::ColumnWriter;
    use parquet::data_type::ByteArray;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::usage::ContainerUsage;

    /// A file with a row per time: the workload, its CPU in cores and its memory in bytes.
    fn write(schema: &str, compression: Compression, times: &[i64]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let schema = Arc::new(parse_message_type(schema).expect("a schema"));
        let properties = WriterProperties::builder().set_compression(compression);
        let properties = Arc::new(properties.build());
        let target = file.reopen().expect("the file");
        let mut writer = SerializedFileWriter::new(target, schema, properties).expect("a writer");
        let mut group = writer.next_row_group().expect("a row group");
        while let Some(mut column) = group.next_column().expect("a column") {
            let count = times.len();
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(column) => column.write_batch(times, None, None),
                ColumnWriter::DoubleColumnWriter(column) => {
                    column.write_batch(&vec![0.25; count], None, None)
                }
                ColumnWriter::Int32ColumnWriter(column) => {
                    column.write_batch(&vec![1 << 20; count], None, None)
                }
                ColumnWriter::ByteArrayColumnWriter(column) => {
                    column.write_batch(&vec![ByteArray::from("deployment/web"); count], None, None)
                }
                _ => panic!("a type of the schema"),
            }
            .expect("written");
            column.close().expect("closed");
        }
        group.close().expect("closed");
        writer.close().expect("closed");
        file
    }

    fn read(file: &tempfile::NamedTempFile) -> anyhow::Result<Vec<ContainerUsage>> {
        let mut rows = Rows::default();
        rows.read_file(file.path())?;
        Ok(rows.finish())
    }

    fn check(time: &str, times: &[i64], compression: Compression) {
        let schema = format!(
            "message usage {{ {time}; REQUIRED BYTE_ARRAY Workload (UTF8); REQUIRED DOUBLE cpu; \
             REQUIRED INT32 memory; REQUIRED BYTE_ARRAY note (UTF8); }}"
        );
        let containers = read(&write(&schema, compression, times)).expect("containers");
        let [web] = containers.as_slice() else {
            panic!("{containers:?}");
        };
        assert_eq!(web.id.to_string(), "deployment/web", "{time}");
        assert_eq!(web.pods[0].cpu, [(300, 250.0), (600, 250.0)], "{time}");
        assert_eq!(web.pods[0].memory, [(300, 1.0), (600, 1.0)], "{time}");
    }

    #[test]
    fn times_are_seconds_or_timestamps_of_any_unit() {
        let zstd = Compression::ZSTD(ZstdLevel::default());
        check("REQUIRED INT64 time", &[300, 600], Compression::SNAPPY);
        let millis = "REQUIRED INT64 time (TIMESTAMP(MILLIS,true))";
        check(millis, &[300_000, 600_999], zstd);
        let micros = "REQUIRED INT64 time (TIMESTAMP(MICROS,false))";
        check(
            micros,
            &[300_000_000, 600_000_000],
            Compression::UNCOMPRESSED,
        );
        let nanos = "REQUIRED INT64 time (TIMESTAMP(NANOS,false))";
        check(nanos, &[300_000_000_000, 600_000_000_000], zstd);
        let old = "REQUIRED INT64 time (TIMESTAMP_MILLIS)";
        check(old, &[300_000, 600_000], Compression::SNAPPY);
    }

    #[test]
    fn errors_name_the_file_and_the_column() {
        let check = |file: tempfile::NamedTempFile, expected: &str| {
            let error = format!("{:#}", read(&file).expect_err("an error"));
            let name = file.path().display().to_string();
            assert_eq!(error.strip_prefix(&name), Some(expected), "{error}");
        };
        let write = |fields: &str| {
            let schema = format!("message usage {{ {fields} }}");
            write(&schema, Compression::UNCOMPRESSED, &[300])
        };
        check(
            write("REQUIRED INT64 time;"),
            ": there is no column \"workload\"",
        );
        check(
            write("REQUIRED INT64 time (DECIMAL(9,2));"),
            ": column \"time\": the type INT64 (DECIMAL) is not read",
        );
        check(
            write("REQUIRED INT64 time (TIME(MICROS,true));"),
            ": column \"time\": the type INT64 (TIME_MICROS) is not read",
        );
        check(
            write("REQUIRED INT64 time; REQUIRED BYTE_ARRAY workload; REQUIRED BYTE_ARRAY cpu;"),
            ": row 1: column \"cpu\": \"deployment/web\" is not a quantity",
        );
    }

    #[test]
    fn damaged_files_are_refused() {
        let schema = "message usage { REQUIRED INT64 time; REQUIRED BYTE_ARRAY workload; REQUIRED DOUBLE cpu; }";
        let file = write(schema, Compression::SNAPPY, &[300, 600, 900]);
        let bytes = std::fs::read(file.path()).expect("bytes");
        for length in 4..bytes.len() {
            std::fs::write(file.path(), &bytes[..length]).expect("written");
            assert!(read(&file).is_err(), "{length} of {} bytes", bytes.len());
        }
        // A wrong byte may go unnoticed where no checksum covers it, but never ends the program.
        for place in 4..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0xff;
            std::fs::write(file.path(), &wrong).expect("written");
            let _ = read(&file);
        }
    }
}
