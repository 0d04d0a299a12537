//! The cells of a picture as keys, in several layouts and orders.

use koel::layout::{bit_reversed2, bit_reversed2_cell, morton2, morton2_cell};
use koel::scheme::Limits;
use koel::scheme::hash::{MixKeys, SplitMix64, mix};
use koel::workload::Picture;
use rayon::prelude::*;

use super::Order;
use koel_cli::failure::{Failure, Result};

/// A picture whose cells have keys.
pub(crate) struct Cells {
    pub(super) picture: Picture,
    order: Order,
    /// Bits of a bit-reversed coordinate: as many as the longer side needs.
    bits: u32,
    values: MixKeys,
    greatest_value: u32,
    shuffle: MixKeys,
}

impl Cells {
    pub(crate) fn new(picture: Picture, order: Order, seed: u64, limits: Limits) -> Result<Cells> {
        let side = picture.rows().width().max(picture.rows().height());
        let bits = u32::BITS - side.saturating_sub(1).leading_zeros();
        if bits > u16::BITS && matches!(order, Order::Morton | Order::Bitrev) {
            return Err(Failure::Input(format!("--order {} needs sides of 65536 at most: give row", order.name())));
        }
        let mut stream = SplitMix64::new(seed);
        let (values, shuffle) = (stream.next_mix_keys(), stream.next_mix_keys());
        Ok(Cells { picture, order, bits, values, greatest_value: limits.greatest_value(), shuffle })
    }

    /// The keys of the defined cells, or of all, in their order.
    pub(crate) fn keys(&self, defined: bool) -> Vec<u32> {
        let rows = self.picture.rows();
        let chosen = |y| (0..rows.width()).filter(move |&x| !defined || self.picture.is_defined(x, y));
        let of_row = |y| chosen(y).filter_map(move |x| self.key(x, y));
        let keys: Vec<u32> = (0..rows.height()).into_par_iter().flat_map_iter(of_row).collect();
        if self.order != Order::Shuffled {
            return keys;
        }
        let draw = |&key: &u32| u64::from(mix(key, self.shuffle)) << 32 | u64::from(key);
        let mut drawn: Vec<u64> = keys.par_iter().map(draw).collect();
        drawn.par_sort_unstable();
        drawn.par_iter().map(|&drawn| drawn as u32).collect()
    }

    /// The greatest key of any cell.
    pub(super) fn greatest_key(&self) -> Option<u32> {
        let rows = self.picture.rows();
        let of_row = |y| (0..rows.width()).filter_map(|x| self.key(x, y)).max();
        (0..rows.height()).into_par_iter().filter_map(of_row).max()
    }

    fn key(&self, x: u32, y: u32) -> Option<u32> {
        match self.order {
            // Row by row the indices of cells ascend already.
            Order::Row | Order::Sorted | Order::Shuffled => self.picture.rows().key(x, y),
            Order::Morton => Some(morton2(u16::try_from(x).ok()?, u16::try_from(y).ok()?)),
            Order::Bitrev => bit_reversed2(u16::try_from(x).ok()?, u16::try_from(y).ok()?, self.bits),
        }
    }

    pub(crate) fn answer(&self, key: u32) -> Option<u32> {
        let wide = |(x, y): (u16, u16)| (x.into(), y.into());
        let (x, y) = match self.order {
            Order::Row | Order::Sorted | Order::Shuffled => self.picture.rows().cell(key),
            Order::Morton => Some(wide(morton2_cell(key))),
            Order::Bitrev => bit_reversed2_cell(key, self.bits).map(wide),
        }?;
        self.picture.is_defined(x, y).then(|| mix(key, self.values) & self.greatest_value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn cells(order: Order) -> Cells {
        let picture = Picture::blobs(50, 33, 400, 3).unwrap_or_else(|error| panic!("{error}"));
        let limits = Limits { value_bits: 28, ..Limits::NONE };
        Cells::new(picture, order, 3, limits).unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn every_cell_is_queried_once_and_the_defined_ones_are_there() {
        for order in [Order::Row, Order::Morton, Order::Bitrev, Order::Sorted, Order::Shuffled] {
            let cells = cells(order);
            let (defined, all) = (cells.keys(true), cells.keys(false));
            assert_eq!((defined.len(), all.len()), (400, 50 * 33));
            let queried: BTreeMap<u32, Option<u32>> = all.iter().map(|&key| (key, cells.answer(key))).collect();
            assert_eq!(queried.len(), all.len(), "a key for each cell");
            assert!(defined.iter().all(|key| queried[key].is_some()));
            assert_eq!(queried.values().flatten().count(), 400);
            assert!(queried.values().flatten().all(|&value| value < 1 << 28));
        }
    }

    #[test]
    fn orders_are_what_they_say() {
        let keys = |order| cells(order).keys(false);
        assert!(keys(Order::Row).into_iter().eq(0..50 * 33));
        assert_eq!(keys(Order::Sorted), keys(Order::Row));
        assert_eq!(keys(Order::Morton)[..5], [0, 1, 4, 5, 16]);
        assert_eq!(keys(Order::Bitrev)[..3], [0, 1 << 10, 1 << 8]);
        let mut shuffled = keys(Order::Shuffled);
        assert_ne!(shuffled, keys(Order::Row));
        shuffled.sort_unstable();
        assert_eq!(shuffled, keys(Order::Row));
    }

    #[test]
    fn the_greatest_key_is_that_of_some_cell() {
        for order in [Order::Row, Order::Morton, Order::Bitrev] {
            assert_eq!(cells(order).greatest_key(), cells(order).keys(false).into_iter().max());
        }
    }
}
