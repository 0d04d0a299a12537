//! Exact sums of groups whose rows arrive in pieces.

use std::collections::HashMap;

use super::{ExactSum, Window, quotient};

/// Exact sums of doubles, one per group. Groups are numbered from 0.
///
/// Most values are added up in 16 bytes per group; a group with values of very different sizes takes 560 bytes more.
///
/// ```
/// let mut sums = koel::ExactSums::default();
/// sums.add(&[0, 1, 0], &[0.1, 5.0, 0.2]);
/// sums.add(&[0], &[0.3]);
/// assert_eq!((sums.sums(2), sums.means(&[3, 1])), (vec![0.6, 5.0], vec![0.2, 5.0]));
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct ExactSums {
    /// The window of the first piece.
    window: Option<Window>,
    sums: Vec<i128>,
    leftovers: HashMap<u32, Box<ExactSum>>,
}

impl ExactSums {
    /// Adds `values[i]` to the sum of group `ids[i]`. Rows with the id `u32::MAX` do not belong to a group.
    pub fn add(&mut self, ids: &[u32], values: &[f64]) {
        let window = *self.window.get_or_insert_with(|| Window::of(bytemuck::cast_slice(values)));
        let groups = ids.iter().filter(|&&id| id != u32::MAX).max().map_or(0, |&id| id as usize + 1);
        if self.sums.len() < groups {
            self.sums.resize(groups, 0);
        }
        for (&id, &value) in ids.iter().zip(values) {
            let Some(sum) = self.sums.get_mut(id as usize) else { continue };
            match window.integer(value.to_bits()).and_then(|integer| sum.checked_add(integer)) {
                Some(next) => *sum = next,
                None => self.leftovers.entry(id).or_default().add(value),
            }
        }
    }

    /// The sums of the first `groups` groups. That of a group without rows is 0.
    pub fn sums(&self, groups: usize) -> Vec<f64> {
        self.each(groups, &|_, window, sum| window.sum(sum), &|_, exact| exact.sum())
    }

    /// The means of the first groups, whose numbers of values are `counts`. The mean of no values is NaN.
    pub fn means(&self, counts: &[i64]) -> Vec<f64> {
        let count = |group: usize| counts[group].unsigned_abs();
        self.each(counts.len(), &|group, window, sum| quotient(sum, window.unit(), count(group)), &|group, exact| {
            exact.mean(count(group))
        })
    }

    fn each(
        &self,
        groups: usize,
        in_window: &dyn Fn(usize, Window, i128) -> f64,
        exact: &dyn Fn(usize, &ExactSum) -> f64,
    ) -> Vec<f64> {
        let window = self.window.unwrap_or(Window::of(&[]));
        let of_group = |group: usize| {
            let sum = self.sums.get(group).copied().unwrap_or(0);
            match self.leftovers.get(&(group as u32)) {
                Some(leftovers) => {
                    let mut all = leftovers.clone();
                    all.add_integer(sum, window.unit());
                    exact(group, &all)
                }
                None => in_window(group, window, sum),
            }
        };
        (0..groups).map(of_group).collect()
    }
}
