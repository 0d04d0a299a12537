//! The time of each stage of a build: a kernel each on OpenCL, a parallel pass each on the CPU.

use std::time::Duration;

use serde_json::{Value, json};

use koel::backend::{HashBackend, Probe, Runs, StageTime};
use koel::device::Any;
use koel::table::TableBuilder;
use koel::{Kind, Scheme};

use super::measure::{Row, Setup, median, wall};
use koel_cli::failure::Result;
use koel_cli::scheme::{self, Described};
use koel_cli::text::{self, Align, Table};

/// The name of the host's part of a build whose other stages run on the device.
const HOST: &str = "host";

/// The stages of builds of one table, or of something else that was timed.
pub(super) struct Staged {
    /// `map`, `set`, ..
    table: &'static str,
    /// Empty for the build of a map.
    what: &'static str,
    device: String,
    scheme: &'static str,
    kind: Option<Kind>,
    /// Names and values.
    parameters: Vec<(&'static str, Value)>,
    n: u32,
    /// The number of pairs, or of queries, rows or values, by which the time of a stage is divided.
    counted: usize,
    load: Option<f64>,
    /// `None` for operations that are timed as rows.
    restarts: Option<u32>,
    host_built: bool,
    /// In the order in which they are first used.
    stages: Vec<StageTime>,
    /// The median of whole builds, which is not the sum of the medians.
    all: Duration,
}

impl Staged {
    /// Builds from pairs on the device, as often as requested; the median of each stage counts.
    pub(super) fn of<S: Described + Scheme<Key = u32, Value = u32>>(
        builder: &TableBuilder<S>,
        device: &Any,
        setup: &Setup<'_>,
    ) -> Result<Staged>
    where
        Any: Runs<S>,
    {
        let (keys, values) = (device.upload(&setup.data.keys)?, device.upload(&setup.data.values)?);
        let host_built = builder.scheme().host_built();
        let mut runs = Vec::new();
        let (mut parameters, mut load, mut restarts) = (Vec::new(), None, 0);
        for _ in 0..setup.args.repeats {
            device.finish()?;
            let ((table, mut stages), wall) = wall(|| Ok(device.stages(|| builder.build_on(device, &keys, &values))?))?;
            // On a CPU, the times of stages are wall time. On a device, they do not include the work of the host, which
            // takes the rest of the wall time.
            if host_built && !matches!(device, Any::Cpu(_)) {
                let counted = stages.iter().map(|stage| stage.time).sum();
                stages.push(StageTime { name: HOST, time: wall.saturating_sub(counted) });
            }
            (load, restarts) = (Some(table.load_factor()), table.restarts());
            parameters = S::describe(table.plan());
            runs.push(stages);
        }
        let (stages, all) = medians(&runs);
        let (device, scheme, kind) = (device.info().id.clone(), builder.scheme().name(), Some(builder.scheme().kind()));
        let (table, what, n) = ("map", "", setup.n);
        let (counted, restarts) = (n as usize, Some(restarts));
        Ok(Staged {
            table,
            what,
            device,
            scheme,
            kind,
            parameters,
            n,
            counted,
            load,
            restarts,
            host_built,
            stages,
            all,
        })
    }

    /// The stages of a row's runs, with their times; `counted` is the number of items of a run.
    pub(super) fn of_row(row: &Row, scheme: &'static str, counted: usize, runs: &[Vec<StageTime>]) -> Staged {
        let (stages, all) = medians(runs);
        Staged {
            table: row.table,
            what: row.what,
            device: row.device.clone(),
            scheme,
            kind: row.kind,
            parameters: Vec::new(),
            n: row.n,
            counted,
            load: row.load,
            restarts: None,
            host_built: row.host_built,
            stages,
            all,
        }
    }

    /// Sets the name of the table.
    pub(super) fn called(self, table: &'static str) -> Staged {
        Staged { table, ..self }
    }

    /// A table of all stages of all builds.
    pub(super) fn text(all: &[Staged]) -> String {
        let mut table = Table::new(&[
            ("stages of a build", Align::Left),
            ("what", Align::Left),
            ("parameters", Align::Left),
            ("n", Align::Right),
            ("load", Align::Right),
            ("on", Align::Left),
            ("restarts", Align::Right),
            ("stage", Align::Left),
            ("time", Align::Right),
            ("ns a pair", Align::Right),
        ]);
        for staged in all {
            let rows = staged.stages.iter().map(|stage| (stage.name, stage.time)).chain([("all", staged.all)]);
            let host_built = if staged.host_built { " (host-built)" } else { "" };
            for (name, time) in rows {
                let kind = staged.kind.map(|kind| format!(" {kind}")).unwrap_or_default();
                let of = if staged.table == "map" { String::new() } else { format!("{} ", staged.table) };
                table.row([
                    format!("{of}{}{kind}{host_built}", staged.scheme),
                    staged.what.into(),
                    scheme::listed(&staged.parameters),
                    text::grouped(staged.n.into()),
                    staged.load.map(|load| format!("{load:.3}")).unwrap_or_default(),
                    staged.device.clone(),
                    staged.restarts.map(|restarts| restarts.to_string()).unwrap_or_default(),
                    name.into(),
                    text::seconds(time),
                    format!("{:.3}", staged.each(time)),
                ]);
            }
        }
        table.render()
    }

    /// Nanoseconds per pair, or per counted item.
    fn each(&self, time: Duration) -> f64 {
        1e9 * time.as_secs_f64() / self.counted.max(1) as f64
    }

    pub(super) fn json(&self) -> Value {
        let stages = self.stages.iter().map(|stage| {
            json!({ "name": stage.name, "seconds": stage.time.as_secs_f64(), "ns_per_pair": self.each(stage.time) })
        });
        json!({
            "table": self.table, "what": if self.what.is_empty() { "build" } else { self.what }, "device": self.device,
            "scheme": self.scheme, "kind": self.kind.map(Kind::name), "n": self.n, "load": self.load,
            "parameters": scheme::json(&self.parameters), "restarts": self.restarts, "host_built": self.host_built,
            "stages": stages.collect::<Vec<_>>(), "seconds": self.all.as_secs_f64(),
        })
    }
}

/// The median of each stage over several runs, in the order of first use; and the median of whole runs.
pub(super) fn medians(runs: &[Vec<StageTime>]) -> (Vec<StageTime>, Duration) {
    // Runs usually have the same stages; a stage that a run does not have took no time there.
    let mut stages: Vec<StageTime> = Vec::new();
    for stage in runs.iter().flatten() {
        if stages.iter().all(|known| known.name != stage.name) {
            let time = |run: &Vec<StageTime>| run.iter().find(|other| other.name == stage.name).map(|s| s.time);
            let time = median(runs.iter().map(|run| time(run).unwrap_or_default()).collect());
            stages.push(StageTime { time, ..stage.clone() });
        }
    }
    let all = median(runs.iter().map(|run| run.iter().map(|stage| stage.time).sum()).collect());
    (stages, all)
}
