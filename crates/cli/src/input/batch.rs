//! Rows between a reader and a sink, and what continues from file to file: the numbers of rows and of letters.

use super::{Name, Named, Want, letters};
use crate::failure::Result;
use crate::number::{Admitted, Number, Numbers, Span, Type};

/// Receives the numbers, 4,096 rows at a time. Readers are compiled once for all sinks.
pub trait Sink {
    /// The types that are known; called once, before the first rows.
    fn begin(&mut self, _named: Named) -> Result<()> {
        Ok(())
    }
    fn append(&mut self, keys: &[Number], values: &[Number]) -> Result<()>;
}

/// Rows of a call of a sink.
const BATCH: usize = 1 << 12;

/// Rows that are not in the sink yet, of one file after the other.
pub(super) struct Batch<'a> {
    keys: Vec<Number>,
    values: Vec<Number>,
    /// The types that are known since the first file.
    named: Option<Named>,
    /// Which keys and which values are accepted.
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

    /// The same; `None` if memory is short.
    pub(super) fn maybe(sink: &'a mut dyn Sink) -> Option<Batch<'a>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        keys.try_reserve_exact(BATCH).and_then(|()| values.try_reserve_exact(BATCH)).ok()?;
        Some(Batch::with(sink, keys, values))
    }

    fn with(sink: &'a mut dyn Sink, keys: Vec<Number>, values: Vec<Number>) -> Batch<'a> {
        let admitted = [Admitted::new(None); 2];
        Batch { keys, values, named: None, admitted, rows: 0, letters: 0, records: 0, longest: 0, sink }
    }

    /// The types of a file, before its first row. Those of the first file are those of all.
    pub(super) fn begin(&mut self, file: &Name, named: Named) -> Result<()> {
        let Some(before) = self.named else {
            self.named = Some(named);
            self.admitted = [named.keys, named.values].map(Admitted::new);
            return self.sink.begin(named);
        };
        // Earlier whole numbers would be read as the bits of doubles.
        if named.values == Some(Type::F64) && before.values != Some(Type::F64) {
            return Err(file.fail("its values are floats, and those of the files before it are not: give --values f64"));
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

    /// The key, if one type holds it and the earlier ones; otherwise the reason.
    pub(super) fn admit_key(&mut self, key: Number) -> std::result::Result<Number, String> {
        if let Some(key_type) = self.named.and_then(|named| named.kmers) {
            letters::check(key, key_type)?;
        }
        self.admitted[0].admit(key).map(|()| key)
    }

    /// The same for a whole number as a value; if values are doubles, the nearest one.
    pub(super) fn admit_value(&mut self, value: Number) -> std::result::Result<Number, String> {
        if self.has_doubles() {
            return Ok(Type::F64.of_whole(value));
        }
        self.admitted[1].admit(value).map(|()| value)
    }

    /// Whether values are doubles, which are passed as their bits.
    pub(super) fn has_doubles(&self) -> bool {
        self.named.is_some_and(|named| named.values == Some(Type::F64))
    }

    /// The number of the next row, as a value.
    pub(super) fn row_number(&mut self) -> std::result::Result<Number, String> {
        let number = u32::try_from(self.rows).map_err(|_| "there are more than 4294967296 rows".to_owned())?;
        self.admit_value(number.into())
    }

    /// The types that are known.
    pub(super) fn named(&self) -> Named {
        self.named.unwrap_or_default()
    }

    /// Appends rows of a piece. Returns false, and appends none, if no type holds them and the earlier ones.
    /// `are_numbered` if values are the numbers of rows.
    pub(super) fn take(&mut self, rows: &Pairs, want: Want, are_numbered: bool) -> Result<bool> {
        let count = rows.keys.len() as u64;
        let mut admitted = self.admitted;
        let all = self.rows + count;
        let values = match want {
            // Values of keys alone are 0, which every type holds.
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

    /// Appends a row whose numbers were admitted.
    #[inline]
    pub(super) fn push(&mut self, key: Number, value: Number) -> Result<()> {
        self.rows += 1;
        self.keys.push(key);
        self.values.push(value);
        if self.keys.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Passes the remaining rows to the sink.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.sink.append(&self.keys, &self.values)?;
        self.keys.clear();
        self.values.clear();
        Ok(())
    }

    /// The reason why there are no keys, if there are records but no window of `k` letters.
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
