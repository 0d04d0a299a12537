//! The numbers of an array, by NumPy's codes: `<u4`, `>i8`, `<f8`.

use crate::number::{Number, Type};

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scalar {
    form: Form,
    /// Bytes: 1, 2, 4 or 8.
    pub(super) width: usize,
    big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unsigned,
    Signed,
    Float,
}

impl Scalar {
    /// The type of a code, if it is one that is read: whole numbers, and floats of 32 and 64 bits.
    pub(super) fn of(code: &str) -> Option<Scalar> {
        let [order @ (b'<' | b'>' | b'|' | b'='), form, width] = *code.as_bytes() else { return None };
        let form = match (form, width) {
            (b'u', b'1' | b'2' | b'4' | b'8') => Form::Unsigned,
            (b'i', b'1' | b'2' | b'4' | b'8') => Form::Signed,
            (b'f', b'4' | b'8') => Form::Float,
            _ => return None,
        };
        let big_endian = if order == b'=' { cfg!(target_endian = "big") } else { order == b'>' };
        Some(Scalar { form, width: usize::from(width - b'0'), big_endian })
    }

    pub(super) fn is_whole(self) -> bool {
        self.form != Form::Float
    }

    /// The narrowest type of a column that holds all numbers of this one.
    pub(super) fn kind(self) -> Type {
        match self.form {
            Form::Float => Type::F64,
            form => Type::new(8 * self.width as u32, form == Form::Signed),
        }
    }

    /// A number of this type, as one of its column's; `bytes` begins with it.
    pub(super) fn decode(self, bytes: &[u8]) -> Number {
        let mut wide = [0; 8];
        wide[..self.width].copy_from_slice(&bytes[..self.width]);
        if self.big_endian {
            wide[..self.width].reverse();
        }
        let word = u64::from_le_bytes(wide);
        let unused = 64 - 8 * self.width as u32;
        match (self.form, self.width) {
            (Form::Unsigned, _) => word.into(),
            // Shifted to the top and back, a negative number gets its sign.
            (Form::Signed, _) => ((word << unused) as i64 >> unused).into(),
            (Form::Float, 4) => f64::from(f32::from_bits(word as u32)).to_bits().into(),
            (Form::Float, _) => word.into(),
        }
    }
}

/// The bytes of a number of any type that has a fixed width, `<M8[ns]` and `<U3` among them.
pub(super) fn width_of(code: &str) -> Option<usize> {
    let rest = code.strip_prefix(['<', '>', '|', '='])?;
    let form = rest.chars().next().filter(char::is_ascii_alphabetic)?;
    let digits = rest[1..].split('[').next()?;
    let count: usize = digits.parse().ok().filter(|&count| count <= super::PIECE)?;
    Some(if form == 'U' { 4 * count } else { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read() {
        let decoded = |code, bytes: &[u8]| {
            let scalar = Scalar::of(code)?;
            Some((scalar.kind(), scalar.decode(bytes)))
        };
        assert_eq!(decoded("|i1", &[0x80]), Some((Type::I32, -128)));
        assert_eq!(decoded(">u2", &[1, 2]), Some((Type::U32, 0x0102)));
        assert_eq!(decoded("<i8", &[0xff; 9]), Some((Type::I64, -1)));
        assert_eq!(decoded(">f4", &1.5f32.to_be_bytes()), Some((Type::F64, 1.5f64.to_bits().into())));
        assert_eq!(decoded("<f8", &(-0.1f64).to_le_bytes()), Some((Type::F64, (-0.1f64).to_bits().into())));
        for code in ["", "u4", "<u3", "<f2", "|b1", "<c8", "<U3", "<u44", "<\u{e9}"] {
            assert_eq!(Scalar::of(code), None, "{code}");
        }
        let widths = [("<u4", 4), ("|b1", 1), ("|V12", 12), ("<U3", 12), ("<M8[ns]", 8), ("|S31", 31), ("<f16", 16)];
        assert!(widths.iter().all(|&(code, width)| width_of(code) == Some(width)));
        for code in ["", "<", "|O", "u4", "<u", "|V99999999", "<\u{e9}4", "|V-1"] {
            assert_eq!(width_of(code), None, "{code}");
        }
    }
}
