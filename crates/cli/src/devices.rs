//! `koel devices`: lists the devices, whether each can be used, and why not.

use serde_json::{Value, json};

use koel::backend::{DeviceInfo, HashBackend};
use koel::device::{self, devices, opencl_status};

use super::failure::{Result, Verdict};
use super::out;
use super::text::{self, Align, Table};

/// List the devices of this machine
#[derive(clap::Args)]
#[command(after_help = "The first column is the value for --device.\n\
                  Devices of the partial tier build canonical cuckoo, bucketized and signpost\n\
                  tables; the CPU builds other tables for them, and changes all tables.\n\
                  KOEL_OPENCL names another OpenCL library, or `off`.")]
pub struct Args {
    /// Print JSON in place of the table
    #[arg(long)]
    json: bool,
}

/// The name and the limits of a device, as JSON.
pub fn json(info: &DeviceInfo) -> Value {
    json!({
        "id": info.id, "kind": info.kind.name(), "name": info.name, "driver": info.driver, "units": info.units,
        "memory": info.memory, "largest_buffer": info.largest_buffer, "extensions": info.extensions,
        "tier": info.tier.name(), "tier_reason": info.tier.reason(),
    })
}

pub fn run(args: &Args) -> Result<Verdict> {
    koel::threads::ready()?;
    let found = devices();
    let auto = device::auto();
    if args.json {
        let devices: Vec<_> = found
            .iter()
            .map(|device| {
                let mut described = json(&device.info);
                described["usable"] = device.refused.is_none().into();
                described["reason"] = device.refused.clone().into();
                described
            })
            .collect();
        let auto = json!({ "id": auto.backend.info().id, "why": auto.why });
        out::print_json(&json!({ "devices": devices, "auto": auto, "opencl": opencl_status() }))?;
        return Ok(Verdict::Fine);
    }
    let columns = [("device", Align::Left), ("name", Align::Left), ("driver", Align::Left), ("units", Align::Right)];
    let mut table = Table::new(&[&columns[..], &[("memory", Align::Right), ("usable", Align::Left)]].concat());
    for device in &found {
        let info = &device.info;
        table.row([
            info.id.clone(),
            info.name.clone(),
            info.driver.clone(),
            info.units.to_string(),
            info.memory.map(text::bytes).unwrap_or_default(),
            match (&device.refused, info.tier.reason()) {
                (Some(reason), _) => format!("no: {reason}"),
                (None, Some(reason)) => format!("partial tier: {reason}"),
                (None, None) => "yes".into(),
            },
        ]);
    }
    out::print(&format!("{}\nauto:    {}\nOpenCL:  {}", table.render(), auto.why, opencl_status()))?;
    Ok(Verdict::Fine)
}
