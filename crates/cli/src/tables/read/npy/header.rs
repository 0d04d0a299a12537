//! The header of an `.npy` file: a Python dictionary with three keys, parsed in one pass and without recursion.
//!
//! ```text
//! \x93NUMPY  major minor  length  {'descr': '<u4', 'fortran_order': False, 'shape': (3, 2), }
//! 6 bytes    1     1      2 bytes in version 1.0, 4 in 2.0 and 3.0
//! ```
//!
//! This is not a parser of Python: element types that koel does not support are skipped, not parsed.

use std::io::Read;

/// The most bytes of a header. NumPy accepts 10,000.
pub(super) const MOST: usize = 1 << 16;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) element: Element,
    /// Whether all values of the first column are stored before those of the second.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

/// The type of an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// A type by its code, like `<u4`.
    Plain(String),
    /// A record of plain fields, with their names and codes. Padding is a field without a name.
    Record(Vec<(String, String)>),
    /// A record with fields that are not plain, and the name of its first field.
    Nested(String),
}

/// The bytes of an element of a plain type, if its width is fixed, as for `<M8[ns]` and `<U3`.
pub(super) fn width(code: &str) -> Option<usize> {
    let rest = code.strip_prefix(['<', '>', '|', '='])?;
    let form = rest.chars().next().filter(char::is_ascii_alphabetic)?;
    let digits = rest[1..].split('[').next()?;
    let count: usize = digits.parse().ok().filter(|&count| count <= MOST)?;
    Some(if form == 'U' { 4 * count } else { count })
}

/// Reads a header; the elements follow it.
///
/// # Errors
/// A description of what is wrong with the header.
pub(super) fn read(reader: &mut impl Read) -> Result<Header, String> {
    let mut start = [0; 8];
    fill(reader, &mut start)?;
    if &start[..6] != b"\x93NUMPY" {
        return Err("it does not begin with \\x93NUMPY".into());
    }
    let length = match start[6..] {
        [1, 0] => {
            let mut bytes = [0; 2];
            fill(reader, &mut bytes)?;
            u16::from_le_bytes(bytes).into()
        }
        [2 | 3, 0] => {
            let mut bytes = [0; 4];
            fill(reader, &mut bytes)?;
            u32::from_le_bytes(bytes)
        }
        _ => return Err(format!("version {}.{} is not 1.0, 2.0 or 3.0", start[6], start[7])),
    };
    if length as usize > MOST {
        return Err(format!("it claims {length} bytes, and {MOST} are the most"));
    }
    let mut text = Vec::new();
    let read = reader.take(length.into()).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if read < length as usize {
        return Err(format!("it ends {} bytes early", length as usize - read));
    }
    parse(&text)
}

fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|_| "the file ends within it".into())
}

/// Parses the dictionary of a header.
fn parse(text: &[u8]) -> Result<Header, String> {
    let mut text = Text { bytes: text, at: 0 };
    let (mut element, mut fortran_order, mut shape) = (None, None, None);
    text.expect(b'{')?;
    while !text.takes(b'}') {
        let key = text.string()?;
        text.expect(b':')?;
        let is_new = match key.as_str() {
            "descr" => element.replace(text.element()?).is_none(),
            "fortran_order" => fortran_order.replace(text.boolean()?).is_none(),
            "shape" => shape.replace(text.shape()?).is_none(),
            _ => return Err(format!("the key '{key}' is not 'descr', 'fortran_order' or 'shape'")),
        };
        if !is_new {
            return Err(format!("the key '{key}' is there twice"));
        }
        if !text.takes(b',') {
            text.expect(b'}')?;
            break;
        }
    }
    if let Some(byte) = text.peek() {
        return Err(format!("`{}` follows the dictionary", byte.escape_ascii()));
    }
    let missing = |key: &str| format!("the key '{key}' is missing");
    Ok(Header {
        element: element.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

/// The unparsed rest of a header. The position never moves back, so the time is linear.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Text<'a> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.bytes.get(self.at).copied()
    }

    /// Consumes a byte if it is the next one.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.takes(byte) { Ok(()) } else { Err(self.wanted(&format!("`{}`", char::from(byte)))) }
    }

    fn wanted(&mut self, what: &str) -> String {
        let found = self.peek().map_or("its end".into(), |byte| format!("`{}`", byte.escape_ascii()));
        format!("{found} is at byte {}, where {what} is expected", self.at)
    }

    /// A string in either kind of quotes. Escapes are not decoded: no name or code that koel reads contains any.
    fn string(&mut self) -> Result<String, String> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else { return Err(self.wanted("a string")) };
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.bytes.get(end) {
                Some(&byte) if byte == quote => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(format!("the string at byte {} has no end", self.at)),
            }
        }
        self.at = end + 1;
        Ok(String::from_utf8_lossy(&self.bytes[start..end]).into_owned())
    }

    fn boolean(&mut self) -> Result<bool, String> {
        let word = self.word();
        let value = match word {
            b"True" => true,
            b"False" => false,
            _ => return Err(self.wanted("True or False")),
        };
        self.at += word.len();
        Ok(value)
    }

    /// Returns the following letters and digits, without consuming them.
    fn word(&mut self) -> &'a [u8] {
        self.peek();
        let rest = &self.bytes[self.at..];
        &rest[..rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count()]
    }

    /// A shape: `(3, 2)`, or `(3L, 2L)` as Python 2 wrote it.
    fn shape(&mut self) -> Result<Vec<u64>, String> {
        self.expect(b'(')?;
        let mut shape = Vec::new();
        while !self.takes(b')') {
            let word = self.word();
            let digits = word.strip_suffix(b"L").unwrap_or(word);
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            shape.push(number.ok_or_else(|| self.wanted("a whole number of 64 bits"))?);
            self.at += word.len();
            if !self.takes(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn element(&mut self) -> Result<Element, String> {
        match self.peek() {
            Some(b'[') => {
                let start = self.at;
                if let Ok(fields) = self.fields() {
                    return Ok(Element::Record(fields));
                }
                // The list contains something else. It is read twice at most.
                self.at = start;
                self.nested().map(Element::Nested)
            }
            _ => self.string().map(Element::Plain),
        }
    }

    /// A list of plain fields, `[('key', '<u4'), ..]`.
    fn fields(&mut self) -> Result<Vec<(String, String)>, String> {
        let mut fields = Vec::new();
        self.expect(b'[')?;
        while !self.takes(b']') {
            self.expect(b'(')?;
            let name = self.string()?;
            self.expect(b',')?;
            fields.push((name, self.string()?));
            self.takes(b',');
            self.expect(b')')?;
            if !self.takes(b',') {
                self.expect(b']')?;
                break;
            }
        }
        Ok(fields)
    }

    /// Skips a list of fields. Returns the name of the first field.
    fn nested(&mut self) -> Result<String, String> {
        let (mut depth, mut first) = (0, None);
        loop {
            match self.peek() {
                Some(b'[' | b'(') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b']' | b')') => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Ok(first.unwrap_or_default());
                    }
                }
                Some(b'\'' | b'"') => {
                    let name = self.string()?;
                    first.get_or_insert(name);
                }
                Some(_) => self.at += 1,
                None => return Err("the list of fields has no end".into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(code: &str, fortran_order: bool, shape: &[u64]) -> Result<Header, String> {
        Ok(Header { element: Element::Plain(code.into()), fortran_order, shape: shape.to_vec() })
    }

    #[test]
    fn what_numpy_writes_is_read() {
        for (text, expected) in [
            ("{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }    \n", plain("<u4", false, &[3])),
            ("{'descr': '>u4', 'fortran_order': True, 'shape': (3, 2), }", plain(">u4", true, &[3, 2])),
            ("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", plain("|u1", false, &[])),
            ("{\"shape\":(3L,2L),\"fortran_order\":False,\"descr\":\"<u4\"}", plain("<u4", false, &[3, 2])),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
        let text =
            "{'descr': [('it\\'s ]', '<u4'), ('b', [('c', '<f4', (2, 2))])], 'fortran_order': False, 'shape': (1,), }";
        assert_eq!(parse(text.as_bytes()).map(|header| header.element), Ok(Element::Nested("it\\'s ]".into())));
        let text = "{'descr': [('key', '<u8'), ('', '|V4'), ('f', '<f8'),], 'fortran_order': False, 'shape': (1,), }";
        let fields = [("key", "<u8"), ("", "|V4"), ("f", "<f8")].map(|(name, code)| (name.into(), code.into()));
        assert_eq!(parse(text.as_bytes()).map(|header| header.element), Ok(Element::Record(fields.into())));
    }

    #[test]
    fn damage_is_named() {
        let whole = "{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }";
        for end in 0..whole.len() {
            assert!(parse(&whole.as_bytes()[..end]).is_err(), "cut at {end}");
        }
        for (text, part) in [
            ("{}", "'descr' is missing"),
            ("{'descr': '<u4', 'descr': '<u4'}", "twice"),
            ("{'colour': 1}", "'colour'"),
            ("{'descr': 7}", "`7` is at byte 10"),
            ("{'fortran_order': 0}", "True or False"),
            ("{'shape': (-1,)}", "whole number"),
            ("{'shape': (18446744073709551616,)}", "whole number"),
            ("{'shape': (1 2)}", "`)`"),
            ("{'descr': '<u4', 'fortran_order': False, 'shape': (3,), } x", "`x` follows"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn brackets_cost_no_more_than_other_bytes() {
        // Nesting as deep as a header is long: elsewhere, each level could cost a stack frame, or double the time.
        for open in ["[", "[(", "{'descr': [", "[["] {
            let text = open.repeat(MOST / open.len());
            assert!(parse(text.as_bytes()).is_err());
            assert!(parse(format!("{{'descr': {text}").as_bytes()).is_err());
        }
        let nested =
            format!("{{'descr': {}{}, 'shape': (1,), 'fortran_order': False}}", "[".repeat(30_000), "]".repeat(30_000));
        assert_eq!(parse(nested.as_bytes()).map(|header| header.element), Ok(Element::Nested(String::new())));
    }

    #[test]
    fn a_claim_takes_no_memory() {
        for length in [MOST as u32 + 1, u32::MAX] {
            let mut file = b"\x93NUMPY\x02\x00".to_vec();
            file.extend(length.to_le_bytes());
            assert!(read(&mut &file[..]).is_err_and(|error| error.contains("are the most")));
        }
        for (version, length) in [(2, 4), (3, 4), (1, 2)] {
            let mut file = [&b"\x93NUMPY"[..], &[version, 0]].concat();
            file.extend(&60_000u32.to_le_bytes()[..length]);
            file.push(b'{');
            assert_eq!(read(&mut &file[..]), Err("it ends 59999 bytes early".into()));
        }
        assert!(read(&mut &b"\x93NUMPY\x04\x00"[..]).is_err_and(|error| error.contains("version 4.0")));
    }

    #[test]
    fn widths_of_codes() {
        let widths = [("<u4", 4), ("|b1", 1), ("|V12", 12), ("<U3", 12), ("<M8[ns]", 8), ("|S31", 31), ("<f16", 16)];
        assert!(widths.iter().all(|&(code, bytes)| width(code) == Some(bytes)));
        for code in ["", "<", "|O", "u4", "<u", "|V99999999", "<\u{e9}4", "|V-1"] {
            assert_eq!(width(code), None, "{code}");
        }
    }
}
