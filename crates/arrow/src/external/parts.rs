//! Partitions rows by the hashes of their keys into parts that are small enough to be processed in memory.
//!
//! ```text
//! batch    partitioned stably; the rows of each part become a block of the spill file
//! level    the 5 bits of the hash that determine the part; a part is partitioned again by other bits
//! ```
//!
//! Equal keys are in the same part, and the rows of a part remain in order, because batches arrive in order and the
//! rows of a block are in order. The last column of each row is its number, by which results are sorted (merge.rs).
//!
//! Parts may be large: if half of all rows have the same key, they are in the same part at every level. Such keys get
//! separate parts ([`Parts::heavy`]), which the callers process in pieces.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use rayon::prelude::*;

use super::flat::flattened;
use super::hash::Hashing;
use super::spill::{Block, Encoded, Spill};
use super::{Limit, Side, batch_of, memory};
use crate::error::Result;
use crate::sizes::{row_bytes, rows_within};
use crate::take::take_batch;

/// The number of bits of a hash that a level uses, and the resulting number of parts.
const BITS: u32 = 5;
const FAN_OUT: usize = 1 << BITS;

/// The number of levels after which all bits of a hash are used.
const LEVELS: u32 = u64::BITS / BITS;

/// The rows of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) blocks: Vec<Block>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// The least and the greatest hash of the rows.
    ends: Option<(u64, u64)>,
}

impl Part {
    /// Whether all rows have the same hash, and so almost certainly the same key.
    pub(super) fn has_one_key(&self) -> bool {
        self.ends.is_none_or(|(least, greatest)| least == greatest)
    }
}

/// All parts of one side, and their file.
pub(super) struct Parts {
    pub(super) spill: Spill,
    pub(super) parts: Vec<Part>,
    level: u32,
    /// Hashes with a separate part each. These parts follow the others.
    own: Vec<u64>,
}

impl Parts {
    pub(super) fn new(limit: &Limit) -> Result<Parts> {
        Parts::of_level(limit, 0, Vec::new())
    }

    fn of_level(limit: &Limit, level: u32, own: Vec<u64>) -> Result<Parts> {
        Ok(Parts { spill: Spill::new(limit.folder())?, parts: vec![Part::default(); FAN_OUT + own.len()], level, own })
    }

    /// Partitions the rows of a numbered batch.
    pub(super) fn partition(&mut self, side: &Side, batch: &RecordBatch, hashing: Hashing) -> Result<()> {
        let Some(&first) = numbers(batch).first() else { return Ok(()) };
        // Memory for the encoded rows of all parts, and for the rows that are being encoded.
        memory::check(3 * row_bytes(batch) as u64)?;
        let hashes = hashing.hashes(&side.keys_of(batch)?, side.scales.as_deref(), first)?;
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.parts.len()];
        let part_of = |hash: u64| match self.own.iter().position(|&own| own == hash) {
            Some(own) => FAN_OUT + own,
            None => (hash >> (self.level * BITS)) as usize % FAN_OUT,
        };
        for (row, &hash) in (0..).zip(&hashes) {
            rows[part_of(hash)].push(row);
        }
        let encode = |rows: &Vec<u32>| match rows.is_empty() {
            true => Ok(None),
            false => Encoded::of(&take_batch(batch, &UInt32Array::from(rows.clone()))?).map(Some),
        };
        let encoded: Vec<Option<Encoded>> = rows.par_iter().map(encode).collect::<Result<_>>()?;
        for ((part, encoded), rows) in self.parts.iter_mut().zip(&encoded).zip(&rows) {
            let Some(encoded) = encoded else { continue };
            let block = self.spill.write(encoded)?;
            part.rows += block.rows as u64;
            part.bytes += block.bytes();
            part.blocks.push(block);
            for &row in rows {
                let hash = hashes[row as usize];
                part.ends =
                    Some(part.ends.map_or((hash, hash), |(least, greatest)| (least.min(hash), greatest.max(hash))));
            }
        }
        Ok(())
    }

    /// Whether a part can be partitioned again.
    pub(super) fn can_be_partitioned(&self, part: usize) -> bool {
        self.level + 1 < LEVELS && !self.parts[part].has_one_key()
    }

    /// Partitions a part again by other bits. The rows of each of the hashes `own` get a separate part.
    pub(super) fn partition_again(
        &self,
        part: usize,
        side: &Side,
        hashing: Hashing,
        limit: &Limit,
        own: &[u64],
    ) -> Result<Parts> {
        let mut parts = Parts::of_level(limit, self.level + 1, own.to_vec())?;
        // As many blocks at a time as fit in a batch, so that blocks do not become smaller and smaller.
        for blocks in self.parts[part].blocks.chunk_by(batched(limit.batch_bytes())) {
            let batches = blocks.iter().map(|block| self.spill.read(block)).collect::<Result<Vec<_>>>()?;
            parts.partition(side, &concat_batches(&side.schema, &batches)?, hashing)?;
        }
        Ok(parts)
    }

    /// The hashes whose share of the rows of the part is so large that partitioning again would not separate them,
    /// estimated by a sample.
    pub(super) fn heavy(&self, part: usize, side: &Side, hashing: Hashing) -> Result<Vec<u64>> {
        const BLOCKS: usize = 16;
        let Parts { spill, parts, .. } = self;
        let blocks = &parts[part].blocks;
        let (mut of_hash, mut rows) = (HashMap::<u64, usize>::new(), 0);
        for block in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS).max(1)) {
            let batch = spill.read(block)?;
            let first = numbers(&batch).first().copied().unwrap_or(0);
            let hashes = hashing.hashes(&side.keys_of(&batch)?, side.scales.as_deref(), first)?;
            hashes.into_iter().for_each(|hash| *of_hash.entry(hash).or_default() += 1);
            rows += batch.num_rows();
        }
        let mut heavy: Vec<u64> =
            of_hash.into_iter().filter(|&(_, of)| of * FAN_OUT > 2 * rows).map(|(hash, _)| hash).collect();
        heavy.sort_unstable();
        Ok(heavy)
    }
}

/// Whether two blocks are read together: adjacent blocks of at most `most` bytes in total, or a single block.
pub(super) fn batched(most: u64) -> impl FnMut(&Block, &Block) -> bool {
    let mut bytes = 0;
    move |block, next| {
        bytes += block.bytes();
        let goes_on = bytes + next.bytes() <= most;
        if !goes_on {
            bytes = 0;
        }
        goes_on
    }
}

/// The schema with a last column for the row number.
pub(super) fn numbered_schema(schema: &Schema) -> SchemaRef {
    let number = Arc::new(Field::new("", DataType::UInt64, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
}

/// The schema of rows under a limit: without dictionaries if rows may be spilled.
pub(super) fn schema_within(limit: &Limit, schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| {
        Arc::new(field.as_ref().clone().with_data_type(limit.result_type(field.data_type())).with_nullable(true))
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Splits a batch by the bytes of its rows without dictionaries. The pieces have this schema, which may have no
/// dictionaries. Each piece is created when it is requested, so that only one of them is in memory at a time.
pub(super) fn pieces(schema: SchemaRef, batch: RecordBatch, bytes: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let rows = rows_within(&rest, bytes).0.max(1).min(rest.num_rows());
        if rows == 0 {
            return None;
        }
        let piece = rest.slice(0, rows);
        rest = rest.slice(rows, rest.num_rows() - rows);
        let column = |(column, field): (&ArrayRef, &Arc<Field>)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => flattened(column),
        };
        let columns = piece.columns().iter().zip(schema.fields()).map(column).collect::<Result<Vec<_>>>();
        Some(columns.and_then(|columns| batch_of(&schema, columns, rows)))
    })
}

/// A batch with the row numbers as its last column, starting with `first`.
pub(super) fn with_numbers(schema: &SchemaRef, batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
    let numbers = UInt64Array::from_iter_values(first..first + batch.num_rows() as u64);
    let columns = batch.columns().iter().cloned().chain([Arc::new(numbers) as _]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// The row numbers of a numbered batch.
pub(super) fn numbers(batch: &RecordBatch) -> &[u64] {
    batch.columns().last().map_or(&[], |numbers| numbers.as_primitive::<UInt64Type>().values())
}
