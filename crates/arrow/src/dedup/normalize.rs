//! Removes differences that comparisons of texts ignore.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The differences that comparisons of texts ignore; none by default. Steps are applied in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Normalize {
    /// Different compositions of characters: texts are compared in Unicode's normalization form C.
    pub nfc: bool,
    /// Case: texts are converted to lower case, by Unicode's rules that do not depend on a language.
    pub case: bool,
    /// Punctuation and symbols: only letters, digits, combining marks and white space are compared.
    pub punctuation: bool,
    /// The kind and length of white space, and white space at both ends.
    pub whitespace: bool,
}

impl Normalize {
    /// The names of the steps.
    pub const NAMES: [&'static str; 4] = ["nfc", "case", "punctuation", "whitespace"];

    /// Enables the step of this name in addition; `None` if there is no such step.
    #[must_use]
    pub fn with(mut self, name: &str) -> Option<Normalize> {
        match name {
            "nfc" => self.nfc = true,
            "case" => self.case = true,
            "punctuation" => self.punctuation = true,
            "whitespace" => self.whitespace = true,
            _ => return None,
        }
        Some(self)
    }

    /// Whether nothing is ignored.
    pub(super) fn is_off(self) -> bool {
        self == Normalize::default()
    }

    /// The text as it is compared.
    pub(super) fn apply(self, text: &str) -> Cow<'_, str> {
        let mut text = Cow::Borrowed(text);
        if self.nfc && !text.is_ascii() && !is_nfc(&text) {
            text = Cow::Owned(text.nfc().collect());
        }
        if self.case {
            text = Cow::Owned(text.to_lowercase());
        }
        if self.punctuation {
            let is_compared = |&c: &char| c.is_alphanumeric() || c.is_whitespace() || is_combining_mark(c);
            text = Cow::Owned(text.chars().filter(is_compared).collect());
        }
        if self.whitespace {
            let mut joined = String::with_capacity(text.len());
            for word in text.split_whitespace() {
                if !joined.is_empty() {
                    joined.push(' ');
                }
                joined.push_str(word);
            }
            text = Cow::Owned(joined);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_ignores_what_its_name_says() {
        let text = " E\u{301}t\u{e9}:  \u{201c}One\u{201d}\u{a0}\ttwo\u{3002}\n";
        let of = |names: &[&str]| {
            let all = names.iter().fold(Normalize::default(), |all, name| all.with(name).expect("a name"));
            all.apply(text).into_owned()
        };
        assert_eq!(of(&[]), text);
        assert_eq!(of(&["nfc"]), text.replace("E\u{301}", "\u{c9}"));
        assert_eq!(of(&["case"]), text.to_lowercase());
        assert_eq!(of(&["punctuation"]), " E\u{301}t\u{e9}  One\u{a0}\ttwo\n");
        assert_eq!(of(&["whitespace"]), "E\u{301}t\u{e9}: \u{201c}One\u{201d} two\u{3002}");
        assert_eq!(of(&Normalize::NAMES), "\u{e9}t\u{e9} one two");
        assert_eq!(Normalize::default().with("nfd"), None);
    }
}
