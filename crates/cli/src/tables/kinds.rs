//! The types that a column of text can have: stated by the user, or chosen to fit all fields.
//!
//! Each field is in the narrowest class that it fits. A column's type depends only on the classes of its fields: not on
//! their order, nor on where a file was cut.
//!
//! ```text
//! 5, 0              int64, with -5; uint64, with 9223372036854775808; both together: text
//! 1.50, 1e9, NaN    float64, with integers; text if it cannot hold all numbers: with 9007199254740993
//! true, false       bool
//! 2024-02-29        date32;  with 2024-02-29T12:30:00 a timestamp of microseconds;  2024-02-29T12:30:00Z one of UTC
//! 007, +5, 1 000    text, because numbers would be written without the zeros or signs; also what 64 bits do not hold
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use koel_arrow::plain_type;

use super::doubles;
use super::moments::{Moment, date, moment};

/// The type of a column of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int32,
    Int64,
    UInt32,
    UInt64,
    Float64,
    Bool,
    Date32,
    Timestamp { is_utc: bool },
    Decimal(u8, i8),
    Utf8,
}

/// The names of all types except decimals, in lower case: koel's own first, then those of Arrow and SQL.
const NAMES: [(Kind, &[&str]); 10] = [
    (Kind::Int32, &["int32", "i32", "int", "integer"]),
    (Kind::Int64, &["int64", "i64", "bigint"]),
    (Kind::UInt32, &["uint32", "u32"]),
    (Kind::UInt64, &["uint64", "u64"]),
    (Kind::Float64, &["float64", "f64", "float", "double"]),
    (Kind::Utf8, &["utf8", "largeutf8", "utf8view", "string", "text", "varchar"]),
    (Kind::Bool, &["bool", "boolean"]),
    (Kind::Date32, &["date32", "date"]),
    (Kind::Timestamp { is_utc: false }, &["timestamp"]),
    (Kind::Timestamp { is_utc: true }, &["timestamp_utc", "timestamptz"]),
];

impl Kind {
    /// The type of a name, whose case does not matter.
    pub(super) fn named(name: &str) -> Result<Kind, String> {
        let lower = name.trim().to_ascii_lowercase();
        let known = NAMES.iter().find(|(_, names)| names.contains(&lower.as_str())).map(|&(kind, _)| kind);
        known.or_else(|| Kind::decimal(&lower)).ok_or_else(|| {
            let own = NAMES.map(|(_, names)| names[0]).join(", ");
            format!("`{name}` is not a column type: use {own} or decimal(p,s), of up to 38 digits")
        })
    }

    fn decimal(name: &str) -> Option<Kind> {
        let (of, numbers) = name.strip_suffix(')')?.split_once('(')?;
        let (precision, scale) = numbers.split_once(',')?;
        let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
        let is_decimal = matches!(of, "decimal" | "decimal128" | "numeric");
        let fits = is_decimal && (1..=38).contains(&precision) && (0..=precision as i8).contains(&scale);
        fits.then_some(Kind::Decimal(precision, scale))
    }

    /// What messages call it.
    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            Kind::Decimal(precision, scale) => format!("decimal({precision},{scale})").into(),
            _ => NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, names)| names[0]).into(),
        }
    }

    pub(super) fn data_type(self) -> DataType {
        match self {
            Kind::Int32 => DataType::Int32,
            Kind::Int64 => DataType::Int64,
            Kind::UInt32 => DataType::UInt32,
            Kind::UInt64 => DataType::UInt64,
            Kind::Float64 => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Date32 => DataType::Date32,
            Kind::Timestamp { is_utc } => DataType::Timestamp(TimeUnit::Microsecond, is_utc.then(|| Arc::from("UTC"))),
            Kind::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
            Kind::Utf8 => DataType::Utf8,
        }
    }
}

/// The name of the type of text whose values can equal those of a type, if there is one.
pub(crate) fn kind_of(data_type: &DataType) -> Option<String> {
    use DataType::*;
    Some(match plain_type(data_type) {
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => "int64".into(),
        UInt64 => "uint64".into(),
        Float16 | Float32 | Float64 => "float64".into(),
        Boolean => "bool".into(),
        Date32 => "date32".into(),
        Utf8 | LargeUtf8 | Utf8View => "utf8".into(),
        Timestamp(_, None) => "timestamp".into(),
        Timestamp(_, Some(_)) => "timestamp_utc".into(),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) if scale >= 0 => {
            format!("decimal(38,{scale})")
        }
        _ => return None,
    })
}

/// The classes of the fields of a column, one bit each; nulls have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(u16);

impl Seen {
    /// Integers from 0 that fit in int64.
    pub(super) const WHOLE: Seen = Seen(1);
    pub(super) const NEGATIVE: Seen = Seen(2);
    /// Integers that only uint64 holds.
    pub(super) const BIG: Seen = Seen(4);
    pub(super) const FLOAT: Seen = Seen(8);
    pub(super) const BOOL: Seen = Seen(16);
    pub(super) const DATE: Seen = Seen(32);
    pub(super) const TIME: Seen = Seen(64);
    pub(super) const UTC: Seen = Seen(128);
    pub(super) const TEXT: Seen = Seen(256);
    /// Integers that float64 cannot represent exactly; set in addition to their class.
    pub(super) const WIDE: Seen = Seen(512);

    pub(super) fn and(self, other: Seen) -> Seen {
        Seen(self.0 | other.0)
    }

    pub(super) fn has(self, other: Seen) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn is_within(self, others: &[Seen]) -> bool {
        let all = others.iter().fold(Seen::default(), |all, &other| all.and(other));
        all.has(self)
    }

    /// A type that fits all classes; text if there are none.
    pub(super) fn kind(self) -> Kind {
        let is = |others: &[Seen]| self.is_within(others);
        if self == Seen::default() {
            Kind::Utf8
        } else if is(&[Seen::WHOLE, Seen::NEGATIVE, Seen::WIDE]) {
            Kind::Int64
        } else if is(&[Seen::WHOLE, Seen::BIG, Seen::WIDE]) {
            Kind::UInt64
        } else if is(&[Seen::WHOLE, Seen::NEGATIVE, Seen::BIG, Seen::FLOAT]) && self.has(Seen::FLOAT) {
            Kind::Float64
        } else if is(&[Seen::BOOL]) {
            Kind::Bool
        } else if is(&[Seen::DATE]) {
            Kind::Date32
        } else if is(&[Seen::DATE, Seen::TIME]) {
            Kind::Timestamp { is_utc: false }
        } else if is(&[Seen::UTC]) {
            Kind::Timestamp { is_utc: true }
        } else {
            Kind::Utf8
        }
    }

    /// The class of a field that is not null.
    pub(super) fn of(text: &[u8]) -> Seen {
        match text.first() {
            None => Seen::TEXT,
            Some(b'0'..=b'9') if text.get(4) == Some(&b'-') => match (date(text), moment(text)) {
                (Some(_), _) => Seen::DATE,
                (_, Some(Moment { is_utc: false, .. })) => Seen::TIME,
                (_, Some(Moment { is_utc: true, .. })) => Seen::UTC,
                _ => Seen::TEXT,
            },
            Some(b'0'..=b'9' | b'-' | b'.' | b'N' | b'n' | b'i') => Seen::of_number(text),
            Some(_) if text == b"true" || text == b"false" => Seen::BOOL,
            Some(_) => Seen::TEXT,
        }
    }

    fn of_number(text: &[u8]) -> Seen {
        if matches!(text, b"NaN" | b"nan" | b"inf" | b"-inf") {
            return Seen::FLOAT;
        }
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if whole > 1 && digits[0] == b'0' {
            return Seen::TEXT;
        }
        if whole < digits.len() {
            let is_float = is_fraction(&digits[whole..], whole > 0) && doubles::holds(text);
            return if is_float { Seen::FLOAT } else { Seen::TEXT };
        }
        let Some(number) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i128>().ok()) else {
            return Seen::TEXT;
        };
        let class = match negative {
            // -0 is a float, because integers have no negative zero.
            true if number == 0 => Seen::FLOAT,
            true if i64::try_from(number).is_ok() => Seen::NEGATIVE,
            false if i64::try_from(number).is_ok() => Seen::WHOLE,
            false if u64::try_from(number).is_ok() => Seen::BIG,
            _ => return Seen::TEXT,
        };
        if doubles::holds_whole(number) { class } else { class.and(Seen::WIDE) }
    }
}

/// Whether `text` is the end of a number: a point and digits, an exponent, or both. There must be a digit before or
/// after the point.
fn is_fraction(text: &[u8], has_digits: bool) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (has_digits, rest) = match text {
        [b'.', rest @ ..] => (has_digits || digits(rest) > 0, &rest[digits(rest)..]),
        rest => (has_digits, rest),
    };
    let exponent = match rest {
        [] => return has_digits,
        [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => exponent,
        _ => return false,
    };
    has_digits && !exponent.is_empty() && digits(exponent) == exponent.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_narrowest_class() {
        for (class, texts) in [
            (Seen::WHOLE, &["0", "7", "9007199254740992"][..]),
            (Seen::WHOLE.and(Seen::WIDE), &["9007199254740993", "9223372036854775807"]),
            (Seen::NEGATIVE, &["-1", "-9223372036854775808"]),
            (Seen::NEGATIVE.and(Seen::WIDE), &["-9007199254740993"]),
            (Seen::BIG, &["9223372036854775808"]),
            (Seen::BIG.and(Seen::WIDE), &["18446744073709551615"]),
            (Seen::FLOAT, &["1.50", "0.5", ".5", "5.", "1e5", "-1.5E-10", "NaN", "-inf", "-0", "2.e+1"]),
            (Seen::BOOL, &["true", "false"]),
            (Seen::DATE, &["2024-02-29"]),
            (Seen::TIME, &["2024-02-29 12:30:00", "2024-02-29T12:30:00.123456"]),
            (Seen::UTC, &["2024-02-29T12:30:00Z", "2024-02-29T12:30:00+02:00"]),
            (
                Seen::TEXT,
                &[
                    "",
                    "007",
                    "00",
                    "+5",
                    "-",
                    ".",
                    "-.",
                    "1e",
                    "1e+",
                    "e5",
                    " 1",
                    "1 ",
                    "18446744073709551616",
                    "-00",
                    "2023-02-29",
                    "1.2.3",
                    "True",
                    "nil",
                    "infinite",
                    "0x10",
                    "1_000",
                    "007.5",
                    "-9223372036854775809",
                    "340282366920938463463374607431768211456",
                    "5-",
                    "\u{e9}",
                    "1234-",
                    "1e400",
                    "1e-400",
                    "12345678901234567890.12",
                ],
            ),
        ] {
            for text in texts {
                assert_eq!(Seen::of(text.as_bytes()), class, "{text}");
            }
        }
    }

    #[test]
    fn classes_make_a_type() {
        let of = |classes: &[Seen]| classes.iter().fold(Seen::default(), |all, &class| all.and(class)).kind();
        assert_eq!(of(&[]), Kind::Utf8);
        assert_eq!(of(&[Seen::WHOLE, Seen::NEGATIVE]), Kind::Int64);
        assert_eq!(of(&[Seen::WHOLE, Seen::BIG]), Kind::UInt64);
        assert_eq!(of(&[Seen::NEGATIVE, Seen::BIG]), Kind::Utf8);
        assert_eq!(of(&[Seen::NEGATIVE, Seen::BIG, Seen::FLOAT]), Kind::Float64);
        assert_eq!(of(&[Seen::DATE, Seen::TIME]), Kind::Timestamp { is_utc: false });
        assert_eq!(of(&[Seen::NEGATIVE, Seen::WHOLE.and(Seen::WIDE)]), Kind::Int64);
        assert_eq!(of(&[Seen::WHOLE, Seen::BIG.and(Seen::WIDE)]), Kind::UInt64);
        assert_eq!(of(&[Seen::WHOLE.and(Seen::WIDE), Seen::FLOAT]), Kind::Utf8);
        assert_eq!(of(&[Seen::UTC, Seen::TIME]), Kind::Utf8);
        assert_eq!(of(&[Seen::BOOL, Seen::WHOLE]), Kind::Utf8);
    }
}
