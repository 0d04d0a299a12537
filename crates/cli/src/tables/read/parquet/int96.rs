//! INT96: timestamps of Impala, Hive and Spark before version 3, stored as a day and the nanoseconds of that day.
//!
//! The decoder wraps values that do not fit in 64 bits. So the values of a column are checked before it is read: its
//! unit is nanoseconds if these can represent all values (1677 to 2262), otherwise microseconds if these represent all
//! values exactly; otherwise the column is refused. Statistics are not used: most writers omit them, because the format
//! does not define an order of INT96. If the Arrow schema of the file states a unit, the values were written in it, and
//! it is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, FieldRef, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use parquet::column::reader::{get_column_reader, get_typed_column_reader};
use parquet::data_type::{Int96, Int96Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use rayon::prelude::*;

use super::super::guarded::guarded;
use super::{Parquet, describe, rows_of};

const JULIAN_DAY_OF_EPOCH: i128 = 2_440_588;
const NANOS_A_DAY: i128 = 86_400_000_000_000;
/// Values that are checked at a time.
const VALUES: usize = 1 << 14;

/// The INT96 leaves, and whether each must be read as microseconds, once that is known.
pub(super) struct Leaves(BTreeMap<usize, OnceLock<Result<bool, String>>>);

impl Leaves {
    pub(super) fn of(metadata: &ParquetMetaData) -> Leaves {
        let leaves = metadata.file_metadata().schema_descr().columns().iter().enumerate();
        let leaves = leaves.filter(|(_, column)| column.physical_type() == Type::INT96);
        Leaves(leaves.map(|(leaf, _)| (leaf, OnceLock::new())).collect())
    }
}

impl Parquet {
    /// The metadata, with types in which these columns (in ascending order) can be read.
    ///
    /// # Errors
    /// The column that cannot be read, and why.
    pub(super) fn metadata_for(&self, places: &[usize]) -> Result<ArrowReaderMetadata, (usize, String)> {
        let descriptor = self.metadata.metadata().file_metadata().schema_descr();
        let mut in_micros = Vec::new();
        for (&leaf, unit) in &self.int96.0 {
            let place = descriptor.get_column_root_idx(leaf);
            if places.binary_search(&place).is_ok()
                && unit.get_or_init(|| self.needs_micros(leaf)).clone().map_err(|reason| (place, reason))?
            {
                in_micros.push((leaf, place));
            }
        }
        let Some(&(_, first)) = in_micros.first() else { return Ok(self.metadata.clone()) };
        let mut leaf = 0;
        let is_micros = |leaf| in_micros.iter().any(|&(of, _)| of == leaf);
        let fields = self.schema().fields().iter().map(|field| in_units(field, &mut leaf, &is_micros));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), self.schema().metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(schema.into());
        ArrowReaderMetadata::try_new(self.metadata.metadata().clone(), options)
            .map_err(|error| (first, describe(&error)))
    }

    /// Whether a column has an INT96 leaf.
    pub(in super::super) fn is_int96(&self, place: usize) -> bool {
        let descriptor = self.metadata.metadata().file_metadata().schema_descr();
        self.int96.0.keys().any(|&leaf| descriptor.get_column_root_idx(leaf) == place)
    }

    /// Whether a leaf has values that nanoseconds cannot represent.
    fn needs_micros(&self, leaf: usize) -> Result<bool, String> {
        let groups = 0..self.metadata.metadata().num_row_groups();
        let found = groups.into_par_iter().map(|group| guarded(|| self.found(group, leaf)));
        let found = found.collect::<Result<Vec<_>, _>>()?.into_iter().fold(Found::default(), Found::and);
        if found.is_far && (found.is_fine || found.is_too_far) {
            let what = if found.is_too_far { "that no type holds" } else { "with parts of a microsecond" };
            return Err(format!("it has INT96 timestamps outside the years 1677 to 2262 {what}"));
        }
        Ok(found.is_far)
    }

    fn found(&self, group: usize, leaf: usize) -> Result<Found, String> {
        let metadata = self.metadata.metadata();
        let column = metadata.file_metadata().schema_descr().column(leaf);
        self.check_codec(group, &[metadata.file_metadata().schema_descr().get_column_root_idx(leaf)])?;
        let group = metadata.row_group(group);
        let pages = SerializedPageReader::new(Arc::new(self.data.clone()), group.column(leaf), rows_of(group), None);
        let pages = pages.map_err(|error| describe(&error))?;
        let mut reader = get_typed_column_reader::<Int96Type>(get_column_reader(column, Box::new(pages)));
        let (mut found, mut values) = (Found::default(), Vec::new());
        let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
        loop {
            values.clear();
            definitions.clear();
            repetitions.clear();
            let read = reader.read_records(VALUES, Some(&mut definitions), Some(&mut repetitions), &mut values);
            let (records, ..) = read.map_err(|error| describe(&error))?;
            found = values.iter().map(Found::of).fold(found, Found::and);
            if records == 0 {
                return Ok(found);
            }
        }
    }
}

/// Properties of timestamps that determine their unit.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Nanoseconds cannot represent some of them.
    is_far: bool,
    /// Microseconds cannot represent some of them.
    is_too_far: bool,
    /// Some of them have a fraction of a microsecond.
    is_fine: bool,
}

impl Found {
    fn of(value: &Int96) -> Found {
        let &[low, high, day] = value.data() else { return Found::default() };
        // The decoder treats the day as signed, too.
        let days = i128::from(day as i32) - JULIAN_DAY_OF_EPOCH;
        let nanos = days * NANOS_A_DAY + i128::from(((u64::from(high) << 32) + u64::from(low)) as i64);
        Found {
            is_far: i64::try_from(nanos).is_err(),
            is_too_far: i64::try_from(nanos.div_euclid(1000)).is_err(),
            is_fine: nanos % 1000 != 0,
        }
    }

    fn and(self, other: Found) -> Found {
        Found {
            is_far: self.is_far || other.is_far,
            is_too_far: self.is_too_far || other.is_too_far,
            is_fine: self.is_fine || other.is_fine,
        }
    }
}

/// The field with microseconds as the unit of the INT96 leaves for which `is_micros` returns true. `leaf` is the number
/// of its first leaf, and is advanced to the first leaf of the next field.
fn in_units(field: &FieldRef, leaf: &mut usize, is_micros: &impl Fn(usize) -> bool) -> FieldRef {
    let mut inner = |field: &FieldRef| in_units(field, leaf, is_micros);
    let data_type = match field.data_type() {
        DataType::List(of) => DataType::List(inner(of)),
        DataType::LargeList(of) => DataType::LargeList(inner(of)),
        DataType::ListView(of) => DataType::ListView(inner(of)),
        DataType::LargeListView(of) => DataType::LargeListView(inner(of)),
        DataType::FixedSizeList(of, length) => DataType::FixedSizeList(inner(of), *length),
        DataType::Map(of, is_sorted) => DataType::Map(inner(of), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => {
            *leaf += 1;
            match other {
                DataType::Timestamp(TimeUnit::Nanosecond, zone) if is_micros(*leaf - 1) => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                other => other.clone(),
            }
        }
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: i64, nanos: u64) -> Found {
        let day = (i128::from(day) + JULIAN_DAY_OF_EPOCH) as u32;
        let mut value = Int96::new();
        value.set_data(nanos as u32, (nanos >> 32) as u32, day);
        Found::of(&value)
    }

    #[test]
    fn limits_are_those_of_64_bits() {
        let nanos = |total: i128| at(total.div_euclid(NANOS_A_DAY) as i64, total.rem_euclid(NANOS_A_DAY) as u64);
        let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
        assert!(!nanos(least).is_far && nanos(least - 1).is_far && !nanos(most).is_far && nanos(most + 1).is_far);
        assert!(nanos(0).is_fine == nanos(1000).is_fine && nanos(1).is_fine && nanos(-1).is_fine);
        // 9999-12-31 and 0001-01-01
        assert!([2_932_896, -719_162].map(|day| at(day, 0)).iter().all(|found| found.is_far && !found.is_too_far));
        assert!(at(110_000_000, 0).is_too_far && !at(106_000_000, 0).is_too_far);
    }
}
