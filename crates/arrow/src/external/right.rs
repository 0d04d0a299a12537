//! Right rows in memory, an index of them on each device that looks keys up, and which of them are found there.

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBufferBuilder;
use koel::{Any, JoinKind, NO_ROW};

use super::Side;
use super::lengths::Lengths;
use crate::encode::NullEquality;
use crate::error::Result;
use crate::join::RightKeys;
use crate::keys::{Column, Keys};

/// Right rows.
pub(super) struct RightRows {
    pub(super) columns: Vec<Column>,
    keys: Keys,
    /// Of the columns that come out.
    pub(super) lengths: Lengths,
}

impl RightRows {
    /// Of which the columns at these places come out.
    pub(super) fn new(side: &Side, batches: Vec<RecordBatch>, shown: &[usize]) -> Result<Self> {
        let columns = side.columns(batches)?;
        let keys = Keys::new(side.keys.iter().map(|&key| columns[key].clone()).collect())?;
        let lengths = Lengths::of(shown.iter().map(|&at| columns[at].chunks()), keys.len());
        Ok(RightRows { columns, keys, lengths })
    }
}

/// Right rows, and the index of one device.
pub(super) struct Indexed<'a> {
    pub(super) rows: &'a RightRows,
    pub(super) index: RightKeys,
    /// Which of them a left row has found here, where that matters.
    seen: Option<BooleanBufferBuilder>,
}

impl<'a> Indexed<'a> {
    pub(super) fn new(device: &Any, rows: &'a RightRows, how: JoinKind, nulls: NullEquality) -> Result<Self> {
        let index = RightKeys::new(device, &rows.keys, nulls)?;
        let seen = how.keeps_right().then(|| bits(rows.keys.len()));
        Ok(Indexed { rows, index, seen })
    }

    /// Notes that left rows have found these.
    pub(super) fn see(&mut self, rows: &[u32]) {
        if let Some(seen) = &mut self.seen {
            rows.iter().filter(|&&row| row != NO_ROW).for_each(|&row| seen.set_bit(row as usize, true));
        }
    }

    /// The rows that no left row has found on any of these devices, where they come out.
    pub(super) fn unseen(of_devices: &[Indexed<'_>]) -> Vec<u32> {
        let seen: Vec<&BooleanBufferBuilder> = of_devices.iter().filter_map(|of| of.seen.as_ref()).collect();
        let rows = seen.first().map_or(0, |seen| seen.len());
        (0..rows).filter(|&row| !seen.iter().any(|seen| seen.get_bit(row))).map(|row| row as u32).collect()
    }
}

/// So many bits, all off.
pub(super) fn bits(len: usize) -> BooleanBufferBuilder {
    let mut bits = BooleanBufferBuilder::new(len);
    bits.append_n(len, false);
    bits
}
