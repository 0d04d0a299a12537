//! The command `koel`, as a library: what its program, `koel-bench` and the fuzz targets share.
//!
//! Hidden modules are public for these users only. Programs use the crate `koel`; the API of this crate is not stable.
//!
//! ```text
//! devices, build, lookup, info, join, groupby, unique, dedup, convert, verify/   one module per command: options, code
//! completions.rs  completion scripts for shells, and manual pages
//! options.rs      options that several commands share; options/table.rs: those of the one table that a command builds
//! structure.rs    map, sharded map, set, compacting and multivalue tables: what a file can contain
//! scheme/         converts option values to a scheme, with the registry; the only place that names schemes
//! input/          tables as text, .npy, FASTA and FASTQ, streamed;   number/   types of numbers, and columns of them
//! tables/         tables of any columns: Parquet, Arrow IPC, CSV, .npy, read and written by all threads
//! output.rs       options of output rows; files.rs: outputs must not be inputs; signals.rs: cleans up after signals
//! memory.rs       errors when memory runs short
//! failure.rs, out.rs, text.rs, answers.rs, progress.rs      errors, stdout, tables, checking answers, progress bars
//! ```
//!
//! Exit codes: 0 fine, 1 a check failed, 2 an error. Errors go to stderr and begin with `koel: `. A closed stdout is no
//! error.

#[doc(hidden)]
pub mod answers;
mod build;
mod completions;
mod convert;
mod dedup;
#[doc(hidden)]
pub mod devices;
#[doc(hidden)]
pub mod failure;
mod files;
mod groupby;
mod info;
#[doc(hidden)]
pub mod input;
mod join;
mod lookup;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod number;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod out;
mod output;
#[doc(hidden)]
pub mod progress;
mod query;
#[doc(hidden)]
pub mod scheme;
mod signals;
#[doc(hidden)]
pub mod structure;
#[doc(hidden)]
pub mod tables;
#[doc(hidden)]
pub mod text;
mod unique;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::{Failure, Verdict};

const EXAMPLES: &str = "\
Examples:
  koel verify                                 check every device of this machine
  koel build pairs.csv -o pairs.koel          32-bit or 64-bit keys and values
  koel lookup pairs.koel queries.csv          `key,value`, empty for a miss
  koel build genome.fa --kmer 16 -o kmers.koel --table multi
  koel join orders.csv items.csv --on id      Parquet, Arrow IPC, CSV or .npy
  koel groupby sales.csv --by city --agg sum:price,count
  koel unique people.csv --on city --counts   distinct keys, and rows per key
  koel dedup web.jsonl --on text -o out.jsonl without duplicate documents
  koel join left.csv right.csv                rows `key,value` without names
  koel convert orders.csv orders.parquet      a table in another format

`koel COMMAND -h` lists the options, `koel COMMAND --help` explains them.
Exit codes: 0 success, 1 a check failed, 2 an error.";

/// Bulk hash tables for CPUs and GPUs, with the same bytes on every device.
#[derive(Parser)]
#[command(name = "koel", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Suppress progress and summaries
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    Devices(devices::Args),
    Verify(verify::Args),
    Build(build::Args),
    Lookup(lookup::Args),
    Info(info::Args),
    Join(join::Args),
    Groupby(groupby::Args),
    Unique(unique::Args),
    Isin(query::isin::Args),
    Dedup(dedup::Args),
    Convert(convert::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli: Cli = match parsed() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if cli.quiet {
        out::be_quiet();
    }
    signals::remove_parts_at_the_end();
    ended(match cli.command {
        None => out::print(&Cli::command().render_help().to_string()).map(|()| Verdict::Fine),
        Some(Command::Devices(args)) => devices::run(&args),
        Some(Command::Verify(args)) => verify::run(&args),
        Some(Command::Build(args)) => build::run(&args),
        Some(Command::Lookup(args)) => lookup::run(&args),
        Some(Command::Info(args)) => info::run(&args),
        Some(Command::Join(args)) => join::run(&args),
        Some(Command::Groupby(args)) => groupby::run(&args),
        Some(Command::Unique(args)) => unique::run(&args),
        Some(Command::Isin(args)) => query::isin::run(&args),
        Some(Command::Dedup(args)) => dedup::run(&args),
        Some(Command::Convert(args)) => convert::run(&args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man(args)) => completions::man(&args),
    })
}

/// Parses the arguments of the process. Prints help and versions, and reports errors.
///
/// # Errors
/// The exit code, if the process is to end.
pub fn parsed<P: Parser>() -> Result<P, ExitCode> {
    // A negative number is a wrong value of an option, not an option.
    let command = P::command().mut_subcommands(|command| command.allow_negative_numbers(true));
    let matches = command.allow_negative_numbers(true).try_get_matches();
    matches.and_then(|matches| P::from_arg_matches(&matches)).map_err(|error| {
        if error.use_stderr() {
            let message = error.render().to_string();
            out::complain(message.strip_prefix("error: ").unwrap_or(&message).trim_end());
            return ExitCode::from(2);
        }
        // Help or a version. Errors of buffered output are lost when the process exits, so stdout is flushed here.
        let printed = error.print().and_then(|()| io::stdout().flush());
        ended(printed.map(|()| Verdict::Fine).map_err(|error| out::stdout_failed(&error)))
    })
}

/// Reports how a command ended, as its exit code and on stderr.
pub fn ended(outcome: failure::Result<Verdict>) -> ExitCode {
    match outcome {
        Ok(Verdict::Fine) | Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Ok(Verdict::CheckFailed) => ExitCode::from(1),
        Err(failure) => {
            out::complain(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}
