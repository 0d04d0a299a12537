//! The data that tables are measured with: pairs, in an order, and queries.
//!
//! ```text
//! random keys   n keys; queries with a given share of hits                  sorted or shuffled
//! a domain      the defined cells of a picture; queries of all cells        in picture order, sorted or shuffled
//! ```

mod cells;
mod copies;

use clap::ValueEnum;
use koel::layout::Rows2;
use koel::scheme::Limits;
use koel::workload::{Picture, Workload};
use rayon::prelude::*;
use serde_json::{Value, json};

pub(super) use cells::Cells;
pub(super) use copies::{Copies, shuffled};
use koel_cli::failure::{Failure, Result};
use koel_cli::options::{self, Extent, SchemeOptions};
use koel_cli::text;

/// The data of a run.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Data")]
pub(super) struct DataOptions {
    /// Numbers of pairs, separated by commas; `512..2^24` is 512 and its doublings up to 2^24 [default: 2^22; with
    /// --all 2^26, on a CPU 2^24]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = sizes)]
    n: Vec<Sizes>,
    /// Queries of a lookup [default: as many as pairs, at least 2^22]
    #[arg(long, value_name = "COUNT", value_parser = options::pair_count)]
    queries: Option<u32>,
    /// Hits in a hundred queries, separated by commas
    #[arg(
        long, value_name = "PERCENTS", value_delimiter = ',', default_value = "100,50,0",
        value_parser = clap::value_parser!(u32).range(0..=100)
    )]
    hits: Vec<u32>,
    /// Average rows per key, separated by commas, or a range of doublings like --n; for tables of rows with duplicate
    /// keys
    #[arg(
        long, value_name = "COUNTS", value_delimiter = ',', value_parser = multiplicities,
        conflicts_with_all = ["domain", "order"]
    )]
    multiplicity: Vec<Sizes>,
    /// Also measure with one key that has this share of all rows, above 0 and up to 1
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["domain", "order"])]
    heavy: Option<f64>,
    /// Use the defined cells of a synthetic picture as keys instead of random keys, and query all cells
    #[arg(
        long, value_name = "WIDTHxHEIGHT", value_parser = domain, requires = "defined",
        conflicts_with_all = ["n", "queries", "hits"]
    )]
    domain: Option<Rows2>,
    /// Defined cells of the domain, exactly
    #[arg(long, value_name = "COUNT", value_parser = options::pair_count, requires = "domain")]
    defined: Option<u32>,
    /// Which cells are defined [default: blobs]
    #[arg(long, value_name = "PICTURE", requires = "domain")]
    picture: Option<Shapes>,
    /// Keys of cells, and the order of pairs and queries [default: row with a domain, otherwise shuffled]
    #[arg(long)]
    order: Option<Order>,
    /// The seed of tables and keys
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

/// A number of pairs, or it and its doublings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes(Vec<u32>);

/// `--n`: a count, or a range of doublings.
fn sizes(text: &str) -> std::result::Result<Sizes, String> {
    let Some((first, last)) = text.split_once("..") else { return Ok(Sizes(vec![options::pair_count(text)?])) };
    let (first, last) = (options::pair_count(first)?, options::pair_count(last)?);
    if first == 0 || first > last {
        return Err(format!(
            "`{text}` is not a range: write the minimum, at least 1, and the maximum, such as 512..2^24"
        ));
    }
    let doublings = std::iter::successors(Some(first), |n| n.checked_mul(2));
    Ok(Sizes(doublings.take_while(|&n| n <= last).collect()))
}

/// `--multiplicity`.
fn multiplicities(text: &str) -> std::result::Result<Sizes, String> {
    match sizes(text)? {
        Sizes(counts) if counts.contains(&0) => Err("a key has at least one row: use 1 or more".into()),
        counts => Ok(counts),
    }
}

/// `--heavy`.
fn share(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| {
        format!("`{text}` is not a share: use a number above 0 and up to 1, like 0.5 for half of all rows")
    })
}

/// Whether query `i` is a hit. In each hundred queries, `hits` are, at positions that look random.
fn in_hundred(i: u64, hits: u32) -> bool {
    (i * 61 + i / 100 * 7) % 100 < u64::from(hits)
}

/// Which cells of a picture are defined.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shapes {
    /// Smooth shapes, like a photograph cut out on white
    Blobs,
    /// Cells at random, without neighbours
    Random,
}

/// Keys and order.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// A domain's row-major indices, cell by cell in picture order
    Row,
    /// A domain's Morton codes, in picture order
    Morton,
    /// A domain's bit-reversed Morton codes, in picture order: no coherence at all
    Bitrev,
    /// Ascending keys: random ones, or a domain's row-major indices
    Sorted,
    /// Keys in random order: random ones, or a domain's row-major indices
    Shuffled,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Row => "row",
            Order::Morton => "morton",
            Order::Bitrev => "bitrev",
            Order::Sorted => "sorted",
            Order::Shuffled => "shuffled",
        }
    }
}

impl DataOptions {
    fn order(&self) -> Order {
        let usual = if self.domain.is_some() { Order::Row } else { Order::Shuffled };
        self.order.unwrap_or(usual)
    }

    fn shapes(&self) -> Shapes {
        self.picture.unwrap_or(Shapes::Blobs)
    }

    /// The numbers of pairs that were given.
    pub(super) fn given_sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.n.iter().flat_map(|Sizes(sizes)| sizes).copied()
    }

    /// The numbers of pairs to measure.
    pub(super) fn sizes(&self) -> Vec<u32> {
        let usual = || if self.n.is_empty() { vec![1 << 22] } else { self.given_sizes().collect() };
        self.domain.and(self.defined).map_or_else(usual, |defined| vec![defined])
    }

    /// The same data with as many queries as pairs, and these shares of hits per hundred.
    pub(super) fn with_hits(&self, hits: &[u32]) -> DataOptions {
        DataOptions { queries: None, hits: hits.to_vec(), ..self.clone() }
    }

    /// Whether keys have duplicates.
    pub(super) fn has_copies(&self) -> bool {
        !self.multiplicity.is_empty() || self.heavy.is_some()
    }

    /// Whether keys are those of a picture, or in a given order.
    pub(super) fn has_order(&self) -> bool {
        self.domain.is_some() || self.order.is_some()
    }

    /// The distributions of keys: the average number of rows per key, and the share of all rows that one key has. With
    /// a heavy key, also the distribution without it.
    pub(super) fn spreads(&self) -> Vec<(u32, Option<f64>)> {
        let mut counts: Vec<u32> = self.multiplicity.iter().flat_map(|Sizes(sizes)| sizes).copied().collect();
        if counts.is_empty() {
            counts.push(1);
        }
        let heavy = self.heavy;
        counts
            .into_iter()
            .flat_map(|count| [None].into_iter().chain(heavy.map(Some)).map(move |h| (count, h)))
            .collect()
    }

    /// The columns of `n` rows with a distribution of keys, within these limits.
    pub(super) fn copies(&self, n: u32, (count, heavy): (u32, Option<f64>), limits: Limits) -> Result<Copies> {
        Copies::new(n, count, heavy.unwrap_or(0.0), self.seed, limits)
    }

    /// The number of queries of a lookup, for tables of `n` pairs.
    pub(super) fn query_count(&self, n: u32) -> u64 {
        self.queries.unwrap_or(n).into()
    }

    /// The lookups to measure: queries and their hits in a hundred.
    pub(super) fn lookups(&self, n: u32) -> (usize, &[u32]) {
        (self.queries.unwrap_or(n) as usize, &self.hits)
    }

    /// The options of a scheme, with the extent of its domain if it has one and the option is not given: keys are then
    /// the cells of the picture, row by row.
    ///
    /// # Errors
    /// Returns the reason if tables of this scheme cannot have these keys.
    pub(super) fn fitted(&self, options: SchemeOptions, takes: &[&str]) -> std::result::Result<SchemeOptions, String> {
        let Some(rows) = self.domain.filter(|_| takes.contains(&"extent") && options.extent.is_none()) else {
            return Ok(options);
        };
        match self.order() {
            Order::Row | Order::Sorted | Order::Shuffled => {
                Ok(SchemeOptions { extent: Some(Extent { width: rows.width(), height: None }), ..options })
            }
            order @ (Order::Morton | Order::Bitrev) => Err(format!(
                "its keys are cells row by row, and --order {} has others: give --order row, or the --extent of a \
                 domain that has such keys",
                order.name()
            )),
        }
    }

    /// The reason if the keys of these data do not fit tables with these limits; random keys are drawn within the
    /// limits.
    pub(super) fn too_wide(&self, data: &Data, limits: Limits) -> Option<String> {
        let Source::Cells(cells) = &data.source else { return None };
        let greatest = cells.greatest_key().filter(|&greatest| greatest > limits.greatest_key())?;
        let (bits, order) = (limits.key_bits, self.order().name());
        Some(format!("the greatest key of the domain is {greatest} by --order {order}, and its keys have {bits} bits"))
    }

    /// Checks that the options are compatible.
    pub(super) fn check(&self) -> Result<()> {
        let order = self.order();
        match (self.domain, self.defined) {
            (None, _) if !matches!(order, Order::Sorted | Order::Shuffled) => {
                let order = order.name();
                Err(Failure::Input(format!(
                    "--order {order} is an order of cells: add a --domain, or use sorted or \
                                            shuffled"
                )))
            }
            (Some(rows), Some(defined)) if u64::from(defined) > rows.cells() => {
                let (defined, cells) = (text::grouped(defined.into()), text::grouped(rows.cells()));
                Err(Failure::Input(format!(
                    "--defined {defined}: give at most as many as the picture has cells, {cells}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The data of `n` pairs, with keys and values that these limits allow.
    pub(super) fn make(&self, n: u32, limits: Limits) -> Result<Data> {
        self.check()?;
        let order = self.order();
        let (keys, source) = match self.domain {
            Some(rows) => {
                let made = match self.shapes() {
                    Shapes::Blobs => Picture::blobs(rows.width(), rows.height(), n, self.seed),
                    Shapes::Random => Picture::random(rows.width(), rows.height(), n, self.seed),
                };
                let cells = Cells::new(made?, order, self.seed, limits)?;
                (cells.keys(true), Source::Cells(cells))
            }
            None => {
                let workload = Workload::new(n, self.seed).within(limits)?;
                let count = self.queries.unwrap_or(n.max(1 << 22)) as usize;
                let sorted = order == Order::Sorted;
                let keys = in_order(workload.keys(), sorted);
                (keys, Source::Random { workload, count, hits: self.hits.clone(), sorted })
            }
        };
        // Absent keys have no value; these are present.
        let values = keys.par_iter().map(|&key| source.answer(key).unwrap_or(0)).collect();
        Ok(Data { keys, values, source })
    }

    /// A line about the data, unless they are the default.
    pub(super) fn line(&self) -> Option<String> {
        let order = self.order().name();
        let (Some(rows), Some(defined)) = (self.domain, self.defined) else {
            return self.order.map(|_| format!("random keys, {order}"));
        };
        let share = 100.0 * f64::from(defined) / (rows.cells() as f64).max(1.0);
        let shapes = if self.shapes() == Shapes::Blobs { "in blobs" } else { "at random" };
        let (width, height, defined) = (rows.width(), rows.height(), text::grouped(defined.into()));
        Some(format!(
            "{width} x {height} cells, {defined} ({share:.1}%) defined {shapes}; order: {order}; all are queried"
        ))
    }

    /// The data's options as JSON.
    pub(super) fn json(&self) -> Value {
        let domain = self.domain.map(|rows| {
            let shapes = if self.shapes() == Shapes::Blobs { "blobs" } else { "random" };
            json!({ "width": rows.width(), "height": rows.height(), "defined": self.defined, "picture": shapes })
        });
        json!({ "seed": self.seed, "order": self.order().name(), "domain": domain })
    }
}

/// `--domain`: a width and a height.
fn domain(text: &str) -> std::result::Result<Rows2, String> {
    let advice = || format!("`{text}` is not a domain: write a width and a height, like 8192x8192");
    let (width, height) = text.split_once(['x', 'X']).ok_or_else(advice)?;
    let side = |text: &str| options::count(text).ok().and_then(|side| u32::try_from(side).ok()).ok_or_else(advice);
    Rows2::new(side(width)?, side(height)?).map_err(|error| error.to_string())
}

/// Pairs and queries.
pub(super) struct Data {
    pub(super) keys: Vec<u32>,
    pub(super) values: Vec<u32>,
    source: Source,
}

/// The queries of one lookup.
pub(super) struct Questions {
    /// The number of hits per hundred queries.
    pub(super) hits: u32,
    pub(super) queries: Vec<u32>,
}

impl Data {
    /// The lookups to measure, one after the other.
    pub(super) fn questions(&self) -> impl Iterator<Item = Questions> + '_ {
        let kinds = match &self.source {
            Source::Random { hits, .. } => hits.len(),
            Source::Cells(_) => 1,
        };
        (0..kinds).map(|i| match &self.source {
            Source::Random { workload, count, hits, sorted } => {
                Questions { hits: hits[i], queries: in_order(workload.queries(*count, hits[i]), *sorted) }
            }
            Source::Cells(cells) => {
                let (defined, all) = (f64::from(cells.picture.defined()), cells.picture.rows().cells() as f64);
                Questions { hits: (100.0 * defined / all.max(1.0)).round() as u32, queries: cells.keys(false) }
            }
        })
    }

    /// Queries of each lookup.
    pub(super) fn query_count(&self) -> usize {
        match &self.source {
            Source::Random { count, .. } => *count,
            Source::Cells(cells) => cells.picture.rows().cells() as usize,
        }
    }

    /// The right answer to a query.
    pub(super) fn answer(&self, query: u32) -> Option<u32> {
        self.source.answer(query)
    }
}

enum Source {
    Random { workload: Workload, count: usize, hits: Vec<u32>, sorted: bool },
    Cells(Cells),
}

impl Source {
    fn answer(&self, query: u32) -> Option<u32> {
        match self {
            Source::Random { workload, .. } => workload.answer(query),
            Source::Cells(cells) => cells.answer(query),
        }
    }
}

fn in_order(mut keys: Vec<u32>, sorted: bool) -> Vec<u32> {
    if sorted {
        keys.par_sort_unstable();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_sizes_double() {
        assert_eq!(sizes("512..4Ki"), Ok(Sizes(vec![512, 1024, 2048, 4096])));
        assert_eq!(sizes("3..11"), Ok(Sizes(vec![3, 6])));
        assert_eq!(sizes("7..7"), Ok(Sizes(vec![7])));
        assert_eq!(sizes("0"), Ok(Sizes(vec![0])));
        assert_eq!(sizes("2^31..4294967295"), Ok(Sizes(vec![1 << 31])));
        for text in ["0..8", "9..8", "..8", "8..", "1..2..4", "8..=9"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_above_0_and_up_to_1() {
        assert_eq!((share("0.5"), share("1")), (Ok(0.5), Ok(1.0)));
        for text in ["0", "-1", "1.01", "NaN", "half", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn domains_are_read() {
        assert_eq!(domain("8192x4Ki"), Ok(Rows2::new(8192, 4096).unwrap_or_else(|error| panic!("{error}"))));
        for text in ["", "8", "x", "8x", "-1x8", "8192x8192x2", "2^17x2^17", "2^33x1"] {
            assert!(domain(text).is_err(), "{text}");
        }
    }
}
