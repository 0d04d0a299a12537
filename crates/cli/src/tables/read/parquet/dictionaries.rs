//! Key columns of text that the file stores in dictionaries are read as dictionaries: the texts of a row group are
//! hashed and compared once, and its rows are integers.
//!
//! This applies to columns whose pages all contain codes, according to the footer. A dictionary that grew too large is
//! followed by pages of texts, and the decoder would have to build a dictionary for each batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;

use super::Parquet;

/// The most bytes of a dictionary in the file. With more texts, a batch has few rows for each of them.
const BYTES: i64 = 64 << 10;

impl Parquet {
    /// The metadata, with these columns read as dictionaries if they are stored as such.
    pub(super) fn with_dictionaries(&self, metadata: ArrowReaderMetadata, keys: &[usize]) -> ArrowReaderMetadata {
        let schema = metadata.schema();
        let field = |(place, field): (usize, &Arc<Field>)| match decoded_type(field.data_type()) {
            Some(of) if keys.contains(&place) && self.has_small_dictionaries(place) => {
                Arc::new(field.as_ref().clone().with_data_type(dictionary_of(of)))
            }
            _ => Arc::clone(field),
        };
        let fields: Vec<_> = schema.fields().iter().enumerate().map(field).collect();
        if fields[..] == schema.fields()[..] {
            return metadata;
        }
        let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(schema.into());
        ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).unwrap_or(metadata)
    }

    /// Whether all row groups store this column, which has no fields, as codes of small dictionaries.
    fn has_small_dictionaries(&self, place: usize) -> bool {
        let metadata = self.metadata.metadata();
        let leaves = metadata.file_metadata().schema_descr();
        let Some(leaf) = (0..leaves.num_columns()).find(|&leaf| leaves.get_column_root_idx(leaf) == place) else {
            return false;
        };
        let is_small = |chunk: &ColumnChunkMetaData| {
            let has_codes_alone = chunk.page_encoding_stats_mask().is_some_and(|pages| {
                pages.is_only(Encoding::RLE_DICTIONARY) || pages.is_only(Encoding::PLAIN_DICTIONARY)
            });
            let start = chunk.dictionary_page_offset();
            has_codes_alone && start.is_some_and(|start| chunk.data_page_offset().saturating_sub(start) <= BYTES)
        };
        metadata.row_groups().iter().all(|group| group.columns().get(leaf).is_some_and(is_small))
    }
}

/// The type of the values when texts of this type are decoded as dictionaries; the decoder does not support views
/// there.
fn decoded_type(of: &DataType) -> Option<DataType> {
    Some(match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => of.clone(),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        _ => return None,
    })
}

fn dictionary_of(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(values))
}

/// The field that is returned: the values of a dictionary have the type that the column has in the file.
pub(super) fn returned_field(decoded: &Arc<Field>, file: &Field) -> Arc<Field> {
    match decoded.data_type() {
        DataType::Dictionary(_, values) if decoded_type(file.data_type()).as_ref() == Some(values) => {
            Arc::new(decoded.as_ref().clone().with_data_type(dictionary_of(file.data_type().clone())))
        }
        _ => Arc::clone(decoded),
    }
}

/// Converts a decoded array to the field that is returned.
pub(super) fn returned_array(decoded: &ArrayRef, field: &Field) -> ArrayRef {
    if decoded.data_type() == field.data_type() {
        return Arc::clone(decoded);
    }
    let Some(dictionary) = decoded.as_dictionary_opt::<Int32Type>() else { return Arc::clone(decoded) };
    let values: ArrayRef = match dictionary.values().data_type() {
        DataType::Utf8 => Arc::new(StringViewArray::from(dictionary.values().as_string::<i32>())),
        DataType::Binary => Arc::new(BinaryViewArray::from(dictionary.values().as_binary::<i32>())),
        _ => return Arc::clone(decoded),
    };
    Arc::new(dictionary.with_values(values))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use arrow_array::{LargeBinaryArray, RecordBatch, StringArray};
    use arrow_select::concat::concat_batches;
    use koel_arrow::external::result_type;
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::tables::TableReading;
    use crate::tables::read::Source;

    /// Columns with few different texts and with nulls, and a column with many.
    fn texts(rows: usize) -> RecordBatch {
        let few = |row: usize| (!row.is_multiple_of(11)).then(|| format!("a text with number {}", row % 7));
        let many = (0..rows).map(|row| format!("{row} is a text that occurs once"));
        let columns: [(&str, ArrayRef); 5] = [
            ("text", Arc::new((0..rows).map(few).collect::<StringArray>())),
            ("view", Arc::new((0..rows).map(few).collect::<StringViewArray>())),
            (
                "bytes",
                Arc::new((0..rows).map(few).map(|text| text.map(String::into_bytes)).collect::<LargeBinaryArray>()),
            ),
            ("many", Arc::new(StringArray::from_iter_values(many))),
            ("other", Arc::new((0..rows).map(few).collect::<StringArray>())),
        ];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    }

    #[test]
    fn keys_with_few_texts_are_dictionaries_of_the_same_values() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("texts.parquet");
        let table = texts(5000);
        let few_bytes = WriterProperties::builder().set_dictionary_page_size_limit(1 << 12);
        let properties = few_bytes.set_data_page_row_count_limit(500).set_write_batch_size(100).build();
        let file = File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).expect("a writer");
        for start in [0, 3000] {
            writer.write(&table.slice(start, 3000.min(5000 - start))).expect("rows");
            writer.flush().expect("a row group");
        }
        writer.close().expect("a footer");
        let source = Source::open(&path, &TableReading::default()).unwrap_or_else(|failure| panic!("{failure}"));
        let keys = ["text", "view", "bytes", "many"].map(String::from);
        let stream = source.stream_of(None, &keys).unwrap_or_else(|failure| panic!("{failure}"));
        let schema = Arc::clone(stream.schema());
        let is_dictionary = |field: &Arc<Field>| matches!(field.data_type(), DataType::Dictionary(..));
        assert_eq!(schema.fields().iter().map(is_dictionary).collect::<Vec<_>>(), [true, true, true, false, false]);
        let batches: Vec<RecordBatch> =
            stream.map(|batch| batch.unwrap_or_else(|failure| panic!("{failure}"))).collect();
        let found = concat_batches(&schema, &batches).expect("one schema");
        for (field, column) in table.schema().fields().iter().zip(table.columns()) {
            let found = found.column_by_name(field.name()).expect("a column");
            assert_eq!(result_type(found.data_type()), *field.data_type(), "{}", field.name());
            let rows = arrow_array::UInt32Array::from_iter_values(0..5000);
            let plain = koel_arrow::Column::new("", Arc::clone(found)).plain().and_then(|plain| plain.take(&rows));
            assert_eq!(&plain.expect("values"), column, "{}", field.name());
        }
    }
}
