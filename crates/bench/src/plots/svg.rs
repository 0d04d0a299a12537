//! Writing SVG: a few elements, numbers, and text whose width is known well enough to keep clear of it.
//!
//! The same calls give the same bytes. Whatever a text holds, the file is well-formed.

use std::fmt::Write;

pub(super) const INK: &str = "#222222";
pub(super) const GREY: &str = "#666666";
pub(super) const GRID: &str = "#e3e3e3";

/// Where a text stands, by what part of it.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) colour: &'static str,
    pub(super) anchor: Anchor,
    /// Upwards in place of to the right.
    pub(super) upwards: bool,
}

impl Font {
    pub(super) const fn new(size: f64, colour: &'static str) -> Font {
        Font { size, bold: false, colour, anchor: Anchor::Start, upwards: false }
    }

    pub(super) const fn bold(self) -> Font {
        Font { bold: true, ..self }
    }

    pub(super) const fn anchored(self, anchor: Anchor) -> Font {
        Font { anchor, ..self }
    }

    pub(super) const fn upwards(self) -> Font {
        Font { upwards: true, ..self }
    }

    /// How far apart lines stand.
    pub(super) fn line(self) -> f64 {
        (self.size * 1.35).round()
    }

    /// About how wide a text is, and rather more than less.
    pub(super) fn width(self, text: &str) -> f64 {
        let bold = if self.bold { 1.1 } else { 1.0 };
        pieces(text)
            .map(|(piece, raised)| piece.chars().map(em).sum::<f64>() * if raised { SMALL } else { 1.0 })
            .sum::<f64>()
            * self.size
            * bold
    }

    /// The text in lines that are no wider than that, if its words are not.
    pub(super) fn wrapped(self, text: &str, width: f64) -> Vec<String> {
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
}

/// How a line looks.
#[derive(Clone, Copy)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    pub(super) dashed: bool,
}

impl Stroke {
    pub(super) const fn new(colour: &'static str, width: f64) -> Stroke {
        Stroke { colour, width, dashed: false }
    }

    pub(super) const fn dashed(self) -> Stroke {
        Stroke { dashed: true, ..self }
    }

    fn attributes(self) -> String {
        let dashes = if self.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        format!("stroke=\"{}\" stroke-width=\"{}\"{dashes}", self.colour, number(self.width))
    }
}

/// A picture that is being drawn.
#[derive(Default)]
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        let stroke = stroke.attributes();
        self.push(format_args!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {stroke}/>"));
    }

    /// A line through these points.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let points: Vec<_> = points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect();
        let (points, stroke) = (points.join(" "), stroke.attributes());
        self.push(format_args!("<polyline points=\"{points}\" fill=\"none\" stroke-linejoin=\"round\" {stroke}/>"));
    }

    /// A box of a corner and a size, filled, or an outline; what it says when it is pointed at.
    pub(super) fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        fill: Option<&str>,
        outline: Option<Stroke>,
        says: &str,
    ) {
        let (x, y, width, height) = (number(x), number(y), number(width.max(0.0)), number(height.max(0.0)));
        let outline = outline.map(|stroke| format!(" {}", stroke.attributes())).unwrap_or_default();
        let place = format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
        self.saying("rect", &format!("{place} fill=\"{}\"{outline}", fill.unwrap_or("none")), says);
    }

    /// A shape that is given as a path.
    pub(super) fn shape(&mut self, path: &str, fill: &str, stroke: Stroke, says: &str) {
        self.saying("path", &format!("d=\"{path}\" fill=\"{fill}\" {}", stroke.attributes()), says);
    }

    fn saying(&mut self, name: &str, attributes: &str, says: &str) {
        if says.is_empty() {
            self.push(format_args!("<{name} {attributes}/>"));
        } else {
            self.push(format_args!("<{name} {attributes}><title>{}</title></{name}>", escaped(says)));
        }
    }

    /// A text on its base line. `2^20` is a power.
    pub(super) fn text(&mut self, (x, y): (f64, f64), text: &str, font: Font) {
        let anchor = match font.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let bold = if font.bold { " font-weight=\"bold\"" } else { "" };
        let (x, y, size) = (number(x), number(y), number(font.size));
        let turned = if font.upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
        let mut inner = String::new();
        let mut is_raised = false;
        for (piece, raised) in pieces(text) {
            let (piece, up) = (escaped(piece), number(font.size * 0.38));
            if raised {
                let small = number(font.size * SMALL);
                inner.push_str(&format!("<tspan dy=\"-{up}\" font-size=\"{small}\">{piece}</tspan>"));
            } else if is_raised {
                inner.push_str(&format!("<tspan dy=\"{up}\">{piece}</tspan>"));
            } else {
                inner.push_str(&piece);
            }
            is_raised = raised;
        }
        let colour = font.colour;
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\"{anchor}{bold}{turned}>{inner}</text>"
        ));
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // A string takes whatever is written to it.
        let _ = writeln!(self.0, "{element}");
    }

    /// The file, of a picture of this size.
    pub(super) fn finish(self, (width, height): (f64, f64), title: &str) -> String {
        let (width, height, title, body) = (number(width.ceil()), number(height.ceil()), escaped(title), self.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" \
             role=\"img\">\n<title>{title}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

/// How small the digits of a power are.
const SMALL: f64 = 0.72;

/// A text's pieces, and which are powers: digits behind a `^`.
fn pieces(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    let mut raised = false;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = if raised {
                rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
            } else {
                let is_power = |at: &usize| rest[at + 1..].starts_with(|c: char| c.is_ascii_digit());
                rest.match_indices('^').map(|(at, _)| at).find(is_power).unwrap_or(rest.len())
            };
            let (piece, is_raised) = (&rest[..end], raised);
            rest = if is_raised { &rest[end..] } else { rest.get(end + 1..).unwrap_or("") };
            raised = !is_raised;
            if !piece.is_empty() {
                return Some((piece, is_raised));
            }
        }
        None
    })
}

/// The width of a character in units of the font's size, of a font that is a wide one.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' => 0.3,
        ' ' | '.' | ',' | ':' | ';' | '!' | '/' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' | '+' | '=' | '<' | '>' | '&' => 0.72,
        c if c.is_ascii() => 0.61,
        _ => 1.0,
    }
}

/// A number with two digits at most behind the point.
fn number(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // No -0.
    if rounded == 0.0 || !rounded.is_finite() { "0".into() } else { rounded.to_string() }
}

/// Text as XML has it, without the characters that XML has not.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader of XML makes of a text.
    fn read(text: &str) -> String {
        let mut svg = Svg::default();
        svg.text((1.0, 2.0), text, Font::new(12.0, INK).bold().upwards());
        svg.rect((0.0, 0.0), (3.0, 4.0), None, Some(Stroke::new(GRID, 1.0).dashed()), text);
        let file = svg.finish((10.0, 10.0), text);
        let document = roxmltree::Document::parse(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
        let said = |name: &str| -> Vec<String> {
            let elements = document.descendants().filter(|node| node.tag_name().name() == name);
            elements.map(|node| node.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).collect()).collect()
        };
        let titles = said("title");
        assert!(titles.len() == if text.is_empty() { 1 } else { 2 } && titles.iter().all(|title| *title == titles[0]));
        said("text").concat()
    }

    #[test]
    fn any_text_is_read_as_it_was_written() {
        for text in
            ["a < b & \"c\" > 'd'", "<script>alert(1)</script>", "]]>", "&amp;", "größer, 大きい", "", "^", "a^b"]
        {
            assert_eq!(read(text), text);
        }
        assert_eq!(read("bell\u{7} nul\0 end\u{ffff}"), "bell\u{fffd} nul\u{fffd} end\u{fffd}");
        assert_eq!(read("n = 2^20, 10^9 of it"), "n = 220, 109 of it", "powers are raised");
    }

    #[test]
    fn powers_are_pieces_of_their_own() {
        let all = |text| pieces(text).collect::<Vec<_>>();
        assert_eq!(all("n = 2^20, x^y"), [("n = 2", false), ("20", true), (", x^y", false)]);
        assert_eq!(all("^3^4"), [("3", true), ("4", true)]);
        assert_eq!((all(""), all("^"), all("a^")), (vec![], vec![("^", false)], vec![("a^", false)]));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, -0.001, 1.0, 2.5, 3.456, -7.005, f64::NAN].map(number),
            ["0", "0", "1", "2.5", "3.46", "-7.01", "0"]
        );
    }

    #[test]
    fn words_go_to_the_next_line_and_none_is_lost() {
        let font = Font::new(10.0, INK);
        let text = "the quick brown fox jumps over a lazy dog";
        let lines = font.wrapped(text, 100.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| font.width(line) <= 100.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(font.wrapped("unbreakable", 1.0), ["unbreakable"]);
        assert!(font.wrapped("", 10.0).is_empty() && font.width("2^20") < font.width("2^200"));
    }
}
