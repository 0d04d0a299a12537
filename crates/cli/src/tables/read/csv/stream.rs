//! Text as a stream. The type of a column is known only after its last row, so the text is read twice. The first pass
//! keeps only the classes of fields, and finds all errors; the second pass parses a few pieces at once.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::super::stream::Stream;
use super::super::text::{AT_ONCE, LEAST, Text, at_once};
use super::piece::Want;
use super::{Csv, Seen, Stop, add, batch, cut, kinds};
use crate::failure::Result;
use crate::input::Name;
use crate::progress;

/// The pieces per thread between two points where all threads wait for each other.
const FOR_EACH: usize = 16;

impl Csv {
    pub(in super::super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        let survey = self.survey(name, places)?;
        self.stream_of(name, places, survey)
    }

    /// Runs the first pass, which finds the types.
    pub(in super::super) fn survey(&self, name: &Name, places: &[usize]) -> Result<Survey> {
        let text = Text::of(&self.data).map_err(|error| name.io(&error))?;
        self.classes(&text, &self.wants(places)).map_err(|stop| self.to_failure(name, &text, stop))
    }

    /// Returns a stream that runs the second pass, which reads the rows.
    pub(in super::super) fn stream_of<'a>(
        &'a self,
        name: &'a Name,
        places: &[usize],
        Survey { seen, has_values, ranges }: Survey,
    ) -> Result<Stream<'a>> {
        let wants = self.wants(places);
        let text = Text::of(&self.data).map_err(|error| name.io(&error))?;
        let kinds = kinds(&wants, &seen);
        let schema = self.schema(places, &kinds);
        let untyped =
            places.iter().filter(|&&place| !has_values[place]).map(|&place| self.names[place].clone()).collect();
        let known = wants.iter().zip(kinds).map(|(&want, kind)| match want {
            Want::Fitting => Want::Known(kind),
            other => other,
        });
        progress::bytes(text.length() as u64);
        let pieces = Pieces {
            csv: self,
            name,
            wants: known.collect(),
            places: places.to_vec(),
            schema: schema.clone(),
            text,
            ranges: ranges.into_iter(),
            ready: VecDeque::new(),
        };
        Ok(Stream::of(schema, pieces).with_untyped(untyped))
    }

    /// The classes of the fields of each column whose type is inferred, whether each wanted column has a value, and the
    /// ranges of pieces of whole rows.
    fn classes(&self, text: &Text<'_>, wants: &[Want]) -> std::result::Result<Survey, Stop> {
        let start = self.start.min(text.length());
        let size = self.size.unwrap_or(LEAST);
        progress::bytes(text.length() as u64);
        let (mut seen, mut has_values) = (vec![Seen::default(); wants.len()], vec![false; wants.len()]);
        // Up to the first quote, lines are rows. From the piece with the first quote on, quotes determine where rows
        // end.
        let mut has_quotes = false;
        let mut ranges = text.lines(start, size)?;
        let mut next = 0;
        while next < ranges.len() {
            let some = &ranges[next..ranges.len().min(next + at_once() * FOR_EACH)];
            let classes = |range: &Range<usize>| {
                self.look(text, range, |bytes| match self.dialect().first_quote(bytes) {
                    Some(_) if !has_quotes => Ok(None),
                    _ => self.counted(range, bytes, wants).map(|piece| {
                        let are_there =
                            |array: &Option<ArrayRef>| array.as_ref().is_some_and(|of| of.null_count() < of.len());
                        Some((piece.seen, piece.arrays.iter().map(are_there).collect::<Vec<_>>()))
                    }),
                })
            };
            // A range with a long row is longer than others, so fewer ranges are read at the same time.
            let longest = some.iter().map(Range::len).max().unwrap_or(0);
            let threads = at_once().min((AT_ONCE * LEAST / longest.max(1)).max(1));
            let found: Vec<_> = some
                .par_chunks(some.len().div_ceil(threads))
                .flat_map_iter(|pieces| pieces.iter().map(classes))
                .collect();
            for classes in found {
                let Some(classes) = classes? else {
                    let rest = ranges[next].start;
                    has_quotes = true;
                    ranges.truncate(next);
                    ranges.extend(cut::rows(text, rest, self.delimiter, size)?);
                    progress::bytes(text.length() as u64);
                    progress::advance_bytes((rest - start) as u64);
                    break;
                };
                add(&mut seen, &classes.0);
                has_values.iter_mut().zip(classes.1).for_each(|(has, more)| *has |= more);
                next += 1;
            }
        }
        Ok(Survey { seen, has_values, ranges })
    }
}

/// The result of the first pass: the classes of the fields of each column, whether it has a value, and the ranges of
/// pieces.
pub(in super::super) struct Survey {
    seen: Vec<Seen>,
    has_values: Vec<bool>,
    ranges: Vec<Range<usize>>,
}

impl Survey {
    /// Gives the columns of several files common types, which fit the fields of all files. The positions of the wanted
    /// columns are given for each file.
    pub(in super::super) fn unite(surveys: &mut [(Survey, Vec<usize>)]) {
        let wanted = surveys.first().map_or(0, |(_, places)| places.len());
        for i in 0..wanted {
            let (mut seen, mut has_values) = (Seen::default(), false);
            for (survey, places) in &*surveys {
                seen = seen.and(survey.seen[places[i]]);
                has_values |= survey.has_values[places[i]];
            }
            for (survey, places) in &mut *surveys {
                (survey.seen[places[i]], survey.has_values[places[i]]) = (seen, has_values);
            }
        }
    }
}

/// The pieces that were not read yet.
struct Pieces<'a> {
    csv: &'a Csv,
    name: &'a Name,
    wants: Vec<Want>,
    places: Vec<usize>,
    schema: SchemaRef,
    text: Text<'a>,
    ranges: std::vec::IntoIter<Range<usize>>,
    /// Batches that were parsed at once, and not returned yet.
    ready: VecDeque<RecordBatch>,
}

impl Iterator for Pieces<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ready.is_empty() {
            let mut bytes = 0;
            let mut is_little = |range: &Range<usize>| {
                bytes += range.len();
                bytes <= AT_ONCE * LEAST
            };
            let count = self.ranges.as_slice().iter().take(at_once()).take_while(|range| is_little(range)).count();
            let ranges: Vec<_> = self.ranges.by_ref().take(count.max(1)).collect();
            match self.read(&ranges) {
                Ok(batches) => self.ready = batches,
                Err(failure) => return Some(Err(failure)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Pieces<'_> {
    fn read(&self, ranges: &[Range<usize>]) -> Result<VecDeque<RecordBatch>> {
        let piece = |range: &Range<usize>| {
            self.csv.look(&self.text, range, |bytes| self.csv.counted(range, bytes, &self.wants))
        };
        let found: Vec<_> = ranges.par_iter().map(piece).collect();
        // If the file changed between the two passes, report that instead of an error in its rows.
        self.csv.data.check_unchanged().map_err(|error| self.name.io(&error))?;
        let batches = found.into_iter().map(|piece| {
            let piece = piece.map_err(|stop| self.csv.to_failure(self.name, &self.text, stop))?;
            batch(self.name, &self.schema, &self.places, piece)
        });
        batches.collect()
    }
}
