//! Decimal digits, eight at a time: parses and writes numbers without a branch for each digit.
//!
//! Eight digits are the bytes of a word, the first digit in the lowest byte. Neighbours are combined to numbers of two
//! digits, then of four and of eight; writing reverses these steps.

const ZEROS: u64 = 0x3030_3030_3030_3030;
const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const EIGHT: u64 = 100_000_000;

/// Returns the number that the leading digits represent, and how many digits there are; `None` if there are more than
/// 19.
#[inline]
pub(crate) fn leading(text: &[u8]) -> Option<(u64, usize)> {
    let Some(first) = word(text, 0) else { return one_by_one(text) };
    let digits = digits_of(first);
    if digits == 0 {
        return Some((0, 0));
    }
    if digits < 8 {
        return Some((number(first << (64 - 8 * digits)), digits));
    }
    let Some(second) = word(text, 8) else { return one_by_one(text) };
    match digits_of(second) {
        0 => Some((number(first), 8)),
        8 => one_by_one(text),
        more => Some((number(first) * TENS[more] + number(second << (64 - 8 * more)), 8 + more)),
    }
}

/// As `leading`, for many digits and near the end of a text.
#[inline(never)]
fn one_by_one(text: &[u8]) -> Option<(u64, usize)> {
    let digits = text.iter().take(20).take_while(|byte| byte.is_ascii_digit());
    let (number, digits) = digits.fold((0u64, 0), |(number, digits), digit| {
        (number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')), digits + 1)
    });
    (digits < 20).then_some((number, digits))
}

#[inline]
fn word(text: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(at..)?.first_chunk()?))
}

/// The number of leading digits.
#[inline]
fn digits_of(word: u64) -> usize {
    let values = word ^ ZEROS;
    // Sets the top bit of bytes that are not digits. Carries reach only bytes after such a byte.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    others.trailing_zeros() as usize / 8
}

/// The number that eight digits represent; leading bytes may be 0.
#[inline]
fn number(word: u64) -> u64 {
    const PAIRS: u64 = 0x0000_00ff_0000_00ff;
    let ones = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = ones.wrapping_mul(10).wrapping_add(ones >> 8);
    let front = (pairs & PAIRS).wrapping_mul(0x000f_4240_0000_0064);
    let back = ((pairs >> 16) & PAIRS).wrapping_mul(0x0000_2710_0000_0001);
    front.wrapping_add(back) >> 32
}

/// Writes a number.
#[inline]
pub(crate) fn write(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    // Words of eight bytes are written, and each may overwrite the unused end of the one before.
    out.extend_from_slice(&[0; 24]);
    let room = &mut out[start..];
    let mut length;
    if number < EIGHT {
        length = first(number, room);
    } else {
        let (front, back) = (number / EIGHT, number % EIGHT);
        if front < EIGHT {
            length = first(front, room);
        } else {
            length = first(front / EIGHT, room);
            put(spread(front % EIGHT), length, room);
            length += 8;
        }
        put(spread(back), length, room);
        length += 8;
    }
    out.truncate(start + length);
}

/// Writes a number of at most eight digits without leading zeros. Returns the number of digits.
#[inline]
fn first(number: u64, room: &mut [u8]) -> usize {
    // The leading part of a large number often has only one or two digits, which do not need `spread`.
    let digits = if number < 100 { ((number / 10) << 48) | ((number % 10) << 56) } else { spread(number) };
    // The last digit is written even if it is zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    put(digits >> (8 * zeros), 0, room);
    8 - zeros as usize
}

/// Writes eight digits, given by their values, at a position.
#[inline]
fn put(digits: u64, at: usize, room: &mut [u8]) {
    if let Some(room) = room.get_mut(at..at + 8) {
        room.copy_from_slice(&(digits | ZEROS).to_le_bytes());
    }
}

/// The values of eight digits, one per byte, the first digit in the lowest byte.
#[inline]
fn spread(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    // These divisions are exact for numbers below 10,000 and below 100.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all lengths, with zeros at all positions.
    fn numbers() -> impl Iterator<Item = u64> {
        let tens = (0..20).map(|power| 10u64.pow(power));
        let near = tens.flat_map(|ten| [ten - 1, ten, ten + 1, ten.wrapping_mul(9), ten + ten / 3, ten / 7]);
        let small = 0..20_000;
        let random = (0..20_000u64).map(|i| {
            let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            random >> (random % 64)
        });
        near.chain(small).chain(random).chain([u64::MAX, u64::MAX - 1])
    }

    #[test]
    fn text_is_what_others_write() {
        for number in numbers() {
            let mut text = b"x".to_vec();
            write(number, &mut text);
            assert_eq!(text, format!("x{number}").as_bytes());
        }
    }

    #[test]
    fn digits_are_read_up_to_what_ends_them() {
        for number in numbers() {
            for end in [b',', b'\n', b'/', b':', 0, 0x80, 0xb5, 0xff] {
                let mut text = number.to_string().into_bytes();
                let expected = (text.len() < 20).then_some((number, text.len()));
                assert_eq!(leading(&text), expected);
                text.push(end);
                assert_eq!(leading(&text), expected);
                text.extend([b'7'; 16]);
                assert_eq!(leading(&text), expected, "{}", text.escape_ascii());
            }
        }
        assert_eq!(leading(b"0000000000000000070"), Some((70, 19)));
        assert_eq!(leading(b"00000000000000000070"), None);
        assert_eq!(leading(b"-7,8............"), Some((0, 0)));
        assert_eq!(leading(b""), Some((0, 0)));
    }
}
