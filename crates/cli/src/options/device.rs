//! Options that select devices and threads.

use std::path::Path;

use clap::Args;

use koel::backend::HashBackend;
use koel::device::{Any, choose};
use koel::threads;

use crate::failure::{Failure, Result};

/// The number of threads.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Device")]
pub struct Threads {
    /// CPU threads [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=threads::most() as i64))]
    threads: Option<u32>,
}

impl Threads {
    /// Sets the number of threads of all parallel work in this process, including the CPU device. They are started
    /// here, because rayon panics if it cannot start them at their first use.
    pub fn apply(&self) -> Result<()> {
        let threads = self.threads.map_or_else(threads::requested, |threads| Ok(threads as usize))?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        let which = self.threads.map_or("the".into(), |threads| threads.to_string());
        pool.map_err(|error| Failure::Input(format!("starting {which} threads: {error}; give fewer by --threads")))
    }
}

/// The device of a command that uses only one.
#[derive(Args, Clone)]
#[command(next_help_heading = "Device")]
pub struct OneDevice {
    /// auto, cpu, opencl:N or opencl:NAME
    ///
    /// `auto` is the CPU: reading and writing files take longer than what a GPU would save. `koel devices` lists the
    /// devices.
    #[arg(long, default_value = "auto")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

impl OneDevice {
    /// Opens the device.
    pub fn open(&self) -> Result<Any> {
        self.threads.apply()?;
        one_device(for_tables(&self.device))
    }
}

/// The devices of a table, which may be several if the table is sharded.
#[derive(Args, Clone)]
#[command(next_help_heading = "Device")]
pub struct SomeDevices {
    /// auto, cpu, gpus, opencl:N, opencl:NAME
    ///
    /// `gpus` is all GPUs of OpenCL. With --shards, several devices may be given, separated by commas; shards are
    /// assigned to them in turn.
    ///
    /// `auto` is the best GPU of OpenCL, or the CPU if there is none; for inputs of less than 1 MiB it is always the
    /// CPU. `koel devices` lists the devices.
    #[arg(long, value_name = "DEVICES", default_value = "auto", value_delimiter = ',')]
    device: Vec<String>,
    #[command(flatten)]
    threads: Threads,
}

impl SomeDevices {
    /// Opens the named devices if the table is sharded, and otherwise one device. `inputs` are the files to read;
    /// `may_have_shards` selects the advice if several devices are named for a table without shards.
    pub fn open(&self, inputs: &[&Path], in_shards: bool, may_have_shards: bool) -> Result<Vec<Any>> {
        self.threads.apply()?;
        // Several devices are an error even if this machine has only one of them.
        if !in_shards && are_several(&self.device) {
            let advice = if may_have_shards {
                "a table on several devices must be in shards: give --shards P, at least twice the number of devices, \
                 or name one device"
            } else {
                "this kind of table is built on one device: name one, like cpu or opencl:0"
            };
            return Err(Failure::Input(format!("--device {}: {advice}", self.device.join(","))));
        }
        let mut found = several_devices(&self.device, inputs)?;
        if !in_shards {
            found.truncate(1);
        }
        Ok(found)
    }
}

/// The devices of a command on rows, which several devices can share.
#[derive(Args, Clone)]
#[command(next_help_heading = "Device")]
pub struct TableDevices {
    /// auto, cpu, gpus, opencl:N, opencl:NAME
    ///
    /// `gpus` is all GPUs of OpenCL. Several devices, separated by commas, share the rows; the result is the same as on
    /// one device.
    ///
    /// `auto` is the CPU: reading and writing files take longer than what a GPU would save. `koel devices` lists the
    /// devices.
    #[arg(long, value_name = "DEVICES", default_value = "auto", value_delimiter = ',')]
    device: Vec<String>,
    #[command(flatten)]
    threads: Threads,
}

impl TableDevices {
    /// Whether the option names several devices, even if this machine has only one of them.
    pub fn are_several(&self) -> bool {
        are_several(&self.device)
    }

    /// Opens the devices, one or more.
    pub fn open(&self) -> Result<Vec<Any>> {
        self.threads.apply()?;
        let names: Vec<String> = self.device.iter().map(|name| for_tables(name).into()).collect();
        several_devices(&names, &[])
    }
}

/// The value of `--device` that selects these devices.
pub fn ids(devices: &[Any]) -> String {
    devices.iter().map(|device| device.info().id.as_str()).collect::<Vec<_>>().join(",")
}

/// The size of inputs from which on `auto` may load an OpenCL driver, which takes 0.2 s and 80 MB.
const WORTH_A_DRIVER: u64 = 1 << 20;

/// Opens the devices with these names for work on these inputs. Each name selects one or more devices, or is an error;
/// a repeated name selects its device again.
pub fn several_devices(names: &[String], inputs: &[&Path]) -> Result<Vec<Any>> {
    let mut all = Vec::new();
    for name in names {
        all.extend(choose(for_inputs(name, inputs), None)?);
    }
    Ok(all)
}

/// The name of the device to use for tables in files.
fn for_tables(name: &str) -> &str {
    if name == "auto" { "cpu" } else { name }
}

fn for_inputs<'a>(name: &'a str, inputs: &[&Path]) -> &'a str {
    if name == "auto" && are_small(inputs) { "cpu" } else { name }
}

fn are_several(names: &[String]) -> bool {
    names.len() > 1 || names.iter().any(|name| names_several(name))
}

/// Whether a name selects all devices of a kind (there may be only one).
fn names_several(name: &str) -> bool {
    ["all", "gpus"].contains(&name)
}

/// Whether all inputs are regular files, and small: the length of a pipe is unknown.
fn are_small(inputs: &[&Path]) -> bool {
    let bytes =
        inputs.iter().map(|path| std::fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len()));
    bytes.sum::<Option<u64>>().is_some_and(|bytes| bytes < WORTH_A_DRIVER)
}

/// Opens the one device with this name, for commands that use only one.
pub fn one_device(name: &str) -> Result<Any> {
    let several = || Failure::Input("this command uses one device: give auto, cpu or opencl:0".into());
    let mut found = choose(name, None).map_err(|error| if name.contains(',') { several() } else { error.into() })?;
    // `all` and `gpus` are an error even if this machine has only one such device.
    if names_several(name) { Err(several()) } else { Ok(found.swap_remove(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_worth_its_while_for_large_files_and_for_pipes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (small, large) = (folder.path().join("small"), folder.path().join("large"));
        std::fs::write(&small, "1,2").expect("a file");
        std::fs::write(&large, vec![b'1'; WORTH_A_DRIVER as usize - 3]).expect("a file");
        assert!(are_small(&[]) && are_small(&[&small]) && are_small(&[&small, &small]) && are_small(&[&large]));
        assert!(!are_small(&[&small, &large]));
        for other in [Path::new("-"), &folder.path().join("missing"), folder.path()] {
            assert!(!are_small(&[&small, other]), "{other:?}");
        }
    }
}
