//! Keys and values of all files, in memory or in a temporary file until their types are known.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::Schema;
use koel_arrow::external::{Limit, Spooled};

use super::{Named, Sink, Want};
use crate::failure::Result;
use crate::number::{Column, Number, Span, Type, Word, Words};

/// The rows of all files.
#[derive(Debug)]
pub struct Pairs {
    /// Empty if rows are in a file.
    columns: [Column; 2],
    /// 64-bit words, which hold all numbers.
    file: Option<Spooled>,
    /// If values are not wanted, only keys are stored.
    want: Want,
    rows: u64,
}

impl Pairs {
    /// Creates an empty instance.
    pub fn new(want: Want, is_in_file: bool) -> Pairs {
        let file = is_in_file.then(|| Spooled::new(&Arc::new(Schema::empty()), &Limit::new(u64::MAX)));
        Pairs { columns: Default::default(), file, want, rows: 0 }
    }

    /// The types of keys and of values.
    pub fn types(&self) -> (Type, Type) {
        (self.columns[0].kind(), self.columns[1].kind())
    }

    /// The types of keys and of values, for columns whose types are derived from the numbers alone.
    pub(super) fn found_types(&self) -> [Option<Type>; 2] {
        self.columns.each_ref().map(|column| column.named.is_none().then(|| column.kind()))
    }

    /// A span of all types that hold the keys.
    pub(crate) fn span_of_keys(&self) -> Span {
        self.columns[0].span
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    /// The number of columns that are stored.
    fn width(&self) -> usize {
        if self.want == Want::Pairs { 2 } else { 1 }
    }

    /// Rows in memory as words of a table, as wide as their types; without values if there are none.
    pub(crate) fn into_words<K: Word, V: Word>(self) -> (Vec<K>, Vec<V>) {
        let [keys, values] = self.columns;
        (keys.into_keys(), V::of(values))
    }

    /// As `into_words`, for rows in a file, one batch at a time.
    pub(crate) fn words<K: Word, V: Word>(&self) -> impl Iterator<Item = Result<(Vec<K>, Vec<V>)>> {
        self.batches().map(|columns| {
            let [keys, values] = columns?;
            Ok((keys.into_keys(), V::of(values)))
        })
    }

    /// Rows in memory as arrays: keys of this type, and values if there are any.
    pub(crate) fn into_arrays(self, keys: Type) -> Vec<ArrayRef> {
        let (kinds, width) = ([keys, self.types().1], self.width());
        self.columns.into_iter().zip(kinds).take(width).map(|(column, kind)| column.into_array(kind)).collect()
    }

    /// As `into_arrays`, for rows in a file, one batch at a time.
    pub(crate) fn arrays(&self, keys: Type) -> impl Iterator<Item = Result<Vec<ArrayRef>>> {
        let (kinds, width) = ([keys, self.types().1], self.width());
        self.batches().map(move |columns| {
            Ok(columns?.into_iter().zip(kinds).take(width).map(|(column, kind)| column.into_array(kind)).collect())
        })
    }

    fn batches(&self) -> impl Iterator<Item = Result<[Column; 2]>> {
        let (keys, values) = self.types();
        self.file.iter().flat_map(Spooled::read).map(move |batch| {
            let batch = batch?;
            let words = |column: &ArrayRef| column.as_primitive::<UInt64Type>().values().to_vec().into_iter();
            let values = batch.columns().get(1).map(|column| Column::of(words(column), values));
            Ok([Column::of(words(batch.column(0)), keys), values.unwrap_or_default()])
        })
    }

    /// All rows in memory. Values are 0 if none are stored.
    pub fn iter(&self) -> impl Iterator<Item = (Number, Number)> {
        self.columns[0].iter().zip(self.columns[1].iter().chain(std::iter::repeat(0)))
    }
}

impl Default for Pairs {
    fn default() -> Pairs {
        Pairs::new(Want::Pairs, false)
    }
}

impl Sink for Pairs {
    fn begin(&mut self, named: Named) -> Result<()> {
        (self.columns[0].named, self.columns[1].named) = (named.keys, named.values);
        Ok(())
    }

    fn append(&mut self, keys: Words, values: Words) -> Result<()> {
        self.rows += keys.len() as u64;
        let width = self.width();
        let columns = [keys, values].into_iter().zip(&mut self.columns).take(width);
        let Some(file) = &mut self.file else {
            columns.for_each(|(words, column)| column.append(words));
            return Ok(());
        };
        let arrays = columns.map(|(words, column)| {
            column.span = column.span.and(words.span());
            ("", Arc::new(UInt64Array::from(words.into_vec())) as ArrayRef)
        });
        let batch = RecordBatch::try_from_iter(arrays);
        Ok(file.push(&batch.map_err(koel_arrow::Error::from)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(named: Option<Type>, is_in_file: bool, batches: &[&[Number]]) -> Pairs {
        let mut pairs = Pairs::new(Want::Keys, is_in_file);
        let appended = pairs.begin(Named { keys: named, ..Named::default() }).and_then(|()| {
            batches.iter().try_for_each(|batch| pairs.append(batch.iter().copied().collect(), Words::default()))
        });
        appended.map_or_else(|failure| panic!("{failure}"), |()| pairs)
    }

    /// The keys of a table as numbers.
    fn keys_of(pairs: Pairs) -> Vec<Number> {
        fn words<K: Word>(pairs: Pairs) -> Vec<u64> {
            let in_file = pairs.words::<K, u32>().map(|words| words.unwrap_or_else(|failure| panic!("{failure}")).0);
            let mut keys = in_file.collect::<Vec<_>>().concat();
            keys.extend(pairs.into_words::<K, u32>().0);
            keys.into_iter().map(Into::into).collect()
        }
        let kind = pairs.types().0;
        let keys = if kind.bits() == u32::BITS { words::<u32>(pairs) } else { words::<u64>(pairs) };
        keys.into_iter().map(|key| kind.of_key(key)).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_numbers() {
        let most = Number::from(u64::MAX);
        for (batches, kind) in [
            (&[&[][..]][..], Type::U32),
            (&[&[7, 4_294_967_295], &[0]], Type::U32),
            (&[&[7], &[-1], &[2_147_483_647]], Type::I32),
            (&[&[4_294_967_295], &[-1]], Type::I64),
            (&[&[-5], &[4_294_967_295], &[-9_223_372_036_854_775_808]], Type::I64),
            (&[&[7, 4_294_967_295], &[most], &[3]], Type::U64),
            (&[&[4_294_967_296], &[-3]], Type::I64),
        ] {
            for is_in_file in [false, true] {
                let of = || pairs(None, is_in_file, batches);
                let numbers: Vec<Number> = batches.concat();
                assert_eq!((of().types().0, of().rows()), (kind, numbers.len() as u64), "{batches:?}");
                assert!(is_in_file || of().iter().map(|(key, _)| key).eq(numbers.iter().copied()), "{batches:?}");
                assert_eq!(keys_of(of()), numbers, "{batches:?}");
            }
        }
        for kind in Type::ALL {
            let numbers = [kind.span().least, 5, kind.span().greatest];
            let pairs = pairs(Some(kind), false, &[&[], &numbers]);
            assert_eq!((pairs.types().0, keys_of(pairs)), (kind, numbers.to_vec()));
        }
    }

    #[test]
    fn arrays_are_of_any_type_that_holds_their_numbers() {
        for (from, to) in
            [(Type::I64, Type::U32), (Type::U32, Type::I64), (Type::I32, Type::I64), (Type::I64, Type::I32)]
        {
            let least = if from.is_signed() && to.is_signed() { -9 } else { 0 };
            let batches: &[&[Number]] = &[&[least, 5]];
            let in_file = pairs(Some(from), true, batches);
            let in_file = in_file.arrays(to).next().expect("rows").unwrap_or_else(|failure| panic!("{failure}"));
            let expected = Column::of([least as u64, 5].into_iter(), to).into_array(to);
            for arrays in [pairs(Some(from), false, batches).into_arrays(to), in_file] {
                assert_eq!((arrays[0].data_type(), &arrays[..]), (&to.data_type(), &[expected.clone()][..]));
            }
        }
    }
}
