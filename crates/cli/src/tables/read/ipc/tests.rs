//! Files and streams that the decoders of arrow-ipc accept, but read as other values than those that were written.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, DictionaryArray, RecordBatch};
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::{DictionaryTracker, StreamWriter};
use arrow_ipc::{
    Block, Buffer, Endianness, Field, FieldArgs, FieldNode, Footer, FooterArgs, IntArgs, KeyValue, KeyValueArgs,
    Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatchArgs, Schema, SchemaArgs, Type,
};
use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::*;

/// A table of one column of three int64, and what its messages claim.
struct Made {
    endianness: Endianness,
    version: MetadataVersion,
    metadata: Option<&'static str>,
    rows: i64,
    nulls: i64,
}

const PLAIN: Made =
    Made { endianness: Endianness::Little, version: MetadataVersion::V5, metadata: None, rows: 3, nulls: 1 };

impl Made {
    fn schema<'a>(&self, to: &mut FlatBufferBuilder<'a>) -> WIPOffset<Schema<'a>> {
        let int = arrow_ipc::Int::create(to, &IntArgs { bitWidth: 64, is_signed: true });
        let (name, children) = (to.create_string("k"), to.create_vector::<WIPOffset<Field<'_>>>(&[]));
        let field = FieldArgs {
            name: Some(name),
            nullable: true,
            type_type: Type::Int,
            type_: Some(int.as_union_value()),
            children: Some(children),
            ..FieldArgs::default()
        };
        let field = Field::create(to, &field);
        let fields = to.create_vector(&[field]);
        let schema = SchemaArgs { endianness: self.endianness, fields: Some(fields), ..SchemaArgs::default() };
        Schema::create(to, &schema)
    }

    fn stream(&self) -> Vec<u8> {
        let mut stream = self.message(MessageHeader::Schema, 0, |to| self.schema(to).as_union_value());
        stream.extend(self.message(MessageHeader::RecordBatch, 32, |to| {
            let nodes = to.create_vector(&[FieldNode::new(3, self.nulls)]);
            let buffers = to.create_vector(&[Buffer::new(0, 1), Buffer::new(8, 24)]);
            let batch = RecordBatchArgs {
                length: self.rows,
                nodes: Some(nodes),
                buffers: Some(buffers),
                ..RecordBatchArgs::default()
            };
            arrow_ipc::RecordBatch::create(to, &batch).as_union_value()
        }));
        // The second value is null.
        stream.extend([0b101, 0, 0, 0, 0, 0, 0, 0]);
        stream.extend([1i64, 2, 3].iter().flat_map(|number| number.to_le_bytes()));
        stream.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        stream
    }

    fn message(
        &self,
        kind: MessageHeader,
        body: i64,
        header: impl FnOnce(&mut FlatBufferBuilder<'_>) -> WIPOffset<flatbuffers::UnionWIPOffset>,
    ) -> Vec<u8> {
        let mut to = FlatBufferBuilder::new();
        let header = header(&mut to);
        let metadata = self.metadata.map(|key| {
            let key = to.create_string(key);
            let pair = KeyValue::create(&mut to, &KeyValueArgs { key: Some(key), value: None });
            to.create_vector(&[pair])
        });
        let message = MessageArgs {
            version: self.version,
            header_type: kind,
            header: Some(header),
            bodyLength: body,
            custom_metadata: metadata,
        };
        let message = Message::create(&mut to, &message);
        to.finish(message, None);
        let mut bytes = to.finished_data().to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        [&[0xff; 4][..], &(bytes.len() as i32).to_le_bytes(), &bytes].concat()
    }

    fn file(&self) -> Vec<u8> {
        file(&self.stream(), |to| self.schema(to))
    }
}

/// Converts the messages of a stream to a file.
fn file<'a>(stream: &[u8], schema: impl FnOnce(&mut FlatBufferBuilder<'a>) -> WIPOffset<Schema<'a>>) -> Vec<u8> {
    let mut file = [&b"ARROW1\0\0"[..], stream].concat();
    let (mut at, mut dictionaries, mut batches) = (8, Vec::new(), Vec::new());
    while let Some(range) = claims::message(&file[at..]).expect("a message") {
        let message = &file[at..][range.clone()];
        let body = claims::body_length(message).expect("a message");
        let block = Block::new(at as i64, range.end as i32, body as i64);
        match arrow_ipc::root_as_message(message).expect("a message").header_type() {
            MessageHeader::DictionaryBatch => dictionaries.push(block),
            MessageHeader::RecordBatch => batches.push(block),
            _ => {}
        }
        at += range.end + body;
    }
    let mut to = FlatBufferBuilder::new();
    let schema = schema(&mut to);
    let (dictionaries, batches) = (to.create_vector(&dictionaries), to.create_vector(&batches));
    let footer = FooterArgs {
        version: MetadataVersion::V5,
        schema: Some(schema),
        dictionaries: Some(dictionaries),
        recordBatches: Some(batches),
        ..FooterArgs::default()
    };
    let footer = Footer::create(&mut to, &footer);
    to.finish(footer, None);
    let footer = to.finished_data();
    file.extend_from_slice(footer);
    file.extend((footer.len() as i32).to_le_bytes());
    file.extend(b"ARROW1");
    file
}

/// All rows, or an error. Checks that reading a whole table and a stream of batches have the same result.
fn read(bytes: &[u8]) -> std::result::Result<Table, String> {
    let name = Name::of("a.arrow".as_ref());
    let open = || {
        let data = Data::from(bytes.to_vec());
        if bytes.starts_with(b"ARROW1") { Ipc::of_file(&name, data) } else { Ipc::of_stream(&name, data) }
    };
    let whole = open().and_then(|ipc| ipc.read(&name, &[0])).map_err(|failure| failure.to_string());
    let streamed = open().and_then(|ipc| {
        let stream = ipc.stream(&name, &[0])?;
        let schema = stream.schema().clone();
        Ok(Table::of(schema, stream.collect::<Result<Vec<_>>>()?))
    });
    let streamed = streamed.map_err(|failure| failure.to_string());
    match (whole, streamed) {
        (Ok(whole), Ok(streamed)) => {
            assert_eq!(whole.batches, streamed.batches);
            Ok(whole)
        }
        (Err(whole), Err(streamed)) => {
            assert_eq!(whole, streamed);
            Err(whole)
        }
        (whole, streamed) => panic!("{whole:?} and {streamed:?}"),
    }
}

#[test]
fn what_decoders_would_misread_is_refused() {
    for bytes in [PLAIN.stream(), PLAIN.file()] {
        let table = read(&bytes).expect("a table");
        let column = table.batches[0].column(0).as_primitive::<arrow_array::types::Int64Type>();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some(1), None, Some(3)]);
    }
    for (made, part) in [
        (Made { endianness: Endianness::Big, ..PLAIN }, "big-endian"),
        (Made { version: MetadataVersion::V3, ..PLAIN }, "version 3 of the format"),
        (Made { metadata: Some("ARROW:experimental_compression"), ..PLAIN }, "Arrow 0.17"),
        (Made { nulls: -1, ..PLAIN }, "3 rows claims -1 nulls"),
        (Made { nulls: 4, ..PLAIN }, "3 rows claims 4 nulls"),
        (Made { rows: 4, ..PLAIN }, "claims 4 rows"),
        (Made { rows: -1, ..PLAIN }, "claims -1 rows"),
    ] {
        for bytes in [made.stream(), made.file()] {
            let error = read(&bytes).map(|table| table.rows);
            assert!(error.as_ref().is_err_and(|error| error.contains(part)), "{part}: {error:?}");
        }
    }
}

/// All batches of a file share a dictionary; arrow-ipc would read the first batch with the dictionary of the second.
#[test]
fn dictionaries_are_replaced_in_streams_alone() {
    let batch = |texts: [&str; 2]| {
        let column: Arc<dyn Array> = Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>());
        RecordBatch::try_from_iter([("k", column)]).expect("a column")
    };
    let batches = [batch(["a", "b"]), batch(["c", "d"])];
    let schema = batches[0].schema();
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &schema).expect("memory");
    batches.iter().try_for_each(|batch| writer.write(batch)).and_then(|()| writer.finish()).expect("memory");
    assert_eq!(read(&stream).expect("a stream").batches, batches);
    let file = file(&stream, |to| {
        let mut tracker = DictionaryTracker::new(false);
        IpcSchemaEncoder::new().with_dictionary_tracker(&mut tracker).schema_to_fb_offset(to, &schema)
    });
    assert!(read(&file).is_err_and(|error| error.contains("a dictionary is replaced")));
}
