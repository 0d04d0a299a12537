//! Plots of the rows of an ordinary bench: one for each operation and each axis with at least two measured places.
//!
//! The other properties in which rows differ are in the names of series. If there are too many series, they are divided
//! among plots, and only the greatest number of pairs and of rows per key is drawn.

use std::io;

use koel::backend::HashBackend;
use koel::device::Any;

use super::plot::{Panel, Plot, Series};
use super::{Drawing, capital, count, drawing, file_name, how};
use crate::Args;
use crate::figure::Axis;
use crate::measure::Row;
use koel_cli::text;

/// The maximum number of series of a panel that readers can distinguish well.
const MOST: usize = 8;
/// From this ratio of rates on, the axis is logarithmic: the least rate would otherwise be too close to zero.
const TOO_FAR_APART: f64 = 40.0;

/// The axes over which rows are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    Pairs,
    Load,
    Hits,
    Copies,
}

impl Over {
    /// In the order in which plots are divided by them.
    const ALL: [Over; 4] = [Over::Copies, Over::Load, Over::Pairs, Over::Hits];

    fn axis(self) -> Axis {
        match self {
            Over::Pairs => Axis::log("pairs", ""),
            Over::Load => Axis::linear("load", ""),
            Over::Hits => Axis::linear("queries that hit", "%"),
            Over::Copies => Axis::log("rows a key", ""),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Over::Pairs => "n",
            Over::Load => "load",
            Over::Hits => "hits",
            Over::Copies => "multiplicity",
        }
    }

    /// The requested value.
    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Over::Pairs => Some(row.n.into()),
            Over::Load => row.requested_load,
            Over::Hits => row.hits.map(f64::from),
            Over::Copies => row.copies.map(f64::from),
        }
    }

    /// The place of a row on the axis; for loads, the actual load of the table.
    fn place(self, row: &Row) -> Option<f64> {
        if self == Over::Load { row.load } else { self.of(row) }
    }

    fn say(self, value: f64) -> String {
        match self {
            Over::Pairs => format!("n = {}", count(value as u64)),
            Over::Load => format!("load {value}"),
            Over::Hits => format!("{value}% hits"),
            Over::Copies => format!("{} a key", text::counted(value as u64, "row")),
        }
    }

    /// All values that rows have on this axis, without duplicates, ascending.
    fn values(self, rows: &[&Row]) -> Vec<f64> {
        let mut values: Vec<f64> = rows.iter().filter_map(|row| self.of(row)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        values
    }
}

/// The location of keys and answers; other tables on the host are drawn in both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Device,
    Host,
}

impl Side {
    fn has(self, row: &Row) -> bool {
        match row.place {
            "device" => self == Side::Device,
            "host" => true,
            _ => self == Side::Host,
        }
    }
}

/// Whether an ordinary bench will measure at two places of an axis.
pub(crate) fn has_axis(args: &Args) -> bool {
    let two = |mut numbers: Vec<f64>| {
        numbers.sort_unstable_by(f64::total_cmp);
        numbers.dedup();
        numbers.len() > 1
    };
    let hits = args.data.given_hits().iter().copied().map(f64::from);
    two(args.data.sizes().into_iter().map(f64::from).collect())
        || two(args.load.clone())
        || two(hits.collect())
        || two(args.data.spreads().into_iter().map(|(copies, _)| copies.into()).collect())
}

/// Draws all plots that are possible with these rows.
pub(crate) fn of_rows(rows: &[Row], devices: &[Any], args: &Args) -> io::Result<Vec<Drawing>> {
    let heads: Vec<_> = devices.iter().map(|device| (device.info().id.clone(), device.info().to_string())).collect();
    plots(rows, &heads, &how(args)).iter().map(|plot| drawing(&plot.name, plot.svg())).collect()
}

/// `devices`: their names in rows, and their names for readers.
fn plots(rows: &[Row], devices: &[(String, String)], how: &str) -> Vec<Plot> {
    // Limits are drawn with the rates that they limit.
    let rows: Vec<&Row> =
        rows.iter().filter(|row| !row.what.starts_with("random ") && !row.what.starts_with("transfer ")).collect();
    let mut things: Vec<(&str, &str)> = Vec::new();
    for row in &rows {
        if !things.contains(&(row.table, row.what)) {
            things.push((row.table, row.what));
        }
    }
    let mut plots = Vec::new();
    for over in [Over::Pairs, Over::Load, Over::Hits, Over::Copies] {
        for &(table, what) in &things {
            for side in [Side::Device, Side::Host] {
                let of =
                    |row: &&&Row| (row.table, row.what) == (table, what) && side.has(row) && over.of(row).is_some();
                let chosen: Vec<&Row> = rows.iter().filter(of).copied().collect();
                // The host's tables are drawn once if there are no others.
                if side == Side::Device || chosen.iter().any(|row| row.place != "host") {
                    let drawing = Division { table, what, side, over, devices, how };
                    drawing.divide(&chosen, &Over::ALL, &mut plots);
                }
            }
        }
    }
    plots
}

/// Rows of one operation over one axis.
struct Division<'a> {
    table: &'a str,
    what: &'a str,
    side: Side,
    over: Over,
    devices: &'a [(String, String)],
    how: &'a str,
}

impl Division<'_> {
    /// Creates one plot, or one for each value of the first of these axes that has several values.
    fn divide(&self, rows: &[&Row], by: &[Over], plots: &mut Vec<Plot>) {
        if self.over.values(rows).len() < 2 {
            return;
        }
        let varies = |over: &Over| *over != self.over && over.values(rows).len() > 1;
        let panels = self.panels(rows);
        let most = panels.iter().map(|panel| panel.series.iter().filter(|series| !series.model).count()).max();
        match by.iter().position(varies).filter(|_| most > Some(MOST)) {
            Some(at) => {
                let mut values = by[at].values(rows);
                if matches!(by[at], Over::Pairs | Over::Copies) {
                    // There may be many values, and they have a separate axis.
                    values.drain(..values.len() - 1);
                }
                for value in values {
                    let is_there = |row: &&&Row| by[at].of(row).is_none_or(|of| of == value);
                    let some: Vec<&Row> = rows.iter().filter(is_there).copied().collect();
                    self.divide(&some, &by[at + 1..], plots);
                }
            }
            // Rows may lack the requested value.
            None if panels.iter().all(|panel| panel.series.iter().all(|series| series.model)) => {}
            None => plots.push(self.plot(rows, panels)),
        }
    }

    fn plot(&self, rows: &[&Row], mut panels: Vec<Panel>) -> Plot {
        let fixed = |over: &&Over| **over != self.over && over.values(rows).len() == 1;
        let fixed: Vec<String> = [Over::Pairs, Over::Load, Over::Copies, Over::Hits]
            .iter()
            .filter(fixed)
            .map(|over| over.say(over.values(rows)[0]))
            .collect();
        let rates = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points).map(|p| p.1);
        let (least, most) =
            rates().fold((f64::INFINITY, 0.0f64), |(least, most), rate| (least.min(rate), most.max(rate)));
        let (unit, factor) = match most {
            1e9.. => ("G/s", 1e9),
            1e6.. => ("M/s", 1e6),
            _ => ("k/s", 1e3),
        };
        let y =
            if most / least > TOO_FAR_APART { Axis::log("throughput", unit) } else { Axis::linear("throughput", unit) };
        let points = panels.iter_mut().flat_map(|panel| &mut panel.series).flat_map(|series| &mut series.points);
        points.for_each(|point| point.1 /= factor);

        let table = if self.table == "map" { String::new() } else { format!("{}: ", self.table) };
        let (name, ending) = match self.side {
            Side::Device => ("keys and answers on the device", ""),
            Side::Host => ("from host memory to host memory", " end to end"),
        };
        let mut line = fixed.clone();
        line.push(name.to_owned());
        let mut lines = vec![line.join("; "), self.how.to_owned()];
        if let [panel] = &panels[..] {
            lines.insert(0, panel.head.clone());
        }
        let over = self.over.axis().label;
        // The names of divided plots contain the values that distinguish them.
        let apart = fixed.join(" ");
        Plot {
            name: file_name(&format!("{table}{} over {} {apart}{ending}", self.what, self.over.name())),
            title: capital(&format!("{table}{}, over {over}", self.what)),
            lines,
            x: self.over.axis(),
            y,
            panels,
            models: "thin: what memory allows",
            notes: Vec::new(),
        }
    }

    /// The series of each device.
    fn panels(&self, rows: &[&Row]) -> Vec<Panel> {
        let mut panels = Vec::new();
        for (id, head) in self.devices {
            let mut series: Vec<Series> = Vec::new();
            let here = rows.iter().filter(|row| row.device == *id || row.place == "host");
            for row in here.clone() {
                let Some(at) = self.over.place(row) else { continue };
                let label = self.label(row, rows);
                let mut add = |model, rate: f64| match series.iter_mut().find(|s| s.label == label && s.model == model)
                {
                    Some(series) => series.points.push((at, rate)),
                    None => series.push(Series { label: label.clone(), model, points: vec![(at, rate)] }),
                };
                add(false, row.rate);
                if let Some(limit) = row.limit {
                    add(true, limit);
                }
            }
            for series in &mut series {
                series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
                series.points.dedup_by_key(|point| point.0);
            }
            if here.clone().any(|row| row.place != "host") || self.devices.len() == 1 {
                panels.push(Panel { head: head.clone(), series });
            }
        }
        panels
    }

    /// The name of a row's series: its table, and the properties that distinguish it from other rows.
    fn label(&self, row: &Row, rows: &[&Row]) -> String {
        let kind = row.kind.map(|kind| format!(" {kind}")).unwrap_or_default();
        let name = if row.scheme.is_empty() { row.table } else { &row.scheme };
        let mut label = format!("{name}{kind}");
        for over in Over::ALL.into_iter().filter(|&over| over != self.over && over.values(rows).len() > 1) {
            label.extend(over.of(row).map(|value| format!(", {}", over.say(value))));
        }
        if let Some(share) = row.heavy {
            label.push_str(&format!(", {:.0}% one key", 100.0 * share));
        }
        label.push_str(if row.place == "pinned" { ", pinned memory" } else { "" });
        label.push_str(if row.host_built { " (host-built)" } else { "" });
        label
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use koel::Kind;

    use super::*;

    fn row(device: &str, scheme: &str, what: &'static str, place: &'static str) -> Row {
        let kind = (place != "host").then_some(Kind::Canonical);
        Row { kind, ..Row::new(device, scheme, 1 << 20, what, place) }.timed(1 << 20, Duration::from_millis(1))
    }

    fn drawn(rows: &[Row]) -> Vec<Plot> {
        let devices = ["cpu", "opencl:0"].map(|id| (id.to_owned(), format!("{id} (a device)")));
        plots(rows, &devices, "medians of 1 run")
    }

    fn names(plots: &[Plot]) -> Vec<&str> {
        plots.iter().map(|plot| plot.name.as_str()).collect()
    }

    #[test]
    fn a_plot_for_each_axis_with_two_places() {
        let mut rows = Vec::new();
        for (n, load, hits) in [(1 << 20, 0.5, 100), (1 << 22, 0.5, 100), (1 << 22, 0.8, 100), (1 << 22, 0.8, 0)] {
            for device in ["cpu", "opencl:0"] {
                let lookup = row(device, "cuckoo", "lookup", "device");
                rows.push(Row { n, requested_load: Some(load), load: Some(load - 0.001), hits: Some(hits), ..lookup });
            }
            rows.push(Row { n, hits: Some(hits), ..row("host", "hashbrown", "lookup", "host") });
        }
        rows.push(row("cpu", "cuckoo", "random reads", "device"));
        let plots = drawn(&rows);
        assert_eq!(names(&plots), ["lookup-over-n", "lookup-over-load", "lookup-over-hits"]);
        for plot in &plots {
            assert_eq!(plot.panels.len(), 2, "devices side by side");
            for panel in &plot.panels {
                let peers = panel.series.iter().filter(|series| series.label.starts_with("hashbrown")).count();
                assert_eq!(peers > 0, plot.x.label != "load", "a table without a load has no place there");
            }
        }
        let loads = &plots[1].panels[0].series;
        assert!(loads.iter().any(|series| series.points.iter().any(|point| point.0 == 0.499)), "as tables have it");
    }

    #[test]
    fn one_place_is_no_axis() {
        assert!(drawn(&[]).is_empty());
        assert!(drawn(&[row("cpu", "cuckoo", "build", "device"), row("cpu", "horton", "build", "device")]).is_empty());
    }

    #[test]
    fn too_many_series_are_divided_and_none_is_lost() {
        let mut rows = Vec::new();
        for scheme in ["a", "b", "c", "d", "e"] {
            for (n, hits) in [(1 << 20, 100), (1 << 20, 0), (1 << 24, 100), (1 << 24, 0)] {
                rows.push(Row { n, hits: Some(hits), limit: Some(1e10), ..row("cpu", scheme, "lookup", "device") });
            }
        }
        let plots = drawn(&rows);
        let right = ["lookup-over-n-0-hits", "lookup-over-n-100-hits", "lookup-over-hits-n-2-24"];
        assert_eq!(names(&plots), right);
        for plot in &plots {
            let [panel] = &plot.panels[..] else { panic!("one device has rows") };
            assert_eq!(panel.series.iter().filter(|series| !series.model).count(), 5);
            assert_eq!(panel.series.iter().filter(|series| series.model).count(), 5, "limits");
            assert!(
                panel.series.iter().all(|series| series.points.len() == 2 && series.points[0].0 < series.points[1].0)
            );
        }
    }

    #[test]
    fn rates_have_a_unit_and_an_axis_that_fit_them() {
        let at = |n, rate| Row { n, rate, ..row("cpu", "a", "build", "device") };
        let plots = drawn(&[at(1, 1e6), at(2, 2.5e9)]);
        assert_eq!((plots[0].y.unit, plots[0].y.log, plots[0].panels[0].series[0].points[1].1), ("G/s", true, 2.5));
        let plots = drawn(&[at(1, 1e6), at(2, 2.5e6)]);
        assert_eq!((plots[0].y.unit, plots[0].y.log, plots[0].panels[0].series[0].points[1].1), ("M/s", false, 2.5));
    }
}
