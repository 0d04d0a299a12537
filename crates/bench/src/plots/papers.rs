//! Plots of a paper's figures: one for each figure, its devices side by side.

use std::io;

use koel::backend::HashBackend;
use koel::device::Any;

use super::plot::{Panel, Plot};
use super::{Drawing, capital, drawing, file_name};
use crate::figure::Figure;

/// The name of a paper in the command, and its name in prose.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    pub(crate) cited: &'a str,
}

/// Draws the figures of a paper, each into a file named after the paper and the figure.
pub(crate) fn of_figures(paper: Named<'_>, figures: &[Figure], devices: &[Any], how: &str) -> io::Result<Vec<Drawing>> {
    let head =
        |id: &str| devices.iter().find(|device| device.info().id == id).map_or(id.into(), |d| d.info().to_string());
    plots(paper, figures, head, how).iter().map(|plot| drawing(&plot.name, plot.svg())).collect()
}

fn plots(paper: Named<'_>, figures: &[Figure], head: impl Fn(&str) -> String, how: &str) -> Vec<Plot> {
    let mut ids: Vec<&str> = Vec::new();
    for figure in figures.iter().filter(|figure| !figure.series.is_empty()) {
        if !ids.contains(&figure.id) {
            ids.push(figure.id);
        }
    }
    ids.into_iter()
        .filter_map(|id| plot(paper, figures.iter().filter(|figure| figure.id == id).collect(), &head, how))
        .collect()
}

/// Plots one figure, with a panel for each device.
fn plot(paper: Named<'_>, figures: Vec<&Figure>, head: &impl Fn(&str) -> String, how: &str) -> Option<Plot> {
    let first = figures.first()?;
    let mut lines = vec![format!("{}, {}", paper.cited, first.place), how.to_owned()];
    if figures.len() == 1 {
        lines.push(head(&first.device));
    }
    let mut notes: Vec<String> = Vec::new();
    for figure in &figures {
        notes.extend(figure.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
    }
    let panel = |figure: &&Figure| Panel { head: head(&figure.device), series: figure.series.clone() };
    Some(Plot {
        name: file_name(&format!("{} {}", paper.name, first.id)),
        title: capital(&first.title),
        lines,
        x: first.x.clone(),
        y: first.y.clone(),
        panels: figures.iter().map(panel).collect(),
        models: "thin: models, and what the paper says",
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Axis;

    #[test]
    fn devices_of_a_figure_share_a_plot() {
        let figure = |id, device: &str| {
            let mut figure =
                Figure::new((id, "Figure 9"), "rates", device, Axis::log("pairs", ""), Axis::linear("rate", "M/s"));
            figure.note("of both");
            figure.note(format!("of {device}"));
            figure
        };
        let mut figures = vec![figure("9a", "cpu"), figure("9b", "cpu"), figure("9a", "gpu"), figure("9c", "cpu")];
        figures.iter_mut().take(3).for_each(|figure| figure.point("x", 1.0, 2.0));
        let plots =
            plots(Named { name: "someone", cited: "Someone 1999" }, &figures, |id| format!("the {id}"), "today");
        let names: Vec<_> = plots.iter().map(|plot| (plot.name.as_str(), plot.panels.len())).collect();
        assert_eq!(names, [("someone-9a", 2), ("someone-9b", 1)], "and nothing of a figure without a curve");
        assert_eq!(plots[0].notes, ["of both", "of cpu", "of gpu"]);
        assert_eq!(plots[0].lines, ["Someone 1999, Figure 9", "today"]);
        assert_eq!((plots[0].title.as_str(), plots[0].panels[1].head.as_str()), ("Rates", "the gpu"));
    }
}
