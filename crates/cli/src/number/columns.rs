//! Columns of numbers in memory, each as narrow as its numbers are.
//!
//! Text says what its numbers are only at its end, and may be a pipe, which is read once. So a column begins with words
//! of 32 bits, and the first number that does not fit makes it one of 64: it is copied once, and nothing is read again.

use koel::scheme::{Key, Value};

use super::{Number, Span, Type};
use crate::failure::Result;

/// A column of numbers.
#[derive(Debug)]
pub struct Numbers {
    words: Words,
    kind: Type,
    /// Whether its type is what the user or the file says.
    is_named: bool,
    span: Span,
}

/// Numbers in two's complement.
#[derive(Debug)]
enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// What a table's columns hold: `u32` or `u64`.
pub trait Word: Key + Value {
    /// The words of a column whose type has as many bits.
    fn of(column: Numbers) -> Result<Vec<Self>>;
}

impl Word for u32 {
    fn of(column: Numbers) -> Result<Vec<u32>> {
        match column.words {
            Words::Narrow(words) => Ok(words),
            Words::Wide(words) => mapped(&words, |word| word as u32),
        }
    }
}

impl Word for u64 {
    fn of(column: Numbers) -> Result<Vec<u64>> {
        match column.words {
            Words::Narrow(words) => mapped(&words, |word| column.kind.number(word.into()) as u64),
            Words::Wide(words) => Ok(words),
        }
    }
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { words: Words::Narrow(Vec::new()), kind: Type::U32, is_named: false, span: Span::EMPTY }
    }
}

impl Numbers {
    /// The type of an empty column, where the user or the file says it.
    pub fn begin(&mut self, named: Option<Type>) {
        if let Some(kind) = named {
            (self.kind, self.is_named) = (kind, true);
            self.words = if kind.bits() == u32::BITS { Words::Narrow(Vec::new()) } else { Words::Wide(Vec::new()) };
        }
    }

    /// Appends numbers, all of which some type holds together with those that are there; or says that memory is not
    /// enough.
    pub fn append(&mut self, numbers: &[Number]) -> Result<()> {
        self.span = self.span.and(Span::of(numbers));
        if !self.is_named {
            self.widen(self.span.narrowest().unwrap_or(Type::I64))?;
        }
        match &mut self.words {
            Words::Narrow(words) => append(words, numbers, |number| number as u32),
            Words::Wide(words) => append(words, numbers, |number| number as u64),
        }
    }

    /// The words of another type, which holds all numbers of this one.
    fn widen(&mut self, kind: Type) -> Result<()> {
        if let (Words::Narrow(words), u64::BITS) = (&self.words, kind.bits()) {
            let old = self.kind;
            self.words = Words::Wide(mapped(words, |word| old.number(word.into()) as u64)?);
        }
        self.kind = kind;
        Ok(())
    }

    /// Rows.
    pub fn len(&self) -> usize {
        match &self.words {
            Words::Narrow(words) => words.len(),
            Words::Wide(words) => words.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the numbers are.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// Whether its type is what the user or the file says, and not what the numbers asked for.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// The least and the greatest.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The number of a row that there is; 0 of others.
    pub fn number(&self, row: usize) -> Number {
        let word = match &self.words {
            Words::Narrow(words) => words.get(row).copied().map(u64::from),
            Words::Wide(words) => words.get(row).copied(),
        };
        word.map_or(0, |word| self.kind.number(word))
    }

    /// All numbers.
    pub fn iter(&self) -> impl Iterator<Item = Number> {
        (0..self.len()).map(|row| self.number(row))
    }

    /// The same numbers as another type, which holds them.
    pub fn into_kind(mut self, kind: Type) -> Result<Numbers> {
        debug_assert!(self.span.fits(kind));
        self.words = match kind.bits() {
            u32::BITS => Words::Narrow(<u32 as Word>::of(Numbers { words: self.words, ..self })?),
            _ => Words::Wide(<u64 as Word>::of(Numbers { words: self.words, ..self })?),
        };
        self.kind = kind;
        Ok(self)
    }

    /// The numbers as words of a table's values.
    pub fn into_values<V: Word>(self) -> Result<Vec<V>> {
        V::of(self)
    }

    /// The numbers as keys of a table.
    pub fn into_keys<K: Word>(self) -> Result<Vec<K>> {
        let turned = self.kind.turned();
        let mut keys = K::of(self)?;
        if turned != 0 {
            keys.iter_mut().for_each(|key| *key = K::low((*key).into() ^ turned));
        }
        Ok(keys)
    }
}

/// Appends to a column, or says that memory is not enough for it.
fn append<T>(words: &mut Vec<T>, numbers: &[Number], word: impl Fn(Number) -> T) -> Result<()> {
    reserve(words, numbers.len())?;
    words.extend(numbers.iter().map(|&number| word(number)));
    Ok(())
}

fn mapped<T: Copy, U>(words: &[T], word: impl Fn(T) -> U) -> Result<Vec<U>> {
    let mut column = Vec::new();
    reserve(&mut column, words.len())?;
    column.extend(words.iter().map(|&old| word(old)));
    Ok(column)
}

/// Room for so many more, or an error that says that memory is not enough.
pub(crate) fn reserve<T>(words: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = (size_of::<T>() * words.len().max(more)) as u64;
    words.try_reserve(more).map_err(|_| koel::Error::OutOfMemory { device: "cpu".into(), bytes })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(named: Option<Type>, batches: &[&[Number]]) -> Numbers {
        let mut column = Numbers::default();
        column.begin(named);
        batches.iter().for_each(|batch| column.append(batch).unwrap_or_else(|failure| panic!("{failure}")));
        column
    }

    #[test]
    fn columns_widen_where_a_number_needs_it() {
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
            let column = column(None, batches);
            let numbers: Vec<Number> = batches.concat();
            assert_eq!((column.kind(), column.len(), column.is_named()), (kind, numbers.len(), false), "{batches:?}");
            assert!(column.iter().eq(numbers.iter().copied()), "{batches:?}");
            let keys: Vec<u64> = match kind.bits() {
                u32::BITS => column.into_keys::<u32>().map(|keys| keys.into_iter().map(u64::from).collect()),
                _ => column.into_keys::<u64>(),
            }
            .unwrap_or_else(|failure| panic!("{failure}"));
            assert!(keys.iter().map(|&key| kind.of_key(key)).eq(numbers), "{batches:?}");
        }
    }

    #[test]
    fn types_that_are_named_stay_until_they_are_changed() {
        for kind in Type::ALL {
            let numbers = [kind.span().least, 5, kind.span().greatest];
            let column = column(Some(kind), &[&[], &numbers]);
            assert!(column.is_named() && column.kind() == kind && column.iter().eq(numbers));
        }
        for (from, to) in
            [(Type::I64, Type::U32), (Type::U32, Type::I64), (Type::I32, Type::I64), (Type::I64, Type::I32)]
        {
            let least = if from.is_signed() && to.is_signed() { -9 } else { 0 };
            let changed =
                column(Some(from), &[&[least, 5]]).into_kind(to).unwrap_or_else(|failure| panic!("{failure}"));
            assert!(changed.kind() == to && changed.iter().eq([least, 5]), "{from:?} {to:?}");
        }
    }
}
