//! A picture and the texts in it, on top of `plotters`, which draws lines, shapes, axes and letters as SVG.
//!
//! The viewer of an SVG chooses the font. Widths are therefore estimates, rather too large than too small, and
//! `plotters` is given the sizes of everything around its axes.

use std::io;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const GREY: RGBColor = RGBColor(0x5c, 0x5c, 0x5c);
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe3, 0xe3);
/// The margin of a picture, and the space between its parts.
pub(super) const MARGIN: i32 = 18;

/// The area that is drawn on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Error = DrawingAreaErrorKind<io::Error>;

/// Draws a picture and returns its file. It has a white background, so that it is readable on dark pages too.
pub(super) fn picture(
    (width, height): (i32, i32),
    title: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), Error>,
) -> Result<String, Error> {
    let mut svg = String::new();
    let size = (width.unsigned_abs(), height.unsigned_abs());
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    draw(&area)?;
    area.present()?;
    drop(area);
    let title = plain(title).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Ok(svg.replacen('>', &format!(" role=\"img\">\n<title>{title}</title>"), 1))
}

/// The style of a text.
#[derive(Clone, Copy)]
pub(super) struct Font {
    size: f64,
    bold: bool,
    colour: RGBColor,
}

pub(super) const TITLE: Font = Font { size: 17.0, bold: true, colour: INK };
/// Lines under a title.
pub(super) const LINE: Font = Font { size: 12.0, bold: false, colour: GREY };
pub(super) const HEAD: Font = Font { size: 12.0, bold: true, colour: INK };
pub(super) const LABEL: Font = Font { size: 12.0, bold: false, colour: INK };
pub(super) const TICK: Font = Font { size: 11.0, bold: false, colour: INK };
pub(super) const NOTE: Font = Font { size: 10.5, bold: false, colour: GREY };

impl Font {
    /// The distance between lines.
    pub(super) fn line(self) -> i32 {
        (self.size * 1.4).ceil() as i32
    }

    /// The approximate width of a text.
    pub(super) fn width(self, text: &str) -> i32 {
        width(&plain(text), self.size, self.bold).ceil() as i32
    }

    /// Wraps the text to lines of at most this width; a wider word gets a separate line.
    pub(super) fn wrapped(self, text: &str, width: i32) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(&format!("{line} {word}")) <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.into()),
            }
        }
        lines
    }

    /// The style of a text that is aligned horizontally at this part of it, and vertically at its upper edge.
    pub(super) fn style(self, by: HPos) -> TextStyle<'static> {
        let font = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        // `plotters` writes 1 / 1.24 of the size to the SVG.
        let font = FontDesc::new(FontFamily::SansSerif, self.size * 1.24, font);
        TextStyle { font, color: self.colour.to_backend_color(), pos: Pos::new(by, VPos::Top) }
    }

    /// Writes one line.
    pub(super) fn write(self, area: &Area<'_>, text: &str, at: (i32, i32), by: HPos) -> Result<(), Error> {
        area.draw(&Text::new(plain(text), at, self.style(by)))
    }

    /// Writes a text in lines of that width; returns where it ends.
    pub(super) fn paragraph(
        self,
        area: &Area<'_>,
        text: &str,
        (left, mut top): (i32, i32),
        width: i32,
        by: HPos,
    ) -> Result<i32, Error> {
        for line in self.wrapped(text, width) {
            self.write(area, &line, (left, top), by)?;
            top += self.line();
        }
        Ok(top)
    }

    /// The height of a paragraph.
    pub(super) fn height(self, text: &str, width: i32) -> i32 {
        self.wrapped(text, width).len() as i32 * self.line()
    }
}

/// The approximate width of a text without markup.
pub(super) fn width(plain: &str, size: f64, bold: bool) -> f64 {
    plain.chars().count() as f64 * size * if bold { 0.64 } else { 0.58 }
}

/// Writes the title of a picture and the lines under it; returns where they end.
pub(super) fn heading(area: &Area<'_>, title: &str, lines: &[String], width: i32) -> Result<i32, Error> {
    let mut top = TITLE.paragraph(area, title, (MARGIN, MARGIN), width, HPos::Left)? + 2;
    for line in lines {
        top = LINE.paragraph(area, line, (MARGIN, top), width, HPos::Left)?;
    }
    Ok(top)
}

/// Where a heading ends.
pub(super) fn heading_end(title: &str, lines: &[String], width: i32) -> i32 {
    MARGIN + TITLE.height(title, width) + 2 + lines.iter().map(|line| LINE.height(line, width)).sum::<i32>()
}

/// Writes the notes under a picture.
pub(super) fn footing(area: &Area<'_>, notes: &[String], mut top: i32, width: i32) -> Result<(), Error> {
    for note in notes {
        top = NOTE.paragraph(area, note, (MARGIN, top), width, HPos::Left)?;
    }
    Ok(())
}

/// The height of the notes.
pub(super) fn footing_height(notes: &[String], width: i32) -> i32 {
    notes.iter().map(|note| NOTE.height(note, width)).sum()
}

/// The text as it is drawn: digits after a `^` are superscripts, and characters that XML does not allow are removed.
pub(super) fn plain(text: &str) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let mut plain = String::with_capacity(text.len());
    let mut power = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c.to_digit(10) {
            Some(digit) if power => plain.push(RAISED[digit as usize]),
            _ => {
                power = c == '^' && rest.peek().is_some_and(char::is_ascii_digit);
                match c {
                    '^' if power => {}
                    '\u{fffe}' | '\u{ffff}' => plain.push('\u{fffd}'),
                    c if c.is_control() => plain.push('\u{fffd}'),
                    c => plain.push(c),
                }
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the SVG of a text; returns its title and the written text.
    fn read(text: &str) -> (String, String) {
        let file = picture((10, 10), text, |area| LINE.write(area, text, (1, 2), HPos::Left));
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        let document = roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
        let said = |name: &str| -> String {
            let element = document.descendants().find(|node| node.tag_name().name() == name);
            element.and_then(|node| node.text()).unwrap_or_default().trim_matches('\n').to_owned()
        };
        (said("title"), said("text"))
    }

    #[test]
    fn any_text_is_read_as_it_was_written() {
        for text in ["a < b & \"c\" > 'd'", "<script>alert(1)</script>", "]]>", "&amp;", "größer, 大きい", "^", "a^b"]
        {
            assert_eq!(read(text), (text.to_owned(), text.to_owned()));
        }
        assert_eq!(read("bell\u{7} nul\0 end\u{ffff}").1, "bell\u{fffd} nul\u{fffd} end\u{fffd}");
        assert_eq!(read("n = 2^20, 10^9 of 8^x, 3^45^6").1, "n = 2²⁰, 10⁹ of 8^x, 3⁴⁵⁶");
    }

    #[test]
    fn words_go_to_the_next_line_and_none_is_lost() {
        let text = "the quick brown fox jumps over a lazy dog";
        let lines = LINE.wrapped(text, 100);
        assert!(lines.len() > 1 && lines.iter().all(|line| LINE.width(line) <= 100), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(LINE.wrapped("unbreakable", 1), ["unbreakable"]);
        assert!(LINE.wrapped("", 10).is_empty() && LINE.width("2^20") < LINE.width("2^200"));
    }
}
