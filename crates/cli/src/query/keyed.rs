//! One table and its key columns: the common code of `koel groupby --by` and `koel unique --on`.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use koel::IdOrder;
use koel::device::Any;
use koel_arrow::NullKeys;
use koel_arrow::external::{GroupBy, Of};

use super::Memory;
use super::columns::{places, wanted_columns};
use super::inputs::{Opened, Resources};
use crate::failure::{Failure, Result};
use crate::input::{Inputs, ReadOptions};
use crate::options::{self, TableDevices};
use crate::output::RowOptions;
use crate::tables::TableReading;
use crate::tables::read::Source;
use crate::tables::read::rows::{self, Payload, VALUE};

/// Whether rows with a null in their key are dropped.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct NullRows {
    /// Drop rows with a null in their key
    ///
    /// Without this option, null is a key like any other.
    #[arg(long)]
    drop_nulls: bool,
}

impl NullRows {
    pub(super) fn keys(&self) -> NullKeys {
        if self.drop_nulls { NullKeys::Drop } else { NullKeys::Group }
    }

    pub(super) fn is_given(&self) -> bool {
        self.drop_nulls
    }
}

/// Which keys are returned, and in which order.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KeyOptions {
    /// Drop keys with fewer than N rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_count: Option<u32>,
    /// Order of keys: first, ascending
    ///
    /// In the order in which they first appear, or ascending.
    #[arg(long, value_name = "ORDER", default_value = "first", value_parser = options::id_order())]
    #[arg(hide_possible_values = true)]
    pub(crate) ids: IdOrder,
}

/// How the rows of files are read.
#[derive(Clone, Copy)]
pub(crate) enum Reading<'a> {
    /// Named columns.
    Named(&'a TableReading),
    /// Rows without column names, and the values that accompany the keys; stored in a temporary file if `is_spooled`.
    Rows { options: &'a ReadOptions, payload: Payload, is_spooled: bool },
}

/// A table, of one file or of several, its key columns, and where the result goes.
pub(crate) struct KeyedTable<'a> {
    pub(crate) inputs: &'a [PathBuf],
    pub(crate) by: &'a [String],
    pub(crate) order: IdOrder,
    pub(crate) reading: Reading<'a>,
    pub(crate) output: &'a RowOptions,
    pub(crate) device: &'a TableDevices,
}

impl KeyedTable<'_> {
    /// Opens the devices and the files. Columns that are neither keys nor `aggregated` are written unchanged.
    pub(super) fn source(&self, aggregated: &[String]) -> Result<(Vec<Any>, Source)> {
        // Start the requested number of threads before they read the first file.
        let devices = self.device.open()?;
        let reading = match self.reading {
            Reading::Named(reading) => reading,
            Reading::Rows { options, payload, is_spooled } => {
                let inputs = Inputs::open(self.inputs)?;
                Inputs::check(&[&inputs], options)?;
                self.output.check_letters(inputs.letters(options))?;
                let rows = rows::read(inputs, options, payload, is_spooled)?;
                let (keys, _) = rows.keys();
                return Ok((devices, rows.into_source(keys, VALUE)));
            }
        };
        let mut source = Source::open_all(self.inputs, reading)?;
        reading.check(&[&source])?;
        if self.output.place().is_text() {
            source.keep_text(&wanted_columns(aggregated, self.by));
        }
        Ok((devices, source))
    }

    /// The memory and the devices for this table.
    pub(super) fn resources<'b>(&self, memory: &'b Memory, devices: &'b [Any]) -> Resources<'b> {
        Resources { memory, devices, are_several: self.device.are_several() }
    }

    /// Opens columns of the table, and returns whether morsels are grouped first. `group_by` is the grouping without
    /// columns, and `aggregates` returns the aggregates of a table with the given schema.
    pub(super) fn columns<'b>(
        &self,
        resources: &Resources<'_>,
        source: &'b Source,
        columns: Vec<String>,
        group_by: GroupBy<'_>,
        aggregates: impl Fn(&Schema) -> Result<Vec<Of>>,
    ) -> Result<(Opened<'b>, bool)> {
        let opened = resources.open(source, columns)?;
        let reduces = |sample: RecordBatch| {
            let (by, aggregates) = (places(sample.schema_ref(), self.by)?, aggregates(sample.schema_ref())?);
            Ok::<_, Failure>(GroupBy { by: &by, aggregates: &aggregates, ..group_by }.reduces(&sample)?)
        };
        let is_partial = resources.are_streams() || opened.sample()?.map_or(Ok(false), reduces)?;
        Ok((if is_partial { opened } else { opened.at_once()? }, is_partial))
    }
}
