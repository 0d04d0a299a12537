//! The sequential reference: a canonical table that the scheme's own `place` builds one pair at a time, on one host
//! thread.
//!
//! It shares only the scheme's arithmetic in `scheme/` with the backends, so even a machine with only a CPU compares
//! two implementations.

use koel::Scheme;
use koel::scheme::{FIRST_SALTED, Placing, Plan, Request, Salt};

use super::data::DataSet;
use crate::answers::wrong_ones;
use crate::number::Word;

/// The most pairs of the reference: more take one thread too long, about 20 s.
const MOST_PAIRS: usize = 1 << 26;
/// The same limit for schemes that are built on the host. The reference and the table of each device are built by one
/// thread, which takes about 10 s for 4 million pairs, and most of a minute for 16 million.
const MOST_HOST_BUILT: usize = 1 << 22;
/// The number of attempts that a builder makes.
const ATTEMPTS: u32 = 32;

/// The reference table on the host.
pub(super) struct Reference<S: Scheme> {
    pub(super) plan: S::Plan,
    pub(super) image: Vec<u64>,
}

/// The most pairs for which a reference of this scheme is built.
pub(super) fn most_pairs(scheme: &impl Scheme) -> usize {
    if scheme.host_built() { MOST_HOST_BUILT } else { MOST_PAIRS }
}

impl<S: Scheme> Reference<S>
where
    S::Key: Word,
    S::Value: Word,
{
    /// Builds the table with the first hash constants that place every pair.
    ///
    /// # Errors
    /// A sentence that says why the table cannot be built.
    pub(super) fn build(scheme: &S, slots: u64, seed: u64, data: &DataSet<S::Key, S::Value>) -> Result<Self, String> {
        let pairs = data.keys.len() as u64;
        let all: Vec<_> = data.keys.iter().copied().zip(data.values.iter().copied()).collect();
        let mut salt = None;
        for attempt in 0..ATTEMPTS {
            let plan = scheme.plan(Request { slots, pairs, seed, attempt }).map_err(|error| error.to_string())?;
            if plan.takes_salt() && attempt == FIRST_SALTED {
                let mut keys = data.keys.clone();
                keys.sort_unstable();
                salt = Some(Salt::of(seed, &keys));
            }
            let plan = plan.with_salt(salt);
            // The sentinel pair is stored outside the image.
            let is_outside = |&(key, _): &(S::Key, S::Value)| Some(key) == plan.outside_key();
            let outside = all.iter().copied().find(is_outside).map(|(_, value)| value);
            let inside: Vec<_> = all.iter().copied().filter(|pair| !is_outside(pair)).collect();
            let plan = plan.with_stash(S::stash(&plan, &inside));
            let words = usize::try_from(plan.words()).map_err(|error| error.to_string())?;
            let mut image = vec![plan.empty_word(); words];
            match S::place(&plan, &mut image, &inside) {
                Placing::Placed => return Ok(Reference { plan: plan.with_outside(outside), image }),
                Placing::Duplicate(key) => return Err(format!("key {key} was taken for a copy")),
                Placing::Unplaced => {}
            }
        }
        Err(format!(
            "{pairs} pairs of the {} keys do not fit in {slots} slots in {ATTEMPTS} attempts: lower --load or raise \
             --slots or --capacity",
            data.name
        ))
    }

    /// Checks the reference itself: its invariants, and every answer.
    pub(super) fn check(&self, data: &DataSet<S::Key, S::Value>) -> Result<(), String> {
        let audit = S::audit(&self.plan, &self.image, 0..self.plan.cells()).map_err(|error| error.to_string())?;
        if audit.pairs + u64::from(self.plan.outside().is_some()) != data.keys.len() as u64 {
            return Err(format!("{} pairs are stored, and {} were placed", audit.pairs, data.keys.len()));
        }
        let wrong = |i: usize| S::find(&self.plan, &self.image, data.queries[i]) != data.answer(i);
        match wrong_ones(data.queries.len(), &wrong) {
            None => Ok(()),
            Some((_, i)) => Err(format!("the answer to key {} is wrong", data.queries[i])),
        }
    }

    /// Compares a device's table with the reference, bit for bit.
    pub(super) fn compare(&self, plan: &S::Plan, image: &[u64]) -> Result<(), String> {
        if plan.attempt() != self.plan.attempt() {
            let (device, reference) = (plan.attempt(), self.plan.attempt());
            return Err(format!("built at attempt {device} where the reference is at attempt {reference}"));
        }
        if *plan != self.plan {
            return Err(format!("its plan is {plan:?} where the reference has {:?}", self.plan));
        }
        if image.len() != self.image.len() {
            return Err(format!("it has {} words where the reference has {}", image.len(), self.image.len()));
        }
        match wrong_ones(image.len(), &|i| image[i] != self.image[i]) {
            None => Ok(()),
            Some((differing, at)) => Err(format!(
                "{differing} of {} words differ from the reference; the first is word {at}: {:#018x} and not {:#018x}",
                image.len(),
                image[at],
                self.image[at]
            )),
        }
    }
}
