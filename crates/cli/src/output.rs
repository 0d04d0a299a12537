//! Options for the rows that a command writes; `tables::write` implements the formats.

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::{Failure, Result};
use super::files::{self, Output};
use super::out;
use crate::tables::write::{Form, Place, stdout_form};
use crate::text::path;

/// The output of rows, and of the summary.
#[derive(Args, Clone)]
#[command(next_help_heading = "Output")]
pub(crate) struct RowOptions {
    /// Output file, format by extension [default: stdout]
    ///
    /// .parquet, .arrow, .arrows; .npy is an array; .ndjson, .jsonl; .tsv and .tab are separated by tabs; .csv, .txt
    /// and names without an extension by commas. All but the first four also with .gz or .zst.
    #[arg(short, long, value_name = "FILE", value_parser = super::options::rows_file())]
    pub(crate) output: Option<PathBuf>,
    /// Format of stdout: csv, tsv, ndjson, arrows
    ///
    /// The default is csv; arrows is an Arrow IPC stream. The format of a file is that of its extension.
    #[arg(long, value_name = "FORMAT", conflicts_with = "output", hide_possible_values = true)]
    #[arg(value_parser = stdout_form())]
    pub(crate) format: Option<Form>,
    /// Write k-mers as letters: A, C, G and T
    #[arg(long)]
    pub(crate) letters: bool,
    /// Print a summary as JSON to stdout
    ///
    /// Requires --output.
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

impl RowOptions {
    /// Where rows are written.
    pub(crate) fn place(&self) -> Place<'_> {
        Place::of(self.output.as_deref(), self.format)
    }

    /// For rows of named columns: refuses an output, this one or one of `others`, that is also an input.
    pub(crate) fn check_tables(&self, inputs: &[&Path], others: &[Output<'_>]) -> Result<()> {
        self.check_letters(None)?;
        self.check_files(inputs, others)
    }

    /// Refuses an output, this one or one of `others`, that is also an input, and a summary in the same stream as rows.
    pub(crate) fn check_files(&self, inputs: &[&Path], others: &[Output<'_>]) -> Result<()> {
        let outputs = [&[("-o", self.output.as_deref())], others].concat();
        files::check(inputs, &outputs)?;
        files::check_summary(self.json, &outputs)
    }

    /// Returns an error if letters are requested for keys that are not k-mers; `k` is the number of letters.
    pub(crate) fn check_letters(&self, k: Option<u32>) -> Result<()> {
        if self.letters && k.is_none() {
            let advice = "omit it";
            return Err(Failure::Input(format!(
                "--letters is for keys that are k-mers, and these are numbers: {advice}"
            )));
        }
        Ok(())
    }

    /// Prints a summary, if the rows did not go to stdout.
    pub(crate) fn summarize(&self, sentence: &str, json: impl FnOnce() -> serde_json::Value) -> Result<()> {
        match &self.output {
            None => {}
            Some(output) if self.json => {
                let mut summary = json();
                summary["output"] = output.display().to_string().into();
                out::print_json(&summary)?;
            }
            Some(output) => out::summary(&format!("{}: {sentence}", path(output))),
        }
        Ok(())
    }
}
