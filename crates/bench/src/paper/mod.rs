//! The experiments of the papers, rerun on the selected device: the quantities on the axes of each figure, measured.
//!
//! ```text
//! mod.rs        the list of experiments, and the order in which they run
//! bench.rs      shared by experiments: pairs on a device, builds and lookups of them, each timed and checked
//! alcantara/, breslow/, garcia.rs, garcia/, two_level.rs     one function per experiment: from a device to figures
//! ```
//!
//! An experiment returns one or several figures, because several figures use the same table. If the paper has a model,
//! its curve is drawn next to the measured one. If a curve has no point at some place, the table could not be built,
//! and a note gives the reason. Sizes are limited, so that a paper takes a few minutes on two cores; `--n` sets others.

mod alcantara;
mod bench;
mod breslow;
mod garcia;
mod two_level;

use clap::ValueEnum;
use serde_json::{Value, json};

use koel::backend::HashBackend;
use koel::device::Any;

use super::Args;
use super::figure::Figure;
use bench::Bench;
use koel_cli::devices;
use koel_cli::failure::{Failure, Result, Verdict};
use koel_cli::progress::Progress;

/// Whose experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Paper {
    /// Building an Efficient Hash Table on the GPU
    Alcantara2011,
    /// Real-Time Parallel Hashing on the GPU, of 2009
    Poster,
    /// Two Phase Cuckoo's Hashing on GPU
    Sahu,
    /// Coherent Parallel Hashing
    Garcia,
    /// Horton Tables
    Breslow,
}

/// A measurement, and its figures.
struct Experiment {
    figures: &'static [&'static str],
    /// Whether it is counted or computed on the host instead of on a device, so that it runs only once.
    here: bool,
    run: fn(&Bench<'_>) -> Result<Vec<Figure>>,
}

impl Experiment {
    const fn on_device(figures: &'static [&'static str], run: fn(&Bench<'_>) -> Result<Vec<Figure>>) -> Experiment {
        Experiment { figures, here: false, run }
    }

    const fn here(figures: &'static [&'static str], run: fn(&Bench<'_>) -> Result<Vec<Figure>>) -> Experiment {
        Experiment { figures, here: true, run }
    }
}

impl Paper {
    fn experiments(self) -> &'static [Experiment] {
        match self {
            Paper::Alcantara2011 => alcantara::EXPERIMENTS,
            Paper::Poster => two_level::POSTER,
            Paper::Sahu => two_level::SAHU,
            Paper::Garcia => garcia::EXPERIMENTS,
            Paper::Breslow => breslow::EXPERIMENTS,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The minimum `--n`: with fewer pairs, the figures would show only the overhead of calls.
const LEAST: u32 = 1000;

pub(super) fn run(args: &Args, paper: Paper, devices: &[Any], progress: Progress) -> Result<Verdict> {
    let n = match args.data.given_sizes().collect::<Vec<_>>()[..] {
        [] => None,
        [n] if n >= LEAST => Some(n),
        [n] => return Err(Failure::Input(format!("--n {n} is too few for figures: give {LEAST} or more"))),
        _ => return Err(Failure::Input("with --paper --n is one number: the size of the largest table".into())),
    };
    let experiments = paper.experiments();
    let wanted = |figure: &str| args.figure.is_empty() || args.figure.iter().any(|requested| is_of(figure, requested));
    let known: Vec<&str> = experiments.iter().flat_map(|experiment| experiment.figures).copied().collect();
    if let Some(other) = args.figure.iter().find(|requested| !known.iter().any(|figure| is_of(figure, requested))) {
        let (name, known) = (paper.name(), known.join(", "));
        return Err(Failure::Input(format!("there is no figure {other} of {name}: there are {known}")));
    }
    let mut figures = Vec::new();
    for experiment in experiments.iter().filter(|experiment| experiment.figures.iter().any(|id| wanted(id))) {
        for device in &devices[..if experiment.here { devices.len().min(1) } else { devices.len() }] {
            progress.say(format!("{} on {}", experiment.figures.join(", "), device.info().id));
            let bench = Bench::new(args, device, &progress, n);
            figures.extend((experiment.run)(&bench)?.into_iter().filter(|figure| wanted(figure.id)));
        }
    }
    drop(progress);
    super::print(args, || text(args, devices, &figures), || json(args, paper, n, devices, &figures))
}

fn json(args: &Args, paper: Paper, n: Option<u32>, devices: &[Any], figures: &[Figure]) -> Value {
    let devices: Vec<_> = devices.iter().map(|device| devices::json(device.info())).collect();
    json!({
        "koel": env!("CARGO_PKG_VERSION"), "paper": paper.name(), "repeats": args.repeats, "n": n,
        "seed": args.data.seed, "threads": rayon::current_num_threads(), "devices": devices,
        "figures": figures.iter().map(Figure::json).collect::<Vec<_>>(),
    })
}

fn text(args: &Args, devices: &[Any], figures: &[Figure]) -> String {
    let mut shown = String::new();
    for device in devices {
        shown.push_str(&format!("{}, {}\n", device.info(), device.info().driver));
    }
    let threads = rayon::current_num_threads();
    let medians = args.repeats;
    shown.push_str(&format!("host: {threads} threads; medians of {medians} runs; every answer checked; [models]\n"));
    figures.iter().for_each(|figure| shown.push_str(&format!("\n{}", figure.text())));
    shown
}

/// Whether a figure is the requested one, or a part of it: `4.4-insertion` is part of `4.4`, `12a` of `12`.
fn is_of(figure: &str, requested: &str) -> bool {
    let is_number = requested.ends_with(|c: char| c.is_ascii_digit());
    let goes_on = |next: char| next == '-' || is_number && next.is_ascii_lowercase();
    figure.strip_prefix(requested).is_some_and(|rest| rest.chars().next().is_none_or(goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_figures_are_theirs() {
        for (figure, requested) in
            [("4.4-insertion", "4.4"), ("12a", "12"), ("12a", "12a"), ("3-maximum", "3"), ("8", "8")]
        {
            assert!(is_of(figure, requested), "{requested}");
        }
        for (figure, requested) in
            [("12a", "1"), ("4.4-insertion", "4"), ("stages", "s"), ("3", "3-maximum"), ("8", "")]
        {
            assert!(!is_of(figure, requested), "{requested}");
        }
    }

    /// Otherwise `--figure` and file names would be ambiguous.
    #[test]
    fn every_figure_of_a_paper_has_a_name_of_its_own() {
        for paper in Paper::value_variants() {
            let mut names: Vec<&str> =
                paper.experiments().iter().flat_map(|experiment| experiment.figures).copied().collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{paper:?}");
            assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))));
        }
    }
}
