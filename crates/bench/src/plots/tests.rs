//! Parses drawings: everything is present, inside the picture and at the places of the data, and no texts overlap.

use std::fs;

use roxmltree::{Document, Node};

use super::canvas;
use super::plot::{Panel, Plot, Series};
use super::*;
use crate::figure::Axis;

/// The box of a text, and the text.
#[derive(Debug)]
struct Written {
    says: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A curve, by its positions in the picture.
#[derive(Debug)]
struct Curve {
    colour: String,
    wide: bool,
    places: Vec<(f64, f64)>,
}

/// A parsed picture.
struct Picture {
    texts: Vec<Written>,
    curves: Vec<Curve>,
    /// Filled rectangles, by their corners.
    bars: Vec<(f64, f64, f64, f64)>,
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {node:?}"))
}

fn named<'a>(document: &'a Document<'_>, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
}

/// The box of a text; rotated texts have vertical boxes.
fn written(node: Node<'_, '_>) -> Written {
    let says = node.text().unwrap_or_default().trim().to_owned();
    let (x, y, size) = (number(node, "x"), number(node, "y"), number(node, "font-size"));
    let long = canvas::width(&says, size, node.has_attribute("font-weight"));
    let before = match node.attribute("text-anchor") {
        Some("middle") => long / 2.0,
        Some("end") => long,
        _ => 0.0,
    };
    let over = match node.attribute("dy") {
        Some("0.76em") => 0.0,
        Some("0.5ex") => 0.4 * size,
        _ => 0.9 * size,
    };
    let (after, under) = (long - before, 0.8 * size - over);
    match node.attribute("transform") {
        Some(turned) => {
            assert!(turned.starts_with("rotate(270"), "{turned}");
            Written { says, left: x - over, right: x + under, top: y - after, bottom: y + before }
        }
        None => Written { says, left: x - before, right: x + after, top: y - over, bottom: y + under },
    }
}

/// Parses a picture, and checks the properties that all pictures have.
fn check(svg: &std::result::Result<String, canvas::Error>) -> Picture {
    let svg = svg.as_ref().unwrap_or_else(|error| panic!("{error}"));
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let (width, height) = (number(document.root_element(), "width"), number(document.root_element(), "height"));
    let texts: Vec<Written> = named(&document, "text").map(written).collect();
    for (at, text) in texts.iter().enumerate() {
        assert!(text.left >= 0.0 && text.right <= width && text.top >= 0.0 && text.bottom <= height, "{text:?}");
        for other in &texts[..at] {
            let beside = text.right <= other.left || other.right <= text.left;
            assert!(beside || text.bottom <= other.top || other.bottom <= text.top, "{text:?} is over {other:?}");
        }
    }
    let places = |node: Node<'_, '_>| -> Vec<(f64, f64)> {
        let points = node.attribute("points").unwrap_or_default().split_whitespace();
        points
            .map(|place| {
                let place = place.split_once(',').and_then(|(x, y)| x.parse().ok().zip(y.parse().ok()));
                place
                    .filter(|&(x, y)| (0.0..=width).contains(&x) && (0.0..=height).contains(&y))
                    .unwrap_or_else(|| panic!("{node:?}"))
            })
            .collect()
    };
    let curves = named(&document, "polyline").map(|node| Curve {
        colour: node.attribute("stroke").unwrap_or_default().into(),
        wide: node.attribute("stroke-width") == Some("2"),
        places: places(node),
    });
    let bars = named(&document, "rect").filter(|node| !matches!(node.attribute("fill"), Some("#FFFFFF" | "none")));
    let bars = bars.map(|node| {
        let corner = (number(node, "x"), number(node, "y"));
        (corner.0, corner.1, corner.0 + number(node, "width"), corner.1 + number(node, "height"))
    });
    Picture { texts, bars: bars.collect(), curves: curves.collect() }
}

impl Picture {
    /// The number of occurrences of this text.
    fn times(&self, says: &str) -> usize {
        self.texts.iter().filter(|text| text.says == says).count()
    }

    /// The curves of data: wide ones or thin ones. Samples in legends are 30 wide.
    fn curves(&self, wide: bool) -> Vec<&Curve> {
        let is_sample = |curve: &Curve| matches!(curve.places[..], [(x, y), (to, end)] if to - x == 30.0 && y == end);
        let of_axes = ["#E3E3E3", "#222222"];
        let of_data =
            |curve: &&Curve| curve.wide == wide && !of_axes.contains(&curve.colour.as_str()) && !is_sample(curve);
        self.curves.iter().filter(of_data).collect()
    }

    /// The middle of a text that occurs once.
    fn middle(&self, says: &str) -> (f64, f64) {
        let mut found = self.texts.iter().filter(|text| text.says == says);
        match (found.next(), found.next()) {
            (Some(text), None) => ((text.left + text.right) / 2.0, (text.top + text.bottom) / 2.0),
            _ => panic!("{says} in {:?}", self.texts),
        }
    }
}

fn series(label: &str, model: bool, points: &[(f64, f64)]) -> Series {
    Series { label: label.into(), model, points: points.to_vec() }
}

fn plot(panels: Vec<Vec<Series>>) -> Plot {
    let head = "opencl:0 (a device with a name that is rather long, as those of some drivers are)";
    Plot {
        name: "x".into(),
        title: "Throughput".into(),
        lines: vec!["n = 2^20; a line".into()],
        x: Axis::log("pairs", ""),
        y: Axis::linear("throughput", "M/s"),
        panels: panels.into_iter().map(|series| Panel { head: head.into(), series }).collect(),
        models: "thin: models",
        notes: vec!["a note that goes on for a long while, ".repeat(12), "short".into()],
    }
}

#[test]
fn every_curve_has_a_label_and_nothing_overlaps() {
    let labels: Vec<String> =
        (0..12).map(|at| format!("a scheme with a long name, canonical, load 0.{at:02}")).collect();
    for count in 1..=5 {
        let curves: Vec<Series> =
            labels.iter().map(|label| series(label, false, &[(1024.0, 10.0), (1e6, 4e4)])).collect();
        let picture = check(&plot(vec![curves; count]).svg());
        assert!(labels.iter().all(|label| picture.times(label) == 1), "{count} panels");
        let heads = picture.texts.iter().filter(|text| text.says.starts_with("opencl:0")).count();
        assert_eq!(heads, if count == 1 { 0 } else { count });
        assert_eq!(["pairs", "throughput (M/s)"].map(|axis| picture.times(axis)), [count; 2]);
        assert_eq!(["Throughput", "n = 2²⁰; a line", "short"].map(|text| picture.times(text)), [1; 3]);
        assert_eq!((picture.curves(true).len(), picture.curves(false).len()), (12 * count, 0));
        assert_eq!(picture.times("thin: models"), 0, "there are none");
    }
}

#[test]
fn points_lie_where_the_data_are() {
    let points = [(1e3, 20.0), (1e4, 0.0), (1e5, 80.0), (1e6, 60.0)];
    let picture = check(&plot(vec![vec![series("it", false, &points)]]).svg());
    let curves = picture.curves(true);
    let [curve] = &curves[..] else { panic!("{curves:?}") };
    let (right, up) = (["1000", "10k", "100k", "1M"], ["20", "0", "80", "60"]);
    for (place, (x, y)) in curve.places.iter().zip(right.into_iter().zip(up)) {
        let (x, y) = (picture.middle(x).0, picture.middle(y).1);
        assert!((place.0 - x).abs() <= 1.0 && (place.1 - y).abs() <= 3.0, "{place:?} is not at {x}, {y}");
    }
    assert_eq!(curve.places.len(), points.len());
}

#[test]
fn there_is_a_picture_of_whatever_points() {
    for points in [
        &[][..],
        &[(1.0, 1.0)],
        &[(0.0, 0.0), (2.0, 3.0)],
        &[(1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, -1.0)],
        &[(1.0, 1e-12), (1e18, 1e18)],
    ] {
        for (log_x, log_y) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut plot = plot(vec![vec![series("it", false, points), series("it", true, points)]; 2]);
            (plot.x.log, plot.y.log) = (log_x, log_y);
            check(&plot.svg());
            plot.x = Axis::named("order", &["row", "a place with a long name", "random"]);
            check(&plot.svg());
        }
    }
    check(&plot(Vec::new()).svg());
    check(&plot(vec![Vec::new()]).svg());
}

#[test]
fn models_are_thin_in_the_colour_of_what_was_measured() {
    let points = [(1.0, 1.0), (2.0, 2.0)];
    let all = vec![series("it", true, &points), series("it", false, &points), series("theory", true, &points)];
    let picture = check(&plot(vec![all]).svg());
    let (measured, models) = (picture.curves(true), picture.curves(false));
    assert_eq!((measured.len(), models.len(), picture.times("thin: models")), (1, 2, 1));
    assert_eq!(models.iter().filter(|model| model.colour == measured[0].colour).count(), 1);
}

#[test]
fn devices_have_the_same_axes() {
    let of = |most: [f64; 2]| {
        let panels = most.map(|most| vec![series("it", false, &[(1.0, 1.0), (2.0, most)])]);
        check(&plot(panels.into()).svg())
    };
    let near = of([40.0, 90.0]);
    assert!(["0", "20", "80"].iter().all(|label| near.times(label) == 2), "{:?}", near.texts);
    // One value would be too close to zero on a linear axis.
    let far = of([40.0, 9e5]);
    assert!(["10", "100", "1000", "10k", "100k"].iter().all(|label| far.times(label) == 2), "{:?}", far.texts);
}

#[test]
fn bars_begin_at_the_axis() {
    let mut plot = plot(vec![vec![series("a", false, &[(0.0, 40.0), (1.0, 20.0)]), series("b", true, &[(1.0, 30.0)])]]);
    plot.x = Axis::named("order", &["row", "random"]);
    let picture = check(&plot.svg());
    // The sample in the legend is a rectangle too.
    let bars: Vec<_> = picture.bars.iter().filter(|bar| bar.2 - bar.0 > 20.0).collect();
    let [row, random] = bars[..] else { panic!("{bars:?}") };
    let (high, half) = (row.3 - row.1, random.3 - random.1);
    assert!(row.3 == random.3 && (high - 2.0 * half).abs() <= 2.0, "{bars:?}");
    assert!(row.0 < picture.middle("row").0 && random.0 < picture.middle("random").0 && row.2 < random.0);
}

#[test]
fn bars_are_as_long_as_what_they_say() {
    let bar = |long: Option<f64>, kind| {
        let says = long.map(|long| format!("{long:.2}")).unwrap_or_default();
        Bar { long, says, text: "of 30.00 G/s, and better".into(), kind }
    };
    let group = |label: &str, bars| Group { label: label.into(), under: "8.10 G/s, n = 2^26".into(), bars };
    let groups = || {
        let three = || vec![bar(Some(0.5), 0), bar(Some(54.6), 1), bar(None, 2)];
        vec![group("Horton lookup", three()), group("a build", three()), group("x", vec![bar(Some(0.0), 1)])]
    };
    let kind = |label: &str, outline| Kind { label: label.into(), colour: style::colour(0), outline };
    for count in 0..3 {
        let columns = (0..count).map(|_| Column { head: "cpu (a device)".into(), groups: groups() }).collect();
        let chart = Chart {
            name: "all".into(),
            title: "Rates".into(),
            lines: vec!["today".into()],
            axis: Axis::linear("share", ""),
            marked: Some(1.0),
            most: Some(2.0),
            kinds: vec![kind("reached", false), kind("missed", false), kind("not there", true)],
            columns,
            notes: vec!["said".into()],
        };
        let picture = check(&chart.svg());
        let times =
            ["0.50", "54.60", "0.00", "a build", "share", "of 30.00 G/s, and better"].map(|says| picture.times(says));
        assert_eq!(times, [2, 2, 1, 1, 1, 7].map(|times| times * count));
        assert_eq!((picture.times("not there"), picture.times("reached")), (0, count.min(1)));
        if count == 1 {
            // After the samples of the two kinds.
            let long: Vec<f64> = picture.bars[2..].iter().map(|bar| bar.2 - bar.0).collect();
            assert!((4.0 * long[0] - long[1]).abs() <= 4.0 && long[4] <= 1.0, "{long:?}");
        }
    }
}

#[test]
fn days_have_dates() {
    let dates = [0, 59, 789, 11_016, 19_782, 20_780, 47_540].map(date);
    let right = ["1970-01-01", "1970-03-01", "1972-02-29", "2000-02-29", "2024-02-29", "2026-11-23", "2100-02-28"];
    assert_eq!(dates, right);
    assert_eq!(date(47_541), "2100-03-01");
}

#[test]
fn names_of_files_are_plain() {
    assert_eq!(file_name("build, ids in table order over n = 2^20"), "build-ids-in-table-order-over-n-2-20");
    assert_eq!(file_name("../x/ä load 0.95"), "..-x-load-0.95");
    assert_eq!(file_name(""), "");
}

#[test]
fn files_are_replaced_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let at = folder.path().join("a/b");
    let Ok(plots) = Plots::at(&at) else { panic!("a new directory") };
    for svg in ["<svg/>", "<svg></svg>"] {
        let written = plots.write(Ok(vec![Drawing { name: "x".into(), svg: svg.into() }]));
        assert!(written.is_ok_and(|written| written == [at.join("x.svg")]));
        assert!(fs::read_to_string(at.join("x.svg")).is_ok_and(|text| text == svg));
    }
    assert!(fs::read_dir(&at).is_ok_and(|files| files.count() == 1));
    assert!(matches!(Plots::at(&at.join("x.svg")), Err(Failure::Input(said)) if said.contains("in the way")));
}
