//! Timing one table on one device: repeated as often as requested, with every result checked.

use rayon::prelude::*;

use koel::Kind;
use koel::backend::{HashBackend, Probe, bitmap_words};
use koel::device::Any;

use crate::data::Copies;
use crate::measure::{Row, median, wall};
use crate::stages::Staged;
use crate::{Args, wrong};
use koel_cli::answers::POISON;
use koel_cli::failure::Result;
use koel_cli::progress::Progress;

/// The subject of the measurements, and the rows so far.
pub(super) struct Timing<'a> {
    pub(super) args: &'a Args,
    pub(super) columns: &'a Copies,
    pub(super) device: &'a Any,
    pub(super) rows: Vec<Row>,
    pub(super) stages: Vec<Staged>,
    /// The load of the table that was built last.
    pub(super) load: Option<f64>,
    scheme: &'static str,
    kind: Option<Kind>,
    host_built: bool,
    progress: &'a Progress,
}

/// Work that is repeated, and whose results are checked. The trait does not depend on the type of results, so that the
/// timing is compiled once.
trait Checked {
    /// Frees the results of the last run, and allocates the buffers of the next one; not timed.
    fn ready(&mut self) -> koel::Result<()>;
    fn run(&mut self) -> koel::Result<()>;
    /// Checks the results.
    fn check(&self) -> Result<()>;
}

struct Work<R, W, C> {
    made: Option<R>,
    work: W,
    check: C,
}

impl<R, W: FnMut() -> koel::Result<R>, C: Fn(&R) -> Result<()>> Checked for Work<R, W, C> {
    fn ready(&mut self) -> koel::Result<()> {
        self.made = None;
        Ok(())
    }

    fn run(&mut self) -> koel::Result<()> {
        self.made = Some((self.work)()?);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.made.as_ref().map_or(Ok(()), &self.check)
    }
}

/// Work that writes to buffers that were allocated before.
struct Answering<R, P, W, C> {
    answers: Option<R>,
    poison: P,
    work: W,
    check: C,
}

impl<R, P, W, C> Checked for Answering<R, P, W, C>
where
    P: FnMut() -> koel::Result<R>,
    W: FnMut(&mut R) -> koel::Result<()>,
    C: Fn(&R) -> Result<()>,
{
    fn ready(&mut self) -> koel::Result<()> {
        self.answers = None;
        self.answers = Some((self.poison)()?);
        Ok(())
    }

    fn run(&mut self) -> koel::Result<()> {
        self.answers.as_mut().map_or(Ok(()), &mut self.work)
    }

    fn check(&self) -> Result<()> {
        self.answers.as_ref().map_or(Ok(()), &self.check)
    }
}

/// Values, and a bitmap of the queries that hit.
pub(super) type Answers = (<Any as HashBackend>::Buffer<u32>, <Any as HashBackend>::Buffer<u32>);

/// The description of a row.
#[derive(Clone, Copy)]
pub(super) struct Doing {
    what: &'static str,
    hits: Option<u32>,
    /// The number of pairs, queries or rows: of the input or of the output, whichever is larger.
    count: usize,
    builds: bool,
}

impl Doing {
    /// A build of `count` rows.
    pub(super) fn build(what: &'static str, count: usize) -> Doing {
        Doing { what, hits: None, count, builds: true }
    }

    /// An operation with `count` answers.
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

    /// The time that the device is busy with `work`, whose input and output are on the device; if the host builds, the
    /// time until the device has the result. Returns the last result.
    pub(super) fn on_device<R>(
        &mut self,
        doing: Doing,
        work: impl FnMut() -> koel::Result<R>,
        check: impl Fn(&R) -> Result<()>,
    ) -> Result<R> {
        self.made(doing, "device", Work { made: None, work, check })
    }

    /// The time that the device takes to answer queries that are on the device, into poisoned buffers on the device.
    pub(super) fn lookups(
        &mut self,
        doing: Doing,
        work: impl FnMut(&mut Answers) -> koel::Result<()>,
        check: impl Fn(&[u32], &[u32]) -> Result<()>,
    ) -> Result<()> {
        let (device, count) = (self.device, doing.count);
        let poison = || Ok((device.filled(count, POISON)?, device.filled(bitmap_words(count), POISON)?));
        let check = |(values, found): &Answers| check(&device.download(values)?, &device.download(found)?);
        self.measure(doing, "device", &mut Answering { answers: None, poison, work, check })
    }

    /// The time of `work` from host slices to host slices, or to a complete table; returns the last result.
    pub(super) fn end_to_end<R>(
        &mut self,
        doing: Doing,
        work: impl FnMut() -> koel::Result<R>,
        check: impl Fn(&R) -> Result<()>,
    ) -> Result<R> {
        self.made(doing, "end-to-end", Work { made: None, work, check })
    }

    /// Measures work, and returns the result of its last run.
    fn made<R, W, C>(&mut self, doing: Doing, place: &'static str, mut work: Work<R, W, C>) -> Result<R>
    where
        Work<R, W, C>: Checked,
    {
        self.measure(doing, place, &mut work)?;
        work.made.ok_or_else(|| wrong(doing.what, "it was not done".into()))
    }

    fn measure(&mut self, doing: Doing, place: &'static str, work: &mut dyn Checked) -> Result<()> {
        let (device, id) = (self.device, &self.device.info().id);
        self.progress.say(format!("{} {}, {} rows, {id}", self.scheme, doing.what, self.columns.keys.len()));
        let host_built = doing.builds && self.host_built;
        // Work that is not reported runs once, for its result.
        let brief = self.args.brief && place != "device";
        let repeats = if brief { 0 } else { self.args.repeats };
        let mut times = Vec::new();
        for _ in 0..=repeats {
            work.ready()?;
            device.finish()?;
            let ((), time) = if place == "device" && !host_built {
                device.timed(|| work.run())?
            } else {
                wall(|| {
                    work.run()?;
                    Ok(device.finish()?)
                })?
            };
            work.check()?;
            times.push(time);
        }
        // The first run also compiles kernels, and does not count.
        times.remove(0);
        if brief {
            return Ok(());
        }
        let row = Row::new(id, self.scheme, self.columns.keys.len() as u32, doing.what, place);
        let requested_load = self.args.at_load;
        let row = Row { kind: self.kind, requested_load, load: self.load, hits: doing.hits, host_built, ..row };
        let row = row.timed(doing.count, median(times));
        if self.args.stages && place == "device" {
            let mut runs = Vec::new();
            for _ in 0..self.args.repeats {
                work.ready()?;
                device.finish()?;
                runs.push(device.stages(|| work.run())?.1);
            }
            self.stages.push(Staged::of_row(&row, self.scheme, doing.count, &runs));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Sets the load for later rows, and for the rows that do not have one yet.
    pub(super) fn loaded(&mut self, load: f64) {
        self.load = Some(load);
        self.rows.iter_mut().filter(|row| row.load.is_none()).for_each(|row| row.load = Some(load));
    }
}

/// Compares `len` answers.
///
/// # Errors
/// Returns an error with the expected number of answers, or with the first answer that is wrong.
pub(super) fn all_right(
    what: &str,
    (found, len): (usize, usize),
    is_right: &(dyn Fn(usize) -> bool + Sync),
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
/// Returns the errors of [`all_right`].
pub(super) fn same<T: PartialEq + Sync>(what: &str, got: &[T], right: &[T]) -> Result<()> {
    all_right(what, (got.len(), right.len()), &|i| got[i] == right[i])
}
