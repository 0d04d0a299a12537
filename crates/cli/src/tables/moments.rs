//! Dates and times as text: the forms of ISO 8601 that are usual in data files, in the Gregorian calendar for all
//! years.
//!
//! This is not a calendar library: the only time zones are UTC and offsets from it.

use std::io::Write;

pub(super) const MICROS_A_DAY: i64 = 86_400_000_000;

/// A timestamp that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Microseconds since 1970-01-01.
    pub(super) micros: i64,
    /// Whether the text has `Z` or an offset, so that the microseconds are UTC.
    pub(super) is_utc: bool,
}

/// Parses `2024-02-29`, as days since 1970-01-01.
pub(super) fn date(text: &[u8]) -> Option<i32> {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else { return None };
    let year = i64::from(two(y0, y1)? * 100 + two(y2, y3)?);
    let (month, day) = (two(m0, m1)?, two(d0, d1)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    i32::try_from(days(year, month, day)).ok()
}

/// Parses `2024-02-29T12:30:00.5Z`: a date and a time, separated by `T` or a blank. Seconds, their fraction and the
/// offset are optional. Fractions finer than microseconds are rejected.
pub(super) fn moment(text: &[u8]) -> Option<Moment> {
    let (day, rest) = text.split_at_checked(10)?;
    let [b'T' | b' ', h0, h1, b':', m0, m1, rest @ ..] = rest else { return None };
    let (hours, minutes) = (two(*h0, *h1)?, two(*m0, *m1)?);
    let (seconds, rest) = match rest {
        [b':', s0, s1, rest @ ..] => (two(*s0, *s1)?, rest),
        rest => (0, rest),
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => fraction(rest)?,
        rest => (0, rest),
    };
    let offset = offset(rest)?;
    let of_day = i64::from(hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction;
    let micros = i64::from(date(day)?) * MICROS_A_DAY + of_day - offset.unwrap_or(0) * 60_000_000;
    Some(Moment { micros, is_utc: offset.is_some() })
}

/// The microseconds of a fraction at the start of the text, and the rest of the text.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let beyond = digits.get(6..).unwrap_or(&[]);
    if !(1..=9).contains(&length) || beyond.iter().any(|&digit| digit != b'0') {
        return None;
    }
    let micros = (0..6).fold(0, |micros, i| 10 * micros + i64::from(digits.get(i).map_or(0, |digit| digit - b'0')));
    Some((micros, rest))
}

/// The offset from UTC in minutes: `Z`, `+01:00`, `+0100` or `+01`; `Some(None)` if there is no offset.
fn offset(text: &[u8]) -> Option<Option<i64>> {
    let (sign, digits) = match text {
        [] => return Some(None),
        b"Z" => return Some(Some(0)),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match *digits {
        [h0, h1] => (two(h0, h1)?, 0),
        [h0, h1, m0, m1] | [h0, h1, b':', m0, m1] => (two(h0, h1)?, two(m0, m1)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(Some(sign * i64::from(hours * 60 + minutes)))
}

/// A number of two digits.
fn two(tens: u8, ones: u8) -> Option<u32> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn days_of(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years begin in March here, so that the leap day is the last day.
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year, month and day of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Writes a date. Writing to memory does not fail.
pub(super) fn write_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

/// Writes the time `parts / a_second` seconds since 1970-01-01, with the fraction digits that it needs: 0, 3, 6 or 9.
pub(super) fn write_moment(out: &mut Vec<u8>, parts: i64, a_second: i64) {
    let seconds = parts.div_euclid(a_second);
    write_date(out, seconds.div_euclid(86_400));
    out.push(b'T');
    write_time(out, parts.rem_euclid(86_400 * a_second), a_second);
}

/// Writes the time of day `parts / a_second` seconds since midnight.
pub(super) fn write_time(out: &mut Vec<u8>, parts: i64, a_second: i64) {
    // A time of day is not negative, but files may contain such numbers.
    out.extend((parts < 0).then_some(b'-'));
    let (parts, a_second) = (parts.unsigned_abs(), a_second.unsigned_abs());
    let seconds = parts / a_second;
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    write_fraction(out, (parts % a_second * (1_000_000_000 / a_second)) as i64);
}

fn write_fraction(out: &mut Vec<u8>, nanos: i64) {
    let _ = match nanos {
        0 => Ok(()),
        nanos if nanos % 1_000_000 == 0 => write!(out, ".{:03}", nanos / 1_000_000),
        nanos if nanos % 1000 == 0 => write!(out, ".{:06}", nanos / 1000),
        nanos => write!(out, ".{nanos:09}"),
    };
}

/// Writes a period of months, days and fractions of a second, each of which may be negative: `P1M-2DT3.500S`.
pub(super) fn write_period(out: &mut Vec<u8>, months: i32, days: i32, (parts, a_second): (i128, i128)) {
    out.push(b'P');
    if months != 0 {
        let _ = write!(out, "{months}M");
    }
    if days != 0 {
        let _ = write!(out, "{days}D");
    }
    if parts != 0 || (months, days) == (0, 0) {
        let sign = if parts < 0 { "-" } else { "" };
        let _ = write!(out, "T{sign}{}", parts.unsigned_abs() / a_second.unsigned_abs());
        let fraction = (parts.unsigned_abs() % a_second.unsigned_abs()) as i64;
        write_fraction(out, fraction * (1_000_000_000 / a_second as i64));
        out.push(b'S');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_is_written_and_read() {
        for day in (-719_000..2_000_000).step_by(97).chain(-800..800) {
            let mut text = Vec::new();
            write_date(&mut text, i64::from(day));
            assert_eq!(date(&text), Some(day), "{}", String::from_utf8_lossy(&text));
        }
        assert_eq!([&b"1970-01-01"[..], b"2000-02-29", b"1969-12-31"].map(date), [Some(0), Some(11_016), Some(-1)]);
        for text in ["1900-02-29", "2024-13-01", "2024-00-10", "2024-01-32", "2024-1-01", "24-01-01", "2024-01-01 "] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn moments_are_written_and_read() {
        for micros in [0, -1, 1, 1_700_000_000_123_456, -62_000_000_000_000_000, 1_000, 86_399_999_999] {
            let mut text = Vec::new();
            write_moment(&mut text, micros, 1_000_000);
            assert_eq!(moment(&text), Some(Moment { micros, is_utc: false }), "{}", String::from_utf8_lossy(&text));
        }
        let utc = |micros| Some(Moment { micros, is_utc: true });
        assert_eq!(moment(b"1970-01-01T01:00:00.5+01:00"), utc(500_000));
        assert_eq!(moment(b"1970-01-01 00:00Z"), utc(0));
        assert_eq!(moment(b"1970-01-01T00:00:00.000001000-0030"), utc(1_800_000_001));
        for text in ["1970-01-01T24:00:00", "1970-01-01T00:00:00.", "1970-01-01T00:00:00.0000001", "1970-01-01T0:00:00"]
        {
            assert_eq!(moment(text.as_bytes()), None, "{text}");
        }
        let mut text = Vec::new();
        write_moment(&mut text, 1, 1_000_000_000);
        assert_eq!(text, b"1970-01-01T00:00:00.000000001");
        let mut text = Vec::new();
        write_moment(&mut text, i64::MIN, 1);
        assert!(text.ends_with(b"T08:29:52"), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn times_and_periods_are_written() {
        let time = |parts, a_second| {
            let mut text = Vec::new();
            write_time(&mut text, parts, a_second);
            String::from_utf8(text).expect("text")
        };
        assert_eq!(
            [time(86_399, 1), time(1_500, 1_000), time(60_000_001_000, 1_000_000_000)],
            ["23:59:59", "00:00:01.500", "00:01:00.000001"]
        );
        assert_eq!(time(-3_661, 1), "-01:01:01");
        let period = |months, days, parts, a_second| {
            let mut text = Vec::new();
            write_period(&mut text, months, days, (parts, a_second));
            String::from_utf8(text).expect("text")
        };
        assert_eq!(period(0, 0, 0, 1), "PT0S");
        assert_eq!(period(14, -3, 0, 1), "P14M-3D");
        assert_eq!(period(0, 1, -1_500, 1_000), "P1DT-1.500S");
        assert_eq!(period(0, 0, i64::MIN.into(), 1_000_000_000), "PT-9223372036.854775808S");
    }
}
