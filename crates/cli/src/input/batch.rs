//! Rows on their way from readers to whoever wants them, and what goes on from file to file: the numbers of rows and of
//! letters.

use super::{Name, Named, Want, letters};
use crate::failure::Result;
use crate::number::{Admitted, Number, Numbers, Span, Type};

/// Where the numbers go, 4,096 rows at a time, the last ones fewer: readers are compiled once, whatever the sink.
pub trait Sink {
    /// What is known of the columns; called once, before the first rows.
    fn begin(&mut self, _named: Named) -> Result<()> {
        Ok(())
    }
    fn append(&mut self, keys: &[Number], values: &[Number]) -> Result<()>;
}

/// Rows that a sink is handed at once.
const BATCH: usize = 1 << 12;

/// Rows on their way to a sink, of one file after the other.
pub(super) struct Batch<'a> {
    keys: Vec<Number>,
    values: Vec<Number>,
    /// What is known of the columns since the first file.
    named: Option<Named>,
    /// What keys, and values, may be.
    admitted: [Admitted; 2],
    /// Rows of numbers so far.
    pub(super) rows: u64,
    /// Letters and records of sequences so far, and the most letters in a row, up to those of a key.
    pub(super) letters: u64,
    pub(super) records: u64,
    pub(super) longest: u32,
    sink: &'a mut dyn Sink,
}

impl<'a> Batch<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink) -> Batch<'a> {
        Batch::with(sink, Vec::with_capacity(BATCH), Vec::with_capacity(BATCH))
    }

    /// The same, if there is memory for it.
    pub(super) fn maybe(sink: &'a mut dyn Sink) -> Option<Batch<'a>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        keys.try_reserve_exact(BATCH).and_then(|()| values.try_reserve_exact(BATCH)).ok()?;
        Some(Batch::with(sink, keys, values))
    }

    fn with(sink: &'a mut dyn Sink, keys: Vec<Number>, values: Vec<Number>) -> Batch<'a> {
        let admitted = [Admitted::new(None); 2];
        Batch { keys, values, named: None, admitted, rows: 0, letters: 0, records: 0, longest: 0, sink }
    }

    /// Before the first row of each file: what it says of its columns. The first file says it for all.
    pub(super) fn begin(&mut self, file: &Name, named: Named) -> Result<()> {
        let Some(before) = self.named else {
            self.named = Some(named);
            self.admitted = [named.keys, named.values].map(Admitted::new);
            return self.sink.begin(named);
        };
        // Whole numbers that came already would be taken for bits of doubles.
        if named.values == Some(Type::F64) && before.values != Some(Type::F64) {
            return Err(file.fail(
                "its values are floats, and those of the files before it are not: give --values f64, or these files first",
            ));
        }
        let differ = |before: Option<Type>, now: Option<Type>| before.zip(now).filter(|(before, now)| before != now);
        let keys = differ(before.keys, named.keys).map(|types| ("keys", types));
        match keys.or_else(|| differ(before.values, named.values).map(|types| ("values", types))) {
            None => Ok(()),
            Some((what, (before, now))) => Err(file.fail(format!(
                "its {what} are {}, and those of the files before it {}: give --{what} TYPE, one that holds both",
                now.name(),
                before.name()
            ))),
        }
    }

    /// Whether a key may stand beside those that came; if not, why.
    pub(super) fn admit_key(&mut self, key: Number) -> std::result::Result<Number, String> {
        if let Some(key_type) = self.named.and_then(|named| named.kmers) {
            letters::check(key, key_type)?;
        }
        self.admitted[0].admit(key).map(|()| key)
    }

    /// The same of a value that is a whole number; where values are doubles, it is the nearest.
    pub(super) fn admit_value(&mut self, value: Number) -> std::result::Result<Number, String> {
        if self.has_doubles() {
            return Ok(Type::F64.of_whole(value));
        }
        self.admitted[1].admit(value).map(|()| value)
    }

    /// Whether values are doubles: their bits are handed on.
    pub(super) fn has_doubles(&self) -> bool {
        self.named.is_some_and(|named| named.values == Some(Type::F64))
    }

    /// The number of the next row, as a value.
    pub(super) fn row_number(&mut self) -> std::result::Result<Number, String> {
        let number = u32::try_from(self.rows).map_err(|_| "there are more than 4294967296 rows".to_owned())?;
        self.admit_value(number.into())
    }

    /// What was said of the columns.
    pub(super) fn named(&self) -> Named {
        self.named.unwrap_or_default()
    }

    /// Hands on rows that were read apart from those before them. False, and hands on none, if some cannot follow those.
    /// `are_numbered` if values are the numbers of rows.
    pub(super) fn take(&mut self, rows: &Pairs, want: Want, are_numbered: bool) -> Result<bool> {
        let count = rows.keys.len() as u64;
        let mut admitted = self.admitted;
        let all = self.rows + count;
        let values = match want {
            // Those of keys alone are 0, whatever the type.
            Want::Keys => Span::EMPTY,
            Want::Pairs if are_numbered && all > 1 << u32::BITS => return Ok(false),
            Want::Pairs if are_numbered && count > 0 => Span { least: self.rows.into(), greatest: (all - 1).into() },
            Want::Pairs => rows.values.span(),
        };
        let are_doubles = self.has_doubles();
        if !admitted[0].admit_span(rows.keys.span()) || !(are_doubles || admitted[1].admit_span(values)) {
            return Ok(false);
        }
        self.admitted = admitted;
        for (key, value) in rows.keys.iter().zip(rows.values.iter()) {
            let value = match are_numbered {
                true if are_doubles => Type::F64.of_whole(self.rows.into()),
                true => self.rows.into(),
                false => value,
            };
            self.push(key, value)?;
        }
        Ok(true)
    }

    /// Hands on a row whose numbers were admitted.
    #[inline]
    pub(super) fn push(&mut self, key: Number, value: Number) -> Result<()> {
        self.rows += 1;
        self.keys.push(key);
        self.values.push(value);
        if self.keys.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Hands over what is there.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.sink.append(&self.keys, &self.values)?;
        self.keys.clear();
        self.values.clear();
        Ok(())
    }

    /// Why there is no key, where there are records and none of them has a window of `k` letters.
    pub(super) fn no_key(&self, k: u32) -> Option<String> {
        let longest = self.longest;
        (self.records > 0 && longest < k).then(|| {
            format!("no key: the longest run of A, C, G, T and U has {longest} letters, and a key has {k} (--kmer)")
        })
    }
}

/// Keys and values in memory.
#[derive(Default)]
pub struct Pairs {
    pub keys: Numbers,
    pub values: Numbers,
}

impl Sink for Pairs {
    fn begin(&mut self, named: Named) -> Result<()> {
        self.keys.begin(named.keys);
        self.values.begin(named.values);
        Ok(())
    }

    fn append(&mut self, keys: &[Number], values: &[Number]) -> Result<()> {
        self.keys.append(keys)?;
        self.values.append(values)
    }
}

/// Keys alone.
impl Sink for Numbers {
    fn begin(&mut self, named: Named) -> Result<()> {
        self.begin(named.keys);
        Ok(())
    }

    fn append(&mut self, keys: &[Number], _: &[Number]) -> Result<()> {
        self.append(keys)
    }
}
