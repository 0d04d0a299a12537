//! Which columns of a file are wanted, by name; of a name that is not there, which ones are.

use crate::failure::{Failure, Result};
use crate::input::Name;

/// Names that a message lists.
const LISTED: usize = 20;

/// The places of the wanted columns, in the order in which they are wanted; of all where nobody says.
pub(crate) fn places(name: &Name, there: &[&str], wanted: Option<&[String]>) -> Result<Vec<usize>> {
    let Some(wanted) = wanted else { return Ok((0..there.len()).collect()) };
    let mut places = Vec::with_capacity(wanted.len());
    for column in wanted {
        let place = there.iter().position(|there| there == column).ok_or_else(|| missing(name, there, column))?;
        if places.contains(&place) {
            return Err(Failure::Input(format!("the column {column} is asked for twice: name it once")));
        }
        places.push(place);
    }
    Ok(places)
}

/// That a column is not there.
pub(crate) fn missing(name: &Name, there: &[&str], column: &str) -> Failure {
    let near = there.iter().map(|&other| (distance(&other.to_lowercase(), &column.to_lowercase()), other)).min();
    // One letter in three may be another.
    let near = near.filter(|&(distance, other)| distance <= other.chars().count().max(column.chars().count()) / 3);
    let mut meant = near.map_or(String::new(), |(_, other)| format!("did you mean {other}? "));
    let is_part = |other: &&&str| other.contains(',') && other.split(',').any(|part| part.trim() == column.trim());
    if let Some(other) = there.iter().find(is_part) {
        meant = format!("write a name with a comma in quotes, as in '\"{other}\"': ");
    }
    let listed = there.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    let more = if there.len() > LISTED { format!(" and {} more", there.len() - LISTED) } else { String::new() };
    name.fail(format!("there is no column {column}: {meant}the columns are {listed}{more}"))
}

/// Refuses a name that two columns have.
pub(crate) fn check_distinct(name: &Name, there: &[&str]) -> Result<()> {
    let mut sorted = there.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(name.fail(format!("two columns are called {}: give each a name of its own", two[0]))),
        None => Ok(()),
    }
}

/// How many letters are to be put in, left out or made others, to come from one word to the other.
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
        assert!(check_distinct(&name, &["a", "b", "a"]).is_err() && check_distinct(&name, &there).is_ok());
        assert_eq!((distance("kitten", "sitting"), distance("", "ab")), (3, 2));
    }
}
