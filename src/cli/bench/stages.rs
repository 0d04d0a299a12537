//! How long each stage of a build takes: a kernel each on OpenCL, a parallel pass each on the CPU.

use std::time::Duration;

use serde_json::{Value, json};

use koel::backend::{Any, HashBackend, Runs, StageTime};
use koel::table::TableBuilder;
use koel::{Kind, Scheme};

use super::measure::{Setup, median};
use crate::cli::failure::Result;
use crate::cli::text::{self, Align, Table};

/// The stages of builds of one table.
pub(super) struct Staged {
    device: String,
    scheme: &'static str,
    kind: Kind,
    n: u32,
    load: f64,
    /// In the order in which they are first used.
    stages: Vec<StageTime>,
}

impl Staged {
    /// Builds from pairs on the device, as often as everything is measured; of each stage the median counts.
    pub(super) fn of<S: Scheme>(
        builder: &TableBuilder<S>,
        device: &Any,
        setup: &Setup<'_>,
        kind: Kind,
    ) -> Result<Staged>
    where
        Any: Runs<S>,
    {
        let (keys, values) = (device.upload(&setup.data.keys)?, device.upload(&setup.data.values)?);
        let (mut runs, mut load) = (Vec::new(), 0.0);
        for _ in 0..setup.args.repeats {
            device.finish()?;
            let (table, stages) = device.stages(|| builder.build_on(device, &keys, &values))?;
            load = table.load_factor();
            runs.push(stages);
        }
        // Runs are alike, but nobody promises it: a stage that a run does not have took no time there.
        let mut stages: Vec<StageTime> = Vec::new();
        for stage in runs.iter().flatten() {
            if stages.iter().all(|known| known.name != stage.name) {
                let time = |run: &Vec<StageTime>| run.iter().find(|other| other.name == stage.name).map(|s| s.time);
                let time = median(runs.iter().map(|run| time(run).unwrap_or_default()).collect());
                stages.push(StageTime { time, ..stage.clone() });
            }
        }
        Ok(Staged { device: device.info().id.clone(), scheme: S::NAME, kind, n: setup.n, load, stages })
    }

    /// A table of all stages of all builds.
    pub(super) fn text(all: &[Staged]) -> String {
        let mut table = Table::new(&[
            ("stages of a build", Align::Left),
            ("n", Align::Right),
            ("load", Align::Right),
            ("on", Align::Left),
            ("stage", Align::Left),
            ("time", Align::Right),
            ("ns a pair", Align::Right),
        ]);
        for staged in all {
            let sum = ("all", staged.stages.iter().map(|stage| stage.time).sum());
            let rows = staged.stages.iter().map(|stage| (stage.name, stage.time)).chain([sum]);
            for (name, time) in rows {
                table.row([
                    format!("{} {}", staged.scheme, staged.kind),
                    text::grouped(staged.n.into()),
                    format!("{:.3}", staged.load),
                    staged.device.clone(),
                    name.into(),
                    text::seconds(time),
                    format!("{:.3}", staged.each(time)),
                ]);
            }
        }
        table.render()
    }

    /// Nanoseconds of a time for each pair.
    fn each(&self, time: Duration) -> f64 {
        1e9 * time.as_secs_f64() / f64::from(self.n.max(1))
    }

    pub(super) fn json(&self) -> Value {
        let stages = self.stages.iter().map(|stage| {
            json!({ "name": stage.name, "seconds": stage.time.as_secs_f64(), "ns_per_pair": self.each(stage.time) })
        });
        json!({
            "device": self.device, "scheme": self.scheme, "kind": self.kind.name(), "n": self.n, "load": self.load,
            "stages": stages.collect::<Vec<_>>(),
        })
    }
}
