//! `koel completions`, `koel man`: completion scripts and manual pages, generated from the options.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use super::failure::{Failure, Result, Verdict};
use super::{Cli, out, text};

const EXAMPLES: &str = "\
Examples:
  koel completions bash > /etc/bash_completion.d/koel
  koel completions zsh > ~/.zfunc/_koel
  koel completions fish > ~/.config/fish/completions/koel.fish";

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// bash, elvish, fish, powershell or zsh
    #[arg(hide_possible_values = true)]
    shell: Shell,
}

/// Write manual pages into a folder
///
/// koel.1, and one page for each command.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  koel man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// An existing folder
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "koel", &mut script);
    out::print(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Fine)
}

pub(crate) fn man(args: &ManArgs) -> Result<Verdict> {
    if !args.folder.is_dir() {
        return Err(Failure::Input(format!("{}: there is no such folder: create it first", text::path(&args.folder))));
    }
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), &args.folder)
        .map_err(|error| Failure::io(&args.folder, &error))?;
    Ok(Verdict::Fine)
}
