//! Names of columns and files in messages.

use std::fmt::{self, Write};

/// The most characters of a name that a message shows.
const MOST: usize = 80;

/// A name for messages: control characters are escaped, and a long name is truncated.
#[doc(hidden)]
pub fn shown_name(name: &str) -> impl fmt::Display + '_ {
    shown(name, MOST)
}

/// The first `most` characters of a text, with control characters escaped.
pub(crate) fn shown(text: &str, most: usize) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        let mut letters = text.chars();
        for letter in letters.by_ref().take(most) {
            if letter.is_control() || is_invisible(letter) {
                write!(f, "{}", letter.escape_default())?;
            } else {
                f.write_char(letter)?;
            }
        }
        if letters.next().is_some() { f.write_str("...") } else { Ok(()) }
    })
}

/// Invisible characters that are not control characters, and characters that change the direction of text.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_to_print_and_short() {
        let shown = |name: &str| shown_name(name).to_string();
        assert_eq!(shown("price, net \u{e9}"), "price, net \u{e9}");
        assert_eq!(shown("a\n\u{1b}[2J\u{202e}b"), "a\\n\\u{1b}[2J\\u{202e}b");
        assert_eq!(shown(&"\u{e9}".repeat(80)), "\u{e9}".repeat(80));
        assert_eq!(shown(&"x".repeat(1_000_000)), "x".repeat(80) + "...");
    }
}
