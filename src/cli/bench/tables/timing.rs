//! Timing one table on one device: as often as everything is measured, and every result checked.

use std::time::Duration;

use rayon::prelude::*;

use koel::Kind;
use koel::backend::{Any, HashBackend};

use crate::cli::bench::data::Copies;
use crate::cli::bench::measure::{Row, median, wall};
use crate::cli::bench::stages::Staged;
use crate::cli::bench::{Args, wrong};
use crate::cli::failure::Result;
use crate::cli::progress::Progress;

/// What is measured, and what came of it so far.
pub(super) struct Timing<'a> {
    pub(super) args: &'a Args,
    pub(super) columns: &'a Copies,
    pub(super) device: &'a Any,
    pub(super) rows: Vec<Row>,
    pub(super) stages: Vec<Staged>,
    /// Of the table that was built last.
    pub(super) load: Option<f64>,
    scheme: &'static str,
    kind: Option<Kind>,
    host_built: bool,
    progress: &'a Progress,
}

/// What a row is about.
#[derive(Clone, Copy)]
pub(super) struct Doing {
    what: &'static str,
    hits: Option<u32>,
    /// Pairs, queries or rows: whatever there is most of, going in or coming out.
    count: usize,
    builds: bool,
}

impl Doing {
    /// A build of so many rows.
    pub(super) fn build(what: &'static str, count: usize) -> Doing {
        Doing { what, hits: None, count, builds: true }
    }

    /// So many answers.
    pub(super) fn answers(what: &'static str, hits: Option<u32>, count: usize) -> Doing {
        Doing { what, hits, count, builds: false }
    }
}

impl<'a> Timing<'a> {
    pub(super) fn new(
        args: &'a Args,
        columns: &'a Copies,
        device: &'a Any,
        (scheme, kind, host_built): (&'static str, Option<Kind>, bool),
        progress: &'a Progress,
    ) -> Timing<'a> {
        Timing {
            args,
            columns,
            device,
            rows: Vec::new(),
            stages: Vec::new(),
            load: None,
            scheme,
            kind,
            host_built,
            progress,
        }
    }

    /// How long the device is busy with some work, whose input and output are there; the last result. Where the host
    /// builds, how long until the device has it.
    pub(super) fn on_device<R>(
        &mut self,
        doing: Doing,
        mut work: impl FnMut() -> koel::Result<R>,
        check: impl Fn(&R) -> Result<()>,
    ) -> Result<R> {
        let by_host = doing.builds && self.host_built;
        let device = self.device;
        let last = self.measure(doing, "device", check, || match by_host {
            false => Ok(device.timed(&mut work)?),
            true => wall(|| {
                let done = work()?;
                device.finish()?;
                Ok(done)
            }),
        })?;
        if let Some(row) = self.rows.last().filter(|_| self.args.stages) {
            let runs = (0..self.args.repeats).map(|_| device.stages(&mut work).map(|(_, stages)| stages));
            let staged = Staged::of_row(row, self.scheme, &runs.collect::<koel::Result<Vec<_>>>()?);
            self.stages.push(staged);
        }
        Ok(last)
    }

    /// How long some work takes from host slices to host slices, or to a finished table; the last result.
    pub(super) fn end_to_end<R>(
        &mut self,
        doing: Doing,
        mut work: impl FnMut() -> koel::Result<R>,
        check: impl Fn(&R) -> Result<()>,
    ) -> Result<R> {
        let device = self.device;
        self.measure(doing, "end-to-end", check, || {
            wall(|| {
                let done = work()?;
                device.finish()?;
                Ok(done)
            })
        })
    }

    fn measure<R>(
        &mut self,
        doing: Doing,
        place: &'static str,
        check: impl Fn(&R) -> Result<()>,
        mut run: impl FnMut() -> Result<(R, Duration)>,
    ) -> Result<R> {
        let id = &self.device.info().id;
        self.progress.say(format!("{} {}, {} rows, {id}", self.scheme, doing.what, self.columns.keys.len()));
        let mut once = || {
            self.device.finish()?;
            let (done, time) = run()?;
            check(&done)?;
            Ok::<_, crate::cli::failure::Failure>((done, time))
        };
        // The first run also compiles kernels, and does not count.
        let mut last = once()?.0;
        let mut times = Vec::new();
        for _ in 0..self.args.repeats {
            drop(last);
            let (done, time) = once()?;
            last = done;
            times.push(time);
        }
        let row = Row::new(id, self.scheme, self.columns.keys.len() as u32, doing.what, place);
        let host_built = doing.builds && self.host_built;
        let row = Row { kind: self.kind, load: self.load, hits: doing.hits, host_built, ..row };
        self.rows.push(row.timed(doing.count, median(times)));
        Ok(last)
    }

    /// Gives the rows since the builds began the load that the table turned out to have.
    pub(super) fn loaded(&mut self, load: f64) {
        self.load = Some(load);
        self.rows.iter_mut().filter(|row| row.load.is_none()).for_each(|row| row.load = Some(load));
    }
}

/// Compares `len` answers.
///
/// # Errors
/// How many there should be, or which is the first that is not right.
pub(super) fn all_right(
    what: &str,
    (found, len): (usize, usize),
    is_right: impl Fn(usize) -> bool + Sync + Send,
) -> Result<()> {
    if found != len {
        return Err(wrong(what, format!("{found} answers where there should be {len}")));
    }
    match (0..len).into_par_iter().find_first(|&i| !is_right(i)) {
        None => Ok(()),
        Some(i) => Err(wrong(what, format!("answer {i} of {len} is wrong"))),
    }
}

/// Compares two columns.
///
/// # Errors
/// As [`all_right`].
pub(super) fn same<T: PartialEq + Sync>(what: &str, got: &[T], right: &[T]) -> Result<()> {
    all_right(what, (got.len(), right.len()), |i| got[i] == right[i])
}
