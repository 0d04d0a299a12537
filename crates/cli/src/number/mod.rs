//! Numbers of columns: their types, and the narrowest type that holds some integers.
//!
//! ```text
//! number    as in a file: an integer from -2^63 to 2^64 - 1
//! word      as in memory: two's complement of 32 or 64 bits               words.rs
//! key       as in a table: the word; of signed types with the top bit flipped, so that keys are ordered as their
//!           numbers are
//! double    its bits as a u64: only values can be doubles, and integers become doubles only by --values f64
//! digits    as in text                                                    digits.rs
//! ```

pub(crate) mod digits;
mod words;

use clap::ValueEnum;

use koel::{KeyType, ValueType};

pub(crate) use words::reserve;
pub use words::{Column, Word, Words};

/// An integer of a file, from -2^63 to 2^64 - 1, or the bits of a double. It has 128 bits, so that one type holds the
/// numbers of all columns.
pub type Number = i128;

/// The type of the numbers of a column. `--keys` and `--values` name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Type {
    /// 0 to 2^32 - 1
    U32,
    /// -2^31 to 2^31 - 1
    I32,
    /// 0 to 2^64 - 1
    U64,
    /// -2^63 to 2^63 - 1
    I64,
    /// Doubles: values of groups and joins
    #[value(skip)]
    F64,
}

impl Type {
    /// The integer types, the narrowest first.
    pub const ALL: [Type; 4] = [Type::U32, Type::I32, Type::U64, Type::I64];

    /// The integer type with this number of bits.
    pub fn new(bits: u32, is_signed: bool) -> Type {
        match (bits > u32::BITS, is_signed) {
            (false, false) => Type::U32,
            (false, true) => Type::I32,
            (true, false) => Type::U64,
            (true, true) => Type::I64,
        }
    }

    /// The type of counts and row numbers, given the number of rows.
    pub fn of_count(rows: u64) -> Type {
        if rows > u32::MAX.into() { Type::U64 } else { Type::U32 }
    }

    /// The type of keys with this number of bits: signed if the keys of the table are.
    pub fn of_keys(key_type: KeyType, bits: u32) -> Type {
        Type::new(bits, key_type == KeyType::Signed)
    }

    /// The type of values with this number of bits: signed if the values of the table are.
    pub fn of_values(value_type: ValueType, bits: u32) -> Type {
        Type::new(bits, value_type == ValueType::Signed)
    }

    /// The name on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Type::U32 => "u32",
            Type::I32 => "i32",
            Type::U64 => "u64",
            Type::I64 => "i64",
            Type::F64 => "f64",
        }
    }

    /// 32 or 64.
    pub fn bits(self) -> u32 {
        if matches!(self, Type::U32 | Type::I32) { u32::BITS } else { u64::BITS }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Type::I32 | Type::I64)
    }

    /// The least and the greatest number of this type.
    pub fn span(self) -> Span {
        match self {
            Type::U32 => Span { least: 0, greatest: u32::MAX.into() },
            Type::I32 => Span { least: i32::MIN.into(), greatest: i32::MAX.into() },
            Type::U64 | Type::F64 => Span { least: 0, greatest: u64::MAX.into() },
            Type::I64 => Span { least: i64::MIN.into(), greatest: i64::MAX.into() },
        }
    }

    pub fn holds(self, number: Number) -> bool {
        let Span { least, greatest } = self.span();
        (least..=greatest).contains(&number)
    }

    /// The number that a word represents.
    pub fn number(self, word: u64) -> Number {
        match self {
            Type::U32 => (word as u32).into(),
            Type::I32 => (word as i32).into(),
            Type::U64 | Type::F64 => word.into(),
            Type::I64 => (word as i64).into(),
        }
    }

    /// The bit that is flipped to convert between words and keys of this type; 0 for unsigned types.
    pub fn turned(self) -> u64 {
        if self.is_signed() { 1 << (self.bits() - 1) } else { 0 }
    }

    /// The number that a key represents.
    pub fn of_key(self, key: impl Into<u64>) -> Number {
        self.number(key.into() ^ self.turned())
    }

    /// Returns the same number, or the bits of the nearest double if this is the type of doubles.
    pub fn of_whole(self, number: Number) -> Number {
        if self == Type::F64 { (number as f64).to_bits().into() } else { number }
    }

    /// The narrowest type that holds all integers of two types, if there is one.
    pub fn of_both(self, other: Type) -> Option<Type> {
        self.span().and(other.span()).narrowest()
    }
}

/// The least and the greatest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub least: Number,
    pub greatest: Number,
}

impl Default for Span {
    fn default() -> Span {
        Span::EMPTY
    }
}

impl Span {
    /// The span of no numbers: it fits every type, and adding it to another span changes nothing.
    pub const EMPTY: Span = Span { least: Number::MAX, greatest: Number::MIN };

    pub fn with(self, number: Number) -> Span {
        Span { least: self.least.min(number), greatest: self.greatest.max(number) }
    }

    /// The span of both.
    pub fn and(self, other: Span) -> Span {
        Span { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    pub fn fits(self, kind: Type) -> bool {
        let Span { least, greatest } = kind.span();
        self.least >= least && self.greatest <= greatest
    }

    /// The narrowest type that holds the whole span, if there is one.
    pub fn narrowest(self) -> Option<Type> {
        Type::ALL.into_iter().find(|&kind| self.fits(kind))
    }
}

/// Tracks the numbers of a column, to check whether a type holds all of them.
#[derive(Clone, Copy)]
pub struct Admitted {
    /// The type that the user or the file states; otherwise a type that holds all numbers is chosen.
    named: Option<Type>,
    span: Span,
}

impl Admitted {
    pub fn new(named: Option<Type>) -> Admitted {
        Admitted { named, span: Span::EMPTY }
    }

    /// Adds a number.
    ///
    /// # Errors
    /// The reason why it does not fit, as a clause.
    pub fn admit(&mut self, number: Number) -> Result<(), String> {
        if let Some(named) = self.named {
            let Span { least, greatest } = named.span();
            if named.holds(number) {
                return Ok(());
            }
            return Err(format!("{number} does not fit {} ({least} to {greatest})", named.name()));
        }
        if (self.span.least..=self.span.greatest).contains(&number) {
            return Ok(());
        }
        let span = self.span.with(number);
        if span.narrowest().is_some() {
            self.span = span;
            return Ok(());
        }
        let (least, greatest) = (Type::I64.span().least, Type::U64.span().greatest);
        if !(least..=greatest).contains(&number) {
            return Err(format!("{number} is not from {least} to {greatest}: numbers have 64 bits at most"));
        }
        let other = if number < 0 { span.greatest } else { span.least };
        Err(format!(
            "{number} and {other}, which is in the same column, do not fit one type: signed integers end at {}",
            Type::I64.span().greatest
        ))
    }

    /// Adds a span of numbers if one type holds it and the earlier numbers. Returns whether it does.
    pub fn admit_span(&mut self, span: Span) -> bool {
        if span == Span::EMPTY {
            return true;
        }
        match self.named {
            Some(named) => span.fits(named),
            None => {
                let both = self.span.and(span);
                let fits = both.narrowest().is_some();
                if fits {
                    self.span = both;
                }
                fits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_type_is_found() {
        for (numbers, expected) in [
            (&[][..], Some(Type::U32)),
            (&[0, 4_294_967_295], Some(Type::U32)),
            (&[-1, 2_147_483_647], Some(Type::I32)),
            (&[-2_147_483_648], Some(Type::I32)),
            (&[-1, 2_147_483_648], Some(Type::I64)),
            (&[-2_147_483_649], Some(Type::I64)),
            (&[4_294_967_296], Some(Type::U64)),
            (&[0, 18_446_744_073_709_551_615], Some(Type::U64)),
            (&[-1, 9_223_372_036_854_775_807], Some(Type::I64)),
            (&[-9_223_372_036_854_775_808], Some(Type::I64)),
            (&[-1, 9_223_372_036_854_775_808], None),
            (&[18_446_744_073_709_551_616], None),
            (&[-9_223_372_036_854_775_809], None),
        ] {
            let span = numbers.iter().fold(Span::EMPTY, |span, &number| span.with(number));
            assert_eq!(span.narrowest(), expected, "{numbers:?}");
            let mut admitted = Admitted::new(None);
            assert_eq!(numbers.iter().all(|&number| admitted.admit(number).is_ok()), expected.is_some(), "{numbers:?}");
        }
        assert_eq!(Type::U32.of_both(Type::I32), Some(Type::I64));
        assert_eq!((Type::I32.of_both(Type::I64), Type::U32.of_both(Type::U64)), (Some(Type::I64), Some(Type::U64)));
        assert_eq!(Type::U64.of_both(Type::I32), None);
    }

    #[test]
    fn a_type_that_is_named_holds_its_numbers_and_no_others() {
        for kind in Type::ALL {
            let Span { least, greatest } = kind.span();
            let mut admitted = Admitted::new(Some(kind));
            assert!([least, greatest].iter().all(|&number| admitted.admit(number).is_ok()));
            for outside in [least - 1, greatest + 1] {
                let reason = admitted.admit(outside).expect_err(kind.name());
                assert!(reason.contains(&format!("{outside} does not fit {}", kind.name())), "{reason}");
            }
            // Keys are ordered as their numbers are, and convert back to them.
            let mut numbers = [least, least + 1, 0, 1, greatest - 1, greatest];
            numbers.sort_unstable();
            let mask = u64::MAX >> (64 - kind.bits());
            let keys = numbers.map(|number| (number as u64 ^ kind.turned()) & mask);
            assert!(keys.is_sorted(), "{kind:?}");
            assert_eq!(keys.map(|key| kind.of_key(key)), numbers);
            assert_eq!(numbers.map(|number| kind.number(number as u64 & mask)), numbers);
        }
    }
}
