//! `koel-bench --all --rows`: selects rows by parts of their names.

use super::goals::{ROWS, Row};
use koel_cli::failure::{Failure, Result};

/// The rows whose names contain one of these parts, ignoring case; all rows if there are no parts. The rates that a row
/// is compared with are measured too, selected or not.
///
/// # Errors
/// Returns an error with all names for a part that no name contains.
pub(super) fn chosen(parts: &[String]) -> Result<Vec<&'static Row>> {
    let parts: Vec<String> = parts.iter().map(|part| part.trim().to_lowercase()).collect();
    let has = |row: &Row, part: &str| !part.is_empty() && row.name.to_lowercase().contains(part);
    if let Some(part) = parts.iter().find(|part| !ROWS.iter().any(|row| has(row, part))) {
        let mut names: Vec<&str> = Vec::new();
        for row in ROWS {
            if !names.contains(&row.name) {
                names.push(row.name);
            }
        }
        let names = names.join("\n  ");
        return Err(Failure::Input(format!("--rows: no row has `{part}` in its name: there are\n  {names}")));
    }
    Ok(ROWS.iter().filter(|row| parts.is_empty() || parts.iter().any(|part| has(row, part))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_any_part_of_their_names() {
        let names = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|&part| part.into()).collect();
            chosen(&parts).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>()).ok()
        };
        let huge = ["Horton lookup, a table of 2^31", "bucketized lookup, a table of 2^31"];
        assert_eq!(names(&["2^31"]).as_deref(), Some(&huge[..]));
        assert_eq!(names(&["HORTON lookup, A ", "two-level build"]).unwrap_or_default(), ["two-level build", huge[0]]);
        assert_eq!(names(&[]).map(|names| names.len()), Some(ROWS.len()));
        for unknown in [&["2^31", "nothing"][..], &[""], &["2^31", " "]] {
            assert_eq!(names(unknown), None, "{unknown:?}");
        }
    }
}
