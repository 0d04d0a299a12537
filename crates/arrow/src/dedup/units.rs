//! Splits texts into units: lines, or paragraphs separated by blank lines.
//!
//! The units of a text cover all of it: each includes the line ends that follow it, which are removed with it.

use super::Unit;

/// A unit of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// The whole unit, with the line ends and the blank lines after it.
    pub(super) whole: &'a str,
    /// The text that is compared: without the line ends and the blank lines after it.
    pub(super) text: &'a str,
}

impl Unit {
    /// The units of a text, in order.
    pub(super) fn split(self, text: &str) -> impl Iterator<Item = Piece<'_>> {
        let mut rest = text;
        let mut is_first = true;
        std::iter::from_fn(move || {
            let is_whole = self == Unit::Document && std::mem::take(&mut is_first);
            if rest.is_empty() && !is_whole {
                return None;
            }
            let end = match self {
                Unit::Document => rest.len(),
                Unit::Line => line_end(rest),
                Unit::Paragraph => paragraph_end(rest),
            };
            let whole;
            (whole, rest) = rest.split_at(end);
            let text = match self {
                Unit::Document => whole,
                Unit::Line => without_line_end(whole),
                Unit::Paragraph => {
                    let last = whole.trim_end().len();
                    without_line_end(&whole[..last + line_end(&whole[last..])])
                }
            };
            Some(Piece { whole, text })
        })
    }
}

fn without_line_end(line: &str) -> &str {
    line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line))
}

/// The length of the first line, with its line end.
fn line_end(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |end| end + 1)
}

/// The length of the first paragraph, with the blank lines after it. Blank lines at the beginning of the text are a
/// unit.
fn paragraph_end(text: &str) -> usize {
    let (mut end, mut has_ended) = (0, false);
    while end < text.len() {
        let line = &text[end..end + line_end(&text[end..])];
        let is_blank = line.trim().is_empty();
        if has_ended && !is_blank {
            break;
        }
        has_ended |= is_blank;
        end += line.len();
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(unit: Unit, text: &str) -> Vec<(&str, &str)> {
        unit.split(text).map(|piece| (piece.whole, piece.text)).collect()
    }

    #[test]
    fn units_are_all_of_a_text() {
        let texts = ["", "a", "a\nb", "a\r\n\r\nb\n \n\nc", "\n\na\nb\n\nc\n", "\u{e9}\n\n\n", " \n"];
        for (text, unit) in texts.iter().flat_map(|text| Unit::ALL.map(|unit| (text, unit))) {
            assert_eq!(split(unit, text).iter().map(|(whole, _)| *whole).collect::<String>(), *text, "{unit:?}");
        }
        assert_eq!(split(Unit::Document, ""), [("", "")]);
        assert_eq!(split(Unit::Line, "a\r\n\nb"), [("a\r\n", "a"), ("\n", ""), ("b", "b")]);
        let expected = [("a\nb\n \n\n", "a\nb"), ("c\n", "c")];
        assert_eq!(split(Unit::Paragraph, "a\nb\n \n\nc\n"), expected);
        assert_eq!(split(Unit::Paragraph, "\n\na"), [("\n\n", ""), ("a", "a")]);
        assert_eq!(split(Unit::Paragraph, "a \r\n\nb"), [("a \r\n\n", "a "), ("b", "b")]);
    }
}
