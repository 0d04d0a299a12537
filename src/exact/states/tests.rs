use super::super::tests::{columns, is_nearest};
use super::*;

/// The sums of these parts, merged in this order into states that may already have a window.
fn merged(parts: &[&[f64]], into: f64) -> SumStates {
    let mut all = SumStates::default();
    all.resize(2);
    all.add([(1, into)].into_iter());
    for part in parts {
        let mut states = SumStates::default();
        states.resize(1);
        states.add(part.iter().map(|&value| (0, value)));
        assert!(all.merge(0, &states.state(0), states.leftovers(0).as_deref()));
    }
    assert_eq!(all.sum(1), into);
    all
}

#[test]
fn merged_sums_and_means_are_the_nearest_doubles() {
    for values in columns() {
        let count = values.len() as u64;
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        let each: Vec<&[f64]> = values.chunks(1).collect();
        let (a, b) = values.split_at(values.len() / 3);
        for window in [0.0, 5e-324, 1e-300, 1.0, 1e40, 1e308] {
            for parts in [&[&values[..]][..], &[b, a], &each] {
                let found = merged(parts, window);
                assert!(is_nearest(found.sum(0), &values, 1), "{values:?} into {window:e}: {:e}", found.sum(0));
                assert_eq!(found.sum(0).to_bits(), sum.sum().to_bits());
                if count > 0 {
                    assert_eq!(found.mean(0, count).to_bits(), sum.mean(count).to_bits(), "{values:?}");
                }
                if let Some(exact) = found.exact(0) {
                    let mut rest = found.clone();
                    rest.add([(0, -exact)].into_iter());
                    assert_eq!((exact.to_bits(), rest.sum(0)), (sum.sum().to_bits(), 0.0), "{values:?}");
                }
            }
        }
    }
}

#[test]
fn sums_that_are_doubles_are_exact() {
    let exact = |values: &[f64]| merged(&[values], 0.0).exact(0);
    for (values, expected) in [
        (&[][..], Some(0.0)),
        (&[-0.0], Some(0.0)),
        (&[0.1], Some(0.1)),
        (&[-5e-324], Some(-5e-324)),
        // No window contains the greatest exponents.
        (&[f64::MAX], None),
        (&[1.5, 2.25], Some(3.75)),
        (&[1.0, 1e-16], None),
        (&[f64::MAX, f64::MAX], None),
        (&[f64::INFINITY], None),
        (&[f64::NAN], None),
    ] {
        assert_eq!(exact(values).map(f64::to_bits), expected.map(f64::to_bits), "{values:?}");
    }
}

/// The integer of a group overflows, is moved to the superaccumulator, and starts again from 0.
#[test]
fn overflowing_integers_move_to_the_superaccumulator() {
    let (mut states, mut exact) = (SumStates::default(), ExactSum::default());
    states.resize(1);
    let add = |states: &mut SumStates, exact: &mut ExactSum, value: f64, count: usize| {
        states.add(std::iter::repeat_n((0, value), count));
        (0..count).for_each(|_| exact.add(value));
    };
    add(&mut states, &mut exact, 2.0 - f64::EPSILON, 1000);
    assert!(states.leftovers(0).is_none());
    for large in [2f64.powi(25).next_down(), -2f64.powi(24), 1e9f64.next_up()] {
        add(&mut states, &mut exact, large, 300);
        assert!(states.leftovers(0).is_some());
        assert_eq!(states.sum(0).to_bits(), exact.sum().to_bits(), "{large:e}");
    }
}

/// Parts of a column whose greatest values differ: windows are lowered, and no group needs a superaccumulator.
#[test]
fn neighbouring_windows_are_merged_without_leftovers() {
    for scales in [[1.0, 1e-3, 1e3], [1e3, 1.0, 1e-3]] {
        let mut all = SumStates::default();
        all.resize(1);
        for scale in scales {
            let mut part = SumStates::default();
            part.resize(1);
            part.add([(0, scale), (0, scale * 0.1)].into_iter());
            assert!(all.merge(0, &part.state(0), None));
        }
        assert_eq!((all.with_leftovers, all.sum(0)), (0, 1101.1011));
    }
}

/// The window is that of the first piece, whatever is in the second.
#[test]
fn groups_of_pieces_have_the_sums_of_all_rows() {
    for values in columns() {
        let rows: Vec<(usize, f64)> = values.iter().enumerate().map(|(row, &value)| (row % 3, value)).collect();
        let (mut sums, (first, second)) = (SumStates::default(), rows.split_at(rows.len() / 2));
        for (groups, piece) in [(3, first), (4, second)] {
            sums.resize(groups);
            sums.add(piece.iter().copied());
        }
        for group in 0..4 {
            let (mut sum, mut count) = (ExactSum::default(), 0);
            rows.iter().filter(|row| row.0 == group).for_each(|row| {
                sum.add(row.1);
                count += 1;
            });
            assert_eq!(sums.sum(group).to_bits(), sum.sum().to_bits(), "{values:?}");
            assert_eq!(sums.mean(group, count).to_bits(), sum.mean(count).to_bits(), "{values:?}");
        }
    }
}

#[test]
fn removing_groups_keeps_the_others() {
    let mut states = SumStates::default();
    states.resize(3);
    states.add([(0, 1.0), (1, 1e300), (2, f64::INFINITY), (1, 0.5)].into_iter());
    let size = states.size();
    states.remove_first(1);
    assert_eq!((states.sum(0), states.sum(1), states.len()), (1e300, f64::INFINITY, 2));
    states.resize(4);
    states.add([(3, 2.0), (0, -1e300)].into_iter());
    assert_eq!((states.sum(0), states.sum(2), states.sum(3)), (0.5, 0.0, 2.0));
    states.remove_first(4);
    assert!(states.is_empty() && states.size() < size);
}

#[test]
fn invalid_states_are_refused() {
    let mut states = SumStates::default();
    states.resize(1);
    states.add([(0, 1.5)].into_iter());
    let state = states.state(0);
    assert!(!states.merge(0, &state, Some(&[1, 2, 3])));
    for low in [0_u16, 2, 1985, u16::MAX] {
        let mut wrong = state;
        wrong[..2].copy_from_slice(&low.to_le_bytes());
        assert!(!states.merge(0, &wrong, None), "{low}");
    }
    assert_eq!(states.sum(0), 1.5);
}
