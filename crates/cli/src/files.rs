//! The files of one command: checks that no output is also an input, and that no two outputs are the same file.
//!
//! Files are compared by device and inode (by canonical name on systems other than Unix), so links, hard links and
//! redirected streams are detected. Terminals and `/dev/null` may be used several times. An input that does not exist
//! is not an error here: opening it reports that.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use koel::file;

use super::failure::{Failure, Result};
use super::text;

/// An option that names an output, and its value; without a value the output is stdout.
pub(crate) type Output<'a> = (&'static str, Option<&'a Path>);

/// Refuses outputs that would overwrite an input or each other, or whose folder does not exist, before anything is read
/// or written. `-` is stdin, which can be only one of the inputs.
pub(crate) fn check(inputs: &[&Path], outputs: &[Output<'_>]) -> Result<()> {
    if inputs.iter().filter(|input| input.as_os_str() == "-").count() > 1 {
        return Err(Failure::Input("only one of the files can be stdin: name the others".into()));
    }
    for (i, &(option, output)) in outputs.iter().enumerate() {
        output.map_or(Ok(()), folder_of)?;
        let Some(identity) = output.map_or_else(of_stdout, of) else { continue };
        let named = output.map_or("stdout".into(), |output| format!("{option} {}", text::path(output)));
        for &input in inputs {
            let (there, shown) = match input.to_str() {
                Some("-") => (stdin(), "stdin".into()),
                _ => (input.metadata().ok(), text::path(input)),
            };
            let Some(there) = there else { continue };
            if of_metadata(&there, input).as_ref() == Some(&identity) {
                let lost = match output {
                    None if there.is_file() && there.len() == 0 => "the shell has already emptied it",
                    _ => "it would be overwritten",
                };
                return Err(Failure::Input(format!("{named} is the input {shown}, and {lost}: write to another file")));
            }
        }
        let same = |&(_, other): &Output<'_>| other.map_or_else(of_stdout, of).as_ref() == Some(&identity);
        if let Some((other, _)) = outputs[..i].iter().find(|&other| same(other)) {
            return Err(Failure::Input(format!("{other} and {option} name one file: give each its own")));
        }
    }
    Ok(())
}

/// Refuses an output whose folder does not exist.
fn folder_of(output: &Path) -> Result<()> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing = |folder: &&Path| folder.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    match folder.filter(missing) {
        Some(folder) => {
            Err(Failure::Input(format!("{}: there is no such folder: create it first", text::path(folder))))
        }
        None => Ok(()),
    }
}

/// Refuses the summary of `--json` if an output goes to stdout too.
pub(crate) fn check_summary(json: bool, outputs: &[Output<'_>]) -> Result<()> {
    for &(option, output) in outputs {
        if let Some(output) = output.filter(|output| json && is_stdout(output)) {
            return Err(Failure::Input(format!(
                "{option} {}: this goes to stdout, as does the summary of --json: omit one of them",
                text::path(output)
            )));
        }
    }
    Ok(())
}

/// Whether an output is stdout, so that the summary must go elsewhere.
pub(crate) fn is_stdout(output: &Path) -> bool {
    file::is_stdout(output) || of_stdout().is_some_and(|stdout| of(output) == Some(stdout))
}

#[derive(PartialEq)]
enum Identity {
    #[cfg(unix)]
    Inode { device: u64, inode: u64 },
    /// Where a file would be created.
    Name(PathBuf),
}

fn of(path: &Path) -> Option<Identity> {
    match path.metadata() {
        Ok(there) => of_metadata(&there, path),
        Err(_) => file::lands_at(path).map(Identity::Name),
    }
}

#[cfg(unix)]
fn of_metadata(there: &Metadata, _: &Path) -> Option<Identity> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let holds_bytes = there.is_file() || there.file_type().is_fifo();
    holds_bytes.then(|| Identity::Inode { device: there.dev(), inode: there.ino() })
}

#[cfg(not(unix))]
fn of_metadata(there: &Metadata, path: &Path) -> Option<Identity> {
    if there.is_file() { path.canonicalize().ok().map(Identity::Name) } else { None }
}

fn of_stdout() -> Option<Identity> {
    of_metadata(&stdout()?, Path::new(""))
}

#[cfg(unix)]
fn of_stream(stream: impl std::os::fd::AsFd) -> Option<Metadata> {
    std::fs::File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()
}

#[cfg(unix)]
fn stdin() -> Option<Metadata> {
    of_stream(std::io::stdin())
}

#[cfg(unix)]
fn stdout() -> Option<Metadata> {
    of_stream(std::io::stdout())
}

/// Not available on this system.
#[cfg(not(unix))]
fn stdin() -> Option<Metadata> {
    None
}

#[cfg(not(unix))]
fn stdout() -> Option<Metadata> {
    None
}
