//! Passes rows from readers to a sink, and keeps what continues from file to file: the numbers of rows and letters.

use super::{Name, Named, Want, letters};
use crate::failure::Result;
use crate::number::{Admitted, Number, Type, Words};

/// Receives keys and values. Readers are compiled once for all sinks.
pub trait Sink {
    /// Receives the types, as far as they are known; called once, before the first rows.
    fn begin(&mut self, _named: Named) -> Result<()> {
        Ok(())
    }
    /// Receives further rows: as many keys as values.
    fn append(&mut self, keys: Words, values: Words) -> Result<()>;
}

/// Checks the rows of one file after the other and passes them to a sink.
pub(crate) struct Feed<'a> {
    /// The types that are known since the first file began.
    named: Option<Named>,
    /// Which keys and which values are accepted.
    admitted: [Admitted; 2],
    /// Rows of numbers that were passed on.
    pub(super) rows: u64,
    /// Letters and records of sequences that were read, and the longest run of valid letters, counted up to the length
    /// of a key.
    pub(super) letters: u64,
    pub(super) records: u64,
    pub(super) longest: u32,
    sink: &'a mut dyn Sink,
}

impl<'a> Feed<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink) -> Feed<'a> {
        let admitted = [Admitted::new(None); 2];
        Feed { named: None, admitted, rows: 0, letters: 0, records: 0, longest: 0, sink }
    }

    /// Receives the types of a file, before its first row. The types of the first file apply to all files.
    pub(crate) fn begin(&mut self, file: &Name, named: Named) -> Result<()> {
        let Some(before) = self.named else {
            self.named = Some(named);
            self.admitted = [named.keys, named.values].map(Admitted::new);
            return self.sink.begin(named);
        };
        // Integers of earlier files would be read as the bits of doubles.
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

    /// Whether values are doubles, which are passed as their bits.
    pub(crate) fn has_doubles(&self) -> bool {
        self.named.is_some_and(|named| named.values == Some(Type::F64))
    }

    /// Adds a key to those that one type must hold. Returns the reason if no type holds all of them.
    pub(crate) fn admit_key(&mut self, key: Number) -> std::result::Result<(), String> {
        if let Some(key_type) = self.named.and_then(|named| named.kmers) {
            letters::check(key, key_type)?;
        }
        self.admitted[0].admit(key)
    }

    /// Admits a value, as [`admit_key`](Feed::admit_key) admits a key.
    pub(crate) fn admit_value(&mut self, value: Number) -> std::result::Result<(), String> {
        self.admitted[1].admit(value)
    }

    /// Admits all of these numbers, or none. Returns whether types hold them.
    pub(crate) fn admit_all(&mut self, keys: &Words, values: &Words) -> bool {
        let kmers = self.named.and_then(|named| named.kmers);
        let mut admitted = self.admitted;
        let fit = admitted[0].admit_span(keys.span())
            && admitted[1].admit_span(values.span())
            && kmers.is_none_or(|kmers| keys.iter().all(|key| letters::check(key, kmers).is_ok()));
        if fit {
            self.admitted = admitted;
        }
        fit
    }

    /// Values for rows that have none: their row numbers if values are wanted, otherwise 0. `rows` are numbered from 0,
    /// starting with the row after the last one that was passed on.
    pub(crate) fn missing_values(
        &self,
        rows: impl Iterator<Item = usize>,
        want: Want,
    ) -> std::result::Result<Words, &'static str> {
        let kind = self.named.and_then(|named| named.values).unwrap_or(Type::U64);
        let value = |row: usize| match (want, u32::try_from(self.rows + row as u64)) {
            (Want::Keys, _) => Ok(0),
            (Want::Pairs, Ok(number)) => Ok(kind.of_whole(number.into())),
            (Want::Pairs, Err(_)) => Err("there are more than 4294967296 rows"),
        };
        rows.map(value).collect()
    }

    /// Passes on rows whose numbers were admitted.
    pub(crate) fn push(&mut self, keys: Words, values: Words) -> Result<()> {
        debug_assert_eq!(keys.len(), values.len());
        self.rows += keys.len() as u64;
        if keys.len() == 0 { Ok(()) } else { self.sink.append(keys, values) }
    }

    /// The reason why there are no keys, if there are records but none has a window of `k` letters.
    pub(super) fn no_key(&self, k: u32) -> Option<String> {
        let longest = self.longest;
        (self.records > 0 && longest < k).then(|| {
            format!("no key: the longest run of A, C, G, T and U has {longest} letters, and a key has {k} (--kmer)")
        })
    }
}
