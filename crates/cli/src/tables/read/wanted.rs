//! Finds the wanted columns by name, and similar names for a name that does not exist.

use std::collections::{HashMap, HashSet};

use crate::failure::{Failure, Result};
use crate::input::Name;
use crate::text;

/// The most names that a message lists.
const LISTED: usize = 20;

/// The positions of the wanted columns, in the order in which they are wanted, or of all columns.
///
/// # Errors
/// If a wanted column does not exist, is wanted twice, or has the same name as another column. Names of other columns
/// do not matter.
pub(crate) fn places(name: &Name, there: &[&str], wanted: Option<&[String]>) -> Result<Vec<usize>> {
    // The position of each name; `None` if two columns have it.
    let mut by_name = HashMap::with_capacity(there.len());
    for (place, column) in there.iter().enumerate() {
        by_name.entry(*column).and_modify(|place| *place = None).or_insert(Some(place));
    }
    let place = |column: &str| match by_name.get(column) {
        Some(Some(place)) => Ok(*place),
        Some(None) => Err(name.fail(format!(
            "two columns are called {}: rename one of them, or leave both out by naming the columns that you need",
            text::name(column)
        ))),
        None => Err(missing(name, there, column)),
    };
    let Some(wanted) = wanted else { return there.iter().map(|column| place(column)).collect() };
    let mut seen = HashSet::with_capacity(wanted.len());
    if let Some(again) = wanted.iter().find(|column| !seen.insert(*column)) {
        return Err(Failure::Input(format!("the column {} is named twice: name it once", text::name(again))));
    }
    wanted.iter().map(|column| place(column)).collect()
}

/// The error for a column that does not exist.
pub(crate) fn missing(name: &Name, there: &[&str], column: &str) -> Failure {
    let near = there.iter().map(|&other| (distance(&other.to_lowercase(), &column.to_lowercase()), other)).min();
    // Up to a third of the letters may differ.
    let near = near.filter(|&(distance, other)| distance <= other.chars().count().max(column.chars().count()) / 3);
    let mut meant = near.map_or(String::new(), |(_, other)| format!("did you mean {}? ", text::name(other)));
    let is_part = |other: &&&str| other.contains(',') && other.split(',').any(|part| part.trim() == column.trim());
    if let Some(other) = there.iter().find(is_part) {
        meant = format!("write a name with a comma in quotes, as in '\"{}\"': ", text::name(other));
    }
    let delimiters = [(';', "';'"), ('|', "'|'"), ('\t', "tab")];
    if let [only] = there
        && let Some((_, delimiter)) =
            delimiters.iter().find(|&&(delimiter, _)| only.split(delimiter).any(|part| part == column && part != *only))
    {
        meant = format!("if the delimiter is not a comma, give --delimiter {delimiter}: ");
    }
    let listed = listed(there);
    name.fail(format!("there is no column {}: {meant}the columns are {listed}", text::name(column)))
}

/// Names of columns for a message: only the first ones if there are many.
pub(crate) fn listed(there: &[&str]) -> String {
    let first = there.iter().take(LISTED).map(|column| text::name(column).to_string());
    let more = if there.len() > LISTED { format!(" and {} more", there.len() - LISTED) } else { String::new() };
    first.collect::<Vec<_>>().join(", ") + &more
}

/// The edit distance between two words: the least number of insertions, deletions and substitutions of letters.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().take(100).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_the_near_ones_named() {
        let name = Name::of("a.csv".as_ref());
        let there = ["o_orderkey", "price"];
        let said = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.into()).collect();
            places(&name, &there, Some(&wanted)).map_err(|failure| failure.to_string())
        };
        assert_eq!(said(&["price", "o_orderkey"]), Ok(vec![1, 0]));
        let error = said(&["o_OrderKeys"]).expect_err("missing");
        assert_eq!(
            error,
            "a.csv: there is no column o_OrderKeys: did you mean o_orderkey? the columns are o_orderkey, price"
        );
        let comma = missing(&name, &["last, first", "v"], "last").to_string();
        assert!(comma.contains("in quotes, as in '\"last, first\"'"), "{comma}");
        assert!(said(&["zzz"]).is_err_and(|error| !error.contains("mean")));
        assert!(said(&["price", "price"]).is_err_and(|error| error.contains("twice")));
        let twice = ["a", "b", "a"];
        assert_eq!(places(&name, &twice, Some(&["b".into()])).ok(), Some(vec![1]));
        for wanted in [None, Some(&["a".to_owned()][..])] {
            let error = places(&name, &twice, wanted).map_err(|failure| failure.to_string());
            assert!(error.is_err_and(|error| error.contains("two columns are called a")));
        }
        assert_eq!((distance("kitten", "sitting"), distance("", "ab")), (3, 2));
    }
}
