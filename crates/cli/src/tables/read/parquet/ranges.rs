//! The ranges of a column's values in the row groups, as the footer states them.

use arrow_schema::{DataType, TimeUnit};
use koel_arrow::external::KeyRange;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::Parquet;

impl Parquet {
    /// The range of an integer, date or timestamp column in each row group, if all of them are known.
    pub(in super::super) fn ranges(&self, place: usize) -> Option<Vec<Option<KeyRange>>> {
        let metadata = self.metadata.metadata();
        let leaves = metadata.file_metadata().schema_descr();
        let leaf = (0..leaves.num_columns()).find(|&leaf| leaves.get_column_root_idx(leaf) == place)?;
        let of = self.schema().fields().get(place)?.data_type();
        metadata.row_groups().iter().map(|group| range(of, group.columns().get(leaf)?)).collect()
    }
}

/// The range of a chunk of a column of this type, if it is known.
fn range(of: &DataType, chunk: &ColumnChunkMetaData) -> Option<Option<KeyRange>> {
    let statistics = chunk.statistics()?;
    let nulls = statistics.null_count_opt().and_then(|nulls| i64::try_from(nulls).ok());
    if nulls == Some(chunk.num_values()) {
        return Some(None);
    }
    // Old writers compared unsigned integers as signed ones.
    if statistics.is_min_max_deprecated() {
        return None;
    }
    let range = match (statistics, of) {
        (Statistics::Int32(values), DataType::Int32 | DataType::Date32) => ends(values, i128::from),
        (Statistics::Int32(values), DataType::UInt32) => ends(values, |value| i128::from(value.cast_unsigned())),
        (Statistics::Int64(values), DataType::UInt64) => ends(values, |value| i128::from(value.cast_unsigned())),
        (Statistics::Int64(values), DataType::Int64) => ends(values, i128::from),
        // Seconds are stored in other units.
        (Statistics::Int64(values), DataType::Timestamp(unit, _)) if *unit != TimeUnit::Second => {
            ends(values, i128::from)
        }
        _ => None,
    };
    range.map(Some)
}

fn ends<T: Copy>(values: &ValueStatistics<T>, widened: impl Fn(T) -> i128) -> Option<KeyRange> {
    let (least, greatest) = (widened(*values.min_opt()?), widened(*values.max_opt()?));
    // Otherwise the writer compared values in another order.
    (least <= greatest).then_some((least, greatest))
}
