//! Lists of columns as option values: separated by commas, or with the option repeated. A name that contains a comma or
//! another separator is quoted, as in CSV: `--by 'k,"total, price"'`.

/// The items that one occurrence of an option lists.
pub(crate) type List<T> = Vec<T>;

/// The items that all occurrences of an option list together.
pub(crate) fn all<T: Clone>(given: Option<&Vec<List<T>>>) -> Option<Vec<T>> {
    given.map(|lists| lists.concat())
}

/// Parses a list of names.
pub(crate) fn names(text: &str) -> Result<List<String>, String> {
    let items = split(text, &[])?;
    if items.contains(&"") {
        return Err(format!(
            "a name in `{text}` is empty: remove the comma, or write \"\" for a column without a name"
        ));
    }
    items.into_iter().map(name).collect()
}

/// Parses a list of items. A quote opens at the start of an item, and after one of the characters `marks`.
pub(crate) fn items<T>(
    text: &str,
    marks: &[char],
    item: impl Fn(&str) -> Result<T, String>,
) -> Result<List<T>, String> {
    split(text, marks)?.into_iter().map(item).collect()
}

/// Splits a list into its items, which keep their quotes.
pub(crate) fn split<'a>(text: &'a str, marks: &[char]) -> Result<Vec<&'a str>, String> {
    let mut items = Vec::new();
    let mut rest = text;
    while let Some((item, more)) = split_once(rest, ',', marks)? {
        items.push(item);
        rest = more;
    }
    items.push(rest);
    Ok(items)
}

/// The text before and after the first `separator` that is not in quotes.
pub(crate) fn split_once<'a>(
    text: &'a str,
    separator: char,
    marks: &[char],
) -> Result<Option<(&'a str, &'a str)>, String> {
    let (mut is_quoted, mut may_open) = (false, true);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if is_quoted {
            // Two quotes represent one quote of the name.
            is_quoted = letter != '"' || letters.next_if(|&(_, next)| next == '"').is_some();
        } else if letter == '"' && may_open {
            (is_quoted, may_open) = (true, false);
        } else if letter == separator {
            return Ok(Some((&text[..at], &text[at + letter.len_utf8()..])));
        } else {
            may_open = marks.contains(&letter);
        }
    }
    if is_quoted { Err(format!("a quote is opened in `{text}` and never closed: close it")) } else { Ok(None) }
}

/// A name without its quotes.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let Some(rest) = text.strip_prefix('"') else { return Ok(text.into()) };
    let inner = rest.strip_suffix('"').filter(|inner| !inner.replace("\"\"", "").contains('"'));
    let inner = inner.ok_or_else(|| format!("`{text}`: text follows a closing quote: write quotes in quotes twice"))?;
    Ok(inner.replace("\"\"", "\""))
}

/// A name as these lists accept it.
pub(crate) fn quoted(name: &str) -> String {
    if name.is_empty() || name.contains([',', '=', ':']) || name.starts_with('"') {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_separated_by_commas_outside_quotes() {
        for (text, expected) in [
            ("a", &["a"][..]),
            ("a,b c", &["a", "b c"]),
            ("\"last, first\",v", &["last, first", "v"]),
            ("5\" pipe,\"5\"\" pipe\"", &["5\" pipe", "5\" pipe"]),
            ("\"\"\"\",a", &["\"", "a"]),
            ("\"\"", &[""]),
            ("a,\"\"", &["a", ""]),
        ] {
            let expected: Vec<String> = expected.iter().map(|&name| name.into()).collect();
            assert_eq!(names(text).as_deref(), Ok(&expected[..]));
            let quoted: Vec<String> = expected.iter().map(|name| super::quoted(name)).collect();
            assert_eq!(names(&quoted.join(",")), Ok(expected));
        }
        assert!(["", "a,", ",a"].iter().all(|text| names(text).is_err_and(|error| error.contains("is empty"))));
        assert!(names("\"a,b").is_err_and(|error| error.contains("never closed")));
        assert!(names("\"a\"b").is_err_and(|error| error.contains("twice")));
    }

    #[test]
    fn marks_are_found_outside_quotes() {
        assert_eq!(split_once("\"a=b\"=c=d", '=', &[]), Ok(Some(("\"a=b\"", "c=d"))));
        assert_eq!(split_once("sum:\"a=b\"", '=', &[':']), Ok(None));
        assert_eq!(split_once("sum:\"a=b\"", '=', &[]), Ok(Some(("sum:\"a", "b\""))));
        assert_eq!(split("sum:\"a, b\",count", &[':']), Ok(vec!["sum:\"a, b\"", "count"]));
    }
}
