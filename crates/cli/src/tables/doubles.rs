//! Which decimal numbers a double represents: those that are printed from it with the digits that were written.
//!
//! A double represents any 15 significant digits. With more digits, the nearest double, rounded to the same number of
//! digits, must have the same digits. All numbers that programs print for doubles are accepted, at any precision:
//! `0.30000000000000004`, or `1.000000000000000056e-01` by NumPy's `savetxt`. `12345678901234567890.12`, `1e400` and
//! `1e-400` are not.

use std::io::Write;

/// A double represents any number with at most this many significant digits.
const SAFE: usize = 15;
/// The exponents for which [`SAFE`] applies.
const EXPONENTS: std::ops::RangeInclusive<i64> = -290..=290;
/// More digits than any double needs.
const MOST: usize = 800;

/// Whether a double represents a number, which consists of digits, and optionally a point, an exponent and a sign.
pub(super) fn holds(text: &[u8]) -> bool {
    let number = text.strip_prefix(b"-").unwrap_or(text);
    let end = number.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(number.len());
    // The digits from the first to the last one that is not 0, and the position of the point before or after them.
    let mantissa = &number[..end];
    let is_digit = |byte: &u8| matches!(byte, b'1'..=b'9');
    let (Some(first), Some(last)) = (mantissa.iter().position(is_digit), mantissa.iter().rposition(is_digit)) else {
        return true;
    };
    let significant = &mantissa[first..=last];
    let point = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(end);
    let digits = significant.len() - usize::from((first..last).contains(&point));
    let written = std::str::from_utf8(number.get(end + 1..).unwrap_or(&[])).unwrap_or("");
    let exponent = match written.parse::<i64>() {
        _ if written.is_empty() => Some(0),
        Ok(exponent) => Some(exponent),
        // Beyond the range of doubles.
        Err(_) => None,
    };
    // The exponent of the first digit.
    let place = if first < point { point as i64 - first as i64 - 1 } else { point as i64 - first as i64 };
    let Some(exponent) = exponent.and_then(|exponent| exponent.checked_add(place)) else { return false };
    if digits <= SAFE && EXPONENTS.contains(&exponent) {
        return true;
    }
    let Some(double) = std::str::from_utf8(number).ok().and_then(|number| number.parse::<f64>().ok()) else {
        return false;
    };
    if is_nearest(significant, digits, exponent, double) {
        return true;
    }
    let mut room = [0u8; MOST + 16];
    let mut is = |text: std::fmt::Arguments<'_>| {
        let mut rest = &mut room[..];
        let (Ok(()), left) = (rest.write_fmt(text), rest.len()) else { return false };
        let length = room.len() - left;
        let Some(e) = room[..length].iter().position(|&byte| byte == b'e') else { return false };
        let same = significant.iter().filter(|&&byte| byte != b'.').eq(room[..e].iter().filter(|&&byte| byte != b'.'));
        same && std::str::from_utf8(&room[e + 1..length]).is_ok_and(|of| of.parse() == Ok(exponent))
    };
    digits <= MOST
        && double.is_finite()
        && (is(format_args!("{double:e}")) || is(format_args!("{double:.*e}", digits - 1)))
}

/// Whether a double and a number differ by at most half a unit of the number's last digit. Handles the usual cases, in
/// which 128 bits hold both in common units; returns false in others.
fn is_nearest(significant: &[u8], digits: usize, exponent: i64, double: f64) -> bool {
    let bits = double.to_bits();
    // double = mantissa / 2^halvings
    let (mantissa, halvings) = ((bits & ((1 << 52) - 1)) | 1 << 52, 1075 - (bits >> 52) as i64);
    let decimals = digits as i64 - 1 - exponent;
    if digits > 19 || !(1..=22).contains(&decimals) || !(1..=126).contains(&halvings) {
        return false;
    }
    let digit = |number: u128, &byte: &u8| if byte == b'.' { number } else { 10 * number + u128::from(byte - b'0') };
    let number = significant.iter().fold(0, digit) << halvings;
    let double = u128::from(mantissa) * 10u128.pow(decimals as u32);
    double.abs_diff(number) <= 1 << (halvings - 1)
}

/// Whether a double represents an integer exactly.
pub(super) fn holds_whole(number: i128) -> bool {
    // Conversions to doubles round; the conversion back is exact for numbers of 65 bits.
    number.unsigned_abs() <= 1 << 53 || number as f64 as i128 == number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_if_they_print_unchanged() {
        for text in [
            "0",
            "0.0",
            "-0",
            ".0",
            "0e999",
            "000",
            "1",
            "1.50",
            "-1.5e-3",
            "123456789012345",
            "0.1",
            "1e22",
            "1e23",
            "0.30000000000000004",
            "1.000000000000000056e-01",
            "0.1000000000000000055511151231257827",
            "5e-324",
            "4.9406564584124654e-324",
            "2.2250738585072014e-308",
            "1.7976931348623157e308",
            "9007199254740992.0",
            "12345678901234567000",
            "0.10000000000000000000000000000000000000",
            "5.",
            ".5",
            "1E+5",
            "3.333333333333333",
            "3.3333333333333335",
            "1e-320",
            "5.684341886080802e-14",
        ] {
            assert!(holds(text.as_bytes()), "{text}");
        }
        for text in [
            "1e400",
            "1e500",
            "-1e400",
            "1e-400",
            "1e99999999999999999999",
            "12345678901234567890.12",
            "9007199254740993.0",
            "0.12345678901234567890",
            "3.3333333333333333",
            "1.0000000000000000001",
            "123456789012345678e-400",
            "2e-324",
            "9007199254740992.5e1",
            "1.23456789012345e-320",
        ] {
            assert!(!holds(text.as_bytes()), "{text}");
        }
        assert!(!holds(format!("1{}1", "0".repeat(2000)).as_bytes()));
        assert!(holds_whole(1 << 53) && !holds_whole((1 << 53) + 1) && holds_whole(-(1 << 60)) && holds_whole(1 << 63));
        assert!(!holds_whole(u64::MAX.into()) && !holds_whole(i64::MAX.into()) && holds_whole(i64::MIN.into()));
    }

    /// All printed forms of a double are accepted, and are read as the same double.
    #[test]
    fn printed_doubles_are_kept() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let double = f64::from_bits(bits ^ bits >> 29);
            if double.is_finite() {
                for text in [format!("{double}"), format!("{double:e}"), format!("{double:.*e}", round % 30)] {
                    let is_same = text.parse() == Ok(double);
                    assert!(holds(text.as_bytes()) || !is_same, "{text}");
                }
            }
        }
    }
}
