//! The rule of both kinds: deferred acceptance with one cell per slot and an endless list per key.
//!
//! ```text
//! place(key, value):   age = 1
//!   loop:  at = place of key at age;  mine = [age][name][value];  there = cell at
//!          there has my age and my name:  the same key: the greater cell is kept, the other is dropped      (a duplicate)
//!          there < mine:  cell at = mine;  done if it was empty;  otherwise continue with the displaced pair
//!          age += 1;  past MAX_AGE: unplaced, the attempt has failed
//!   at the end:  the maximum ages, if the table has them                                      (`max_ages.rs`)
//! find(key):   for age in 1..=bound of home:
//!          found if age and name are mine          (if codes have replaced the ages: if the name is)
//!          absent if [age][name] there is below mine: the key would have displaced it    (if the cells contain ages)
//! ```
//!
//! The paper's atomic maximum of (age, key) is this rule, so its table is canonical too, and differs only in the layout
//! of a cell. `scheme/cuckoo/canonical.rs` proves that the result does not depend on the order, and that dropped
//! duplicates do not change it; the proofs require only that all duplicates of a key have one list, and that no two
//! keys have one name at one place and age.
//!
//! The table is called Robin Hood because keys far from their home displace those near it: ages are close to their
//! mean, and the greatest is small (Celis 1986).
//!
//! Keys that share a home may take many steps. They share every place, so the number of them that can be placed is at
//! most the number of slots of their list, whatever the order.

use super::cell::{self, CellLayout, EMPTY};
use super::max_ages::MaxAges;
use super::{Functions, RobinHoodPlan};
use crate::scheme::{Kind, Placing, Plan};

/// The parameters of the passes over a table.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The places of keys.
    pub functions: Functions,
    /// The contents of a cell.
    pub layout: CellLayout,
    /// The bound of lookups.
    pub max_ages: MaxAges,
    /// Whether a cell contains the key rather than its quotient.
    pub names_keys: bool,
}

impl Rule {
    pub(super) fn new(plan: &RobinHoodPlan) -> Rule {
        Rule {
            functions: Functions::new(plan),
            layout: plan.layout(),
            max_ages: plan.max_ages(),
            names_keys: plan.kind() == Kind::Classic,
        }
    }

    /// Home and name of a key.
    #[inline(always)]
    pub fn aim(&self, key: u32) -> (u32, u32) {
        let (home, quotient) = self.functions.split(key);
        (home, if self.names_keys { key } else { quotient })
    }

    /// Age, key and value of the pair in a cell that still contains its age.
    #[inline(always)]
    pub fn aged_pair(&self, at: u32, cell: u64) -> Option<(u32, u32, u32)> {
        if !self.layout.is_pair(cell) {
            return None;
        }
        let (age, name) = (self.layout.age(cell), self.layout.name(cell));
        let key = if self.names_keys { name } else { self.functions.key(self.functions.home(at, age), name) };
        Some((age, key, self.layout.value(cell)))
    }

    /// The pair in a cell of a complete image.
    #[inline(always)]
    pub fn pair(&self, at: u32, cell: u64) -> Option<(u32, u32)> {
        match self.max_ages {
            MaxAges::Packed(_) => (cell != EMPTY).then(|| (self.layout.name(cell), self.layout.value(cell))),
            _ => self.aged_pair(at, cell).map(|(_, key, value)| (key, value)),
        }
    }

    /// The age of the pair in a cell of a complete image; 0 if there is no pair. If codes have replaced the ages, the
    /// first age at which its list reaches this cell.
    pub fn age(&self, at: u32, cell: u64) -> u32 {
        match (self.pair(at, cell), self.max_ages) {
            (None, _) => 0,
            (Some((key, _)), MaxAges::Packed(_)) => {
                let home = self.aim(key).0;
                (1..=self.layout.max_age).find(|&age| self.functions.place(home, age) == at).unwrap_or(0)
            }
            _ => self.layout.age(cell),
        }
    }

    /// Adds one pair to an image with ages, and moves displaced pairs to their next places until none is left.
    pub fn place(&self, image: &mut [u64], mut key: u32, mut value: u32) -> Placing {
        let layout = self.layout;
        let mut age = 1;
        while age <= layout.max_age {
            let (home, name) = self.aim(key);
            let at = self.functions.place(home, age);
            let (mine, there) = (layout.cell(age, name, value), layout.get(image, at));
            if layout.upper(there) == layout.upper(mine) {
                layout.put(image, at, there.max(mine));
                return Placing::Duplicate(key);
            }
            if there < mine {
                layout.put(image, at, mine);
                let Some(displaced) = self.aged_pair(at, there) else { return Placing::Placed };
                (age, key, value) = displaced;
            }
            age += 1;
        }
        Placing::Unplaced
    }

    /// The number of cells read by a lookup, and the cell of the key.
    pub fn search(&self, image: &[u64], key: u32) -> (u32, Option<u32>) {
        let layout = self.layout;
        let (home, name) = self.aim(key);
        let bound = self.bound(image, home);
        let has_ages = !matches!(self.max_ages, MaxAges::Packed(_));
        for age in 1..=bound {
            let at = self.functions.place(home, age);
            let there = layout.get(image, at);
            let is_mine = layout.name(there) == name && there != EMPTY;
            if is_mine && (!has_ages || layout.age(there) == age) {
                return (age, Some(at));
            }
            if has_ages && layout.upper(there) < layout.upper(layout.cell(age, name, 0)) {
                return (age, None);
            }
        }
        (bound, None)
    }

    /// Replaces the key's pair by a tombstone (canonical tables). Cells still only grow, so the rule above applies to
    /// later operations, for which the slot is occupied.
    pub fn remove(&self, image: &mut [u64], key: u32) -> bool {
        let found = self.search(image, key).1;
        if let Some(at) = found {
            self.layout.put(image, at, cell::TOMBSTONE);
        }
        found.is_some()
    }
}
