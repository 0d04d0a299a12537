//! Checks the numbers and names in docs/papers.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The number, koel's part and the tests of each row.
fn rows(text: &str) -> Vec<(String, String, String)> {
    let is_number = |cell: &str| {
        let (letter, digits) = cell.split_at_checked(1).unwrap_or_default();
        "APSGH".contains(letter) && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with('|')).map(cells).filter(|cells| is_number(&cells[1]));
    rows.map(|cells| {
        assert_eq!(cells.len(), 8, "six cells: {cells:?}");
        assert!(!cells[4].is_empty(), "{}: built, open or none", cells[1]);
        (cells[1].clone(), cells[4].clone(), cells[5].clone())
    })
    .collect()
}

fn papers() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/papers.md")).unwrap()
}

#[test]
fn the_summary_of_the_papers_is_the_count_of_their_rows() {
    let text = papers();
    let mut counts: BTreeMap<char, [u64; 4]> = BTreeMap::new();
    for (number, koel, test) in rows(&text) {
        let state = ["`open`", "`none`"].iter().position(|state| koel == *state).map_or(1, |at| at + 2);
        assert_eq!(test.is_empty(), state > 1, "{number}: rows have a test if and only if they are built");
        let of_paper = counts.entry(number.chars().next().unwrap()).or_default();
        (of_paper[0], of_paper[state]) = (of_paper[0] + 1, of_paper[state] + 1);
        assert_eq!(number[1..], of_paper[0].to_string(), "rows are numbered consecutively");
    }
    let summary: Vec<[u64; 4]> = text
        .lines()
        .filter_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let numbers: Vec<u64> = cells.iter().filter_map(|cell| cell.parse().ok()).collect();
            <[u64; 4]>::try_from(numbers).ok().filter(|_| cells.len() == 7)
        })
        .collect();
    let all = counts.values().fold([0; 4], |sum, of| std::array::from_fn(|i| sum[i] + of[i]));
    let expected: Vec<_> = ['A', 'P', 'S', 'G', 'H'].iter().map(|paper| counts[paper]).chain([all]).collect();
    assert_eq!(summary, expected);
}

/// Detects moved files and renamed tests.
#[test]
fn the_tests_and_files_named_in_papers_md_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    let mut named = 0;
    for (number, koel, test) in rows(&papers()) {
        let mut file = String::new();
        for name in [koel, test].iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            let (path, function) = name.split_once("::").unwrap_or((name, ""));
            let is_path = ["src/", "cl/", "crates/", "tests/", "examples/", "benches/", "docs/", "data/"]
                .iter()
                .any(|start| path.starts_with(start));
            if is_path {
                file = path.split(' ').next().unwrap_or_default().to_owned();
                named += 1;
                if !root.join(&file).exists() {
                    missing.push(format!("{number}: {file}"));
                }
            }
            let is_test = function.contains('_')
                && function.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if (is_path || path.is_empty() && !file.is_empty()) && is_test {
                let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
                if !text.contains(&format!("fn {function}(")) {
                    missing.push(format!("{number}: {file}::{function}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(named > 300, "{named}");
}
