//! Drawings, read back: everything is there, inside the picture, and nothing written over anything else.

use std::fs;

use roxmltree::{Document, Node};

use super::plot::{Panel, Plot, Series};
use super::shares::{Against, Bar, Chart, Column, Group};
use super::svg::{Font, INK};
use super::*;
use crate::figure::Axis;

/// The box of a text, and what it says.
#[derive(Debug)]
struct Written {
    says: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {node:?}"))
}

/// All texts, where they are; turned ones stand upright.
fn written(document: &Document<'_>) -> Vec<Written> {
    let texts = document.descendants().filter(|node| node.has_tag_name((SVG, "text")));
    texts
        .map(|node| {
            let says: String = node.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect();
            let (x, y, size) = (number(node, "x"), number(node, "y"), number(node, "font-size"));
            let bold = Font::new(size, INK).bold();
            let long = if node.has_attribute("font-weight") { bold } else { Font::new(size, INK) }.width(&says);
            let before = match node.attribute("text-anchor") {
                Some("middle") => long / 2.0,
                Some("end") => long,
                _ => 0.0,
            };
            let after = long - before;
            if node.has_attribute("transform") {
                return Written { says, left: x - 0.7 * size, right: x, top: y - after, bottom: y + before };
            }
            Written { says, left: x - before, right: x + after, top: y - 0.7 * size, bottom: y }
        })
        .collect()
}

const SVG: &str = "http://www.w3.org/2000/svg";

/// Reads a picture and checks what holds of all of them; the texts.
fn check(svg: &str) -> Vec<Written> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let (width, height) = (number(document.root_element(), "width"), number(document.root_element(), "height"));
    let texts = written(&document);
    for (at, text) in texts.iter().enumerate() {
        assert!(text.left >= 0.0 && text.right <= width && text.top >= 0.0 && text.bottom <= height, "{text:?}");
        for other in &texts[..at] {
            let beside = text.right <= other.left || other.right <= text.left;
            assert!(beside || text.bottom <= other.top || other.bottom <= text.top, "{text:?} is over {other:?}");
        }
    }
    let curves = document.descendants().filter_map(|node| node.attribute("points"));
    for place in curves.flat_map(str::split_whitespace) {
        let (x, y) = place.split_once(',').unwrap_or_else(|| panic!("{place}"));
        let inside = |at: &str, most: f64| at.parse().is_ok_and(|at: f64| (0.0..=most).contains(&at));
        assert!(inside(x, width) && inside(y, height), "{place} of {width} x {height}");
    }
    texts
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
        dashes: "dashed: models",
        notes: vec!["a note that goes on for a long while, ".repeat(12), "short".into()],
    }
}

#[test]
fn every_curve_is_named_beside_the_curves_and_nothing_is_over_anything() {
    let labels: Vec<String> =
        (0..12).map(|at| format!("a scheme with a long name, canonical, load 0.{at:02}")).collect();
    for count in 1..=5 {
        let curves: Vec<Series> =
            labels.iter().map(|label| series(label, false, &[(1024.0, 10.0), (1e6, 4e4)])).collect();
        let texts = check(&plot(vec![curves; count]).svg());
        for label in &labels {
            assert_eq!(texts.iter().filter(|text| text.says == *label).count(), 1, "{label} in {count} panels");
        }
        let heads = texts.iter().filter(|text| text.says.starts_with("opencl:0")).count();
        assert_eq!(heads, if count == 1 { 0 } else { count });
        assert!(!texts.iter().any(|text| text.says.starts_with("dashed")), "there are no models");
    }
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
fn models_are_dashed_in_the_colour_of_what_was_measured() {
    let points = [(1.0, 1.0), (2.0, 2.0)];
    let svg =
        plot(vec![vec![series("it", true, &points), series("it", false, &points), series("theory", true, &points)]])
            .svg();
    check(&svg);
    let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{error}"));
    let curves: Vec<_> = document.descendants().filter(|node| node.has_tag_name((SVG, "polyline"))).collect();
    let looks: Vec<_> =
        curves.iter().map(|node| (node.has_attribute("stroke-dasharray"), node.attribute("stroke"))).collect();
    assert_eq!(looks.len(), 3);
    let measured = looks.iter().find(|look| !look.0).unwrap_or_else(|| panic!("{looks:?}"));
    assert_eq!(looks.iter().filter(|look| look.0 && look.1 == measured.1).count(), 1);
    // Points say what they are.
    let says = document.descendants().filter_map(|node| node.text()).any(|text| text == "it: 2 M/s; pairs 2");
    assert!(says, "{svg}");
}

#[test]
fn devices_have_the_same_axes() {
    let points = |most: f64| [(1.0, 1.0), (2.0, most)];
    let numbers = |most: [f64; 2]| {
        let panels = most.map(|most| vec![series("it", false, &points(most))]);
        check(&plot(panels.into()).svg()).into_iter().map(|text| text.says).collect::<Vec<_>>()
    };
    let twice = |texts: &[String], label: &str| texts.iter().filter(|text| *text == label).count() == 2;
    let near = numbers([40.0, 90.0]);
    assert!(["0", "20", "100"].iter().all(|label| twice(&near, label)), "{near:?}");
    // One would lie on the ground.
    let far = numbers([40.0, 9e5]);
    assert!(["10", "100", "1,000", "10k", "100k"].iter().all(|label| twice(&far, label)), "{far:?}");
}

#[test]
fn bars_stand_beside_what_they_are_a_share_of() {
    let bar = |share, against| Bar { share, text: "of 30.00 G/s, and better".into(), against };
    let group = |label: &str| Group {
        label: label.into(),
        under: "8.10 G/s, n = 2^26".into(),
        bars: vec![bar(Some(0.5), Against::Missed), bar(Some(54.6), Against::Reached), bar(None, Against::NotJudged)],
    };
    let groups = || {
        vec![
            group("Horton lookup, 100% hits"),
            group("a build"),
            Group { bars: vec![bar(Some(0.0), Against::Limit)], ..group("x") },
        ]
    };
    for count in 0..3 {
        let columns = (0..count).map(|_| Column { head: "cpu (a device)".into(), groups: groups() }).collect();
        let chart =
            Chart { name: "all", title: "Rates", line: "1 is the goal".into(), columns, notes: vec!["said".into()] };
        let texts = check(&chart.draw().svg);
        let times = |says: &str| texts.iter().filter(|text| text.says == says).count();
        assert_eq!(
            [times("0.50"), times("» 54.60"), times("0.00"), times("a build")],
            [2 * count, 2 * count, count, count]
        );
        assert_eq!(times("of a goal for other sizes"), 0, "no such bar is drawn");
    }
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
        let written = plots.write(&[Drawing { name: "x".into(), svg: svg.into() }]);
        assert!(written.is_ok_and(|written| written == [at.join("x.svg")]));
        assert!(fs::read_to_string(at.join("x.svg")).is_ok_and(|text| text == svg));
    }
    assert!(fs::read_dir(&at).is_ok_and(|files| files.count() == 1));
    assert!(matches!(Plots::at(&at.join("x.svg")), Err(Failure::Input(said)) if said.contains("in the way")));
}
