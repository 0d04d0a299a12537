//! The perfect spatial hash as a scheme: checks parameters, creates and reads plans.

use std::ops::Range;

use super::params::MOST_EXTENT;
use super::plan::{largest_offset_side, offset_side, side_for};
use super::{Perfect, PerfectPlan, build, canonical};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::cuckoo::classic::{EMPTY_KEY, pair};
use crate::scheme::{Audit, Crowd, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};

/// The maximum number of slots: sides of 2^15 in a plane and 2^10 in a volume, so that offsets pack into 32 bits.
pub(crate) const MOST_SLOTS: u64 = 1 << 30;
/// The maximum number of pairs, for which one thread takes minutes.
pub const MOST_PAIRS: u64 = 1 << 26;

impl Scheme for Perfect {
    const NAME: &'static str = "perfect";
    const ID: u32 = 7;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = u32;
    type Value = u32;
    type Plan = PerfectPlan;

    /// Always true, because each offset depends on all that were chosen before it.
    fn host_built(&self) -> bool {
        true
    }

    fn updates(&self) -> Updates {
        Updates::Rebuild
    }

    fn of_kind(_: Kind) -> Self {
        Perfect::default()
    }

    fn check(&self) -> Result<()> {
        for (what, extent) in [("width of a domain", Some(self.width)), ("height of a domain", self.height)] {
            if let Some(extent) = extent.filter(|extent| !(1..=MOST_EXTENT).contains(extent)) {
                return Err(Error::parameter(what, extent, "use 1 to 2147483648 cells"));
            }
        }
        Ok(())
    }

    fn default_load(&self) -> Load {
        Load::from_millionths(900_000)
    }

    fn plan(&self, request: Request) -> Result<PerfectPlan> {
        self.check()?;
        if request.slots > MOST_SLOTS {
            let what = "slots of a perfect spatial hash";
            return Err(Error::TooLarge { what, requested: request.slots, most: MOST_SLOTS });
        }
        let axes = self.axes();
        let side = side_for(request.slots, axes);
        Ok(PerfectPlan {
            kind: Kind::Canonical.code(),
            axes,
            width: self.width,
            height: self.height.unwrap_or(0),
            side,
            offset_side: offset_side(side, axes, request.attempt),
            attempt: request.attempt,
            outside: 0,
            outside_value: 0,
            reserved: 0,
            seed: request.seed,
        })
    }

    fn from_plan(plan: &PerfectPlan) -> Self {
        Perfect { width: plan.width, height: plan.height() }
    }

    /// The working memory, and the growth of the image beyond that of `plan`, at the attempt that takes most: the
    /// offset table grows from attempt to attempt, until an image has about three times its slots. For devices other
    /// than the CPU the host takes the working memory, and also holds the image and the input.
    fn scratch_bytes(plan: &PerfectPlan, pairs: u64) -> u64 {
        let largest = PerfectPlan { offset_side: largest_offset_side(plan.side, plan.axes), ..*plan };
        let image = 8 * largest.words();
        let more = image.saturating_sub(8 * plan.words());
        let working = build::working_bytes(&largest.functions(), pairs).saturating_add(pairs.saturating_mul(8));
        working.saturating_add(more).saturating_add(image)
    }

    fn limits(&self) -> Limits {
        Limits { pairs: MOST_PAIRS, ..Limits::NONE }
    }

    fn find(plan: &PerfectPlan, image: &[u64], key: u32) -> Option<u32> {
        canonical::find(plan, image, key)
    }

    /// Two, for a hit and for a miss: the offset, which is half a word, and the slot. The sentinel key takes none,
    /// because it is stored in the plan.
    fn reads(_: &PerfectPlan, _: &[u64], key: u32) -> u32 {
        if key == EMPTY_KEY { 0 } else { 2 }
    }

    fn pair(plan: &PerfectPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        if at >= plan.slots() {
            return None;
        }
        pair(*image.get(at as usize)?)
    }

    fn place(plan: &PerfectPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        canonical::place(&plan.functions(), image, pairs)
    }

    fn audit(plan: &PerfectPlan, image: &[u64], slots: Range<u64>) -> std::result::Result<Audit, Violation> {
        canonical::audit(&plan.functions(), image, slots)
    }

    fn names_crowds(&self) -> bool {
        true
    }

    /// The largest crowd of keys that no offset can separate: they share their cell of the offset table, and their slot
    /// under every offset.
    fn crowd(plan: &PerfectPlan, keys: &[u32]) -> Option<Crowd> {
        let functions = plan.functions();
        // Without memory to search for a crowd, none is reported.
        let mut homes = memory::reserved(keys.len()).ok()?;
        homes.extend(keys.iter().filter(|&&key| key != EMPTY_KEY).map(|&key| functions.home(key)));
        homes.sort_unstable();
        let largest = homes.chunk_by(|a, b| a == b).map(|crowd| crowd.len()).max().filter(|&keys| keys > 1)?;
        let (side, offset_side) = (plan.side(), plan.offset_side());
        let which = format!("congruent modulo {side} and modulo {offset_side} in every axis of the domain");
        Some(Crowd { which, keys: largest as u64, most: 1 })
    }
}
