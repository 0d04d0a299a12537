//! Compares the functions in cl/signpost.clh with src/scheme/signpost.

use crate::backend::{HashBackend, Word};
use crate::error::Result;
use crate::opencl::bucketized::wide::DeviceKey;
use crate::opencl::runtime::program::MIRROR_SIGNPOST;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::signpost::parameters;
use crate::opencl::tests::{device, small};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::hash::SplitMix64;
use crate::scheme::signpost::group::{Leavers, MOST_OFFERS};
use crate::scheme::signpost::post::{self, FUNCTIONS};
use crate::scheme::signpost::{Narrow, NarrowSet, SignpostFunctions};
use crate::scheme::{Plan as _, Request, Scheme, Signpost};

const INPUTS: usize = 6;
const OUTPUTS: usize = 8;

/// Key, function, tags, keys of a home, token, position.
fn rows(slots: u64, tags: u32) -> Vec<[u64; INPUTS]> {
    let mut stream = SplitMix64::new(slots);
    let mut next = || stream.next_u64();
    let mut row = || {
        let of_all = u64::from(u32::MAX >> (32 - tags));
        let present = (next() & next() & of_all).max(1 << (next() % u64::from(tags)));
        let keys = slots + 1 + next() % (2 * slots);
        let tokens = (keys - slots).min(u64::from(present.count_ones()));
        let position = next() % (u64::from(MOST_OFFERS) + 20);
        [next() >> (next() % 60), 1 + next() % u64::from(FUNCTIONS), present, keys, next() % tokens, position]
    };
    (0..if small() { 200 } else { 50_000 }).map(|_| row()).collect()
}

/// The results that `mirror_signpost` in cl/mirror_signpost.cl must compute.
fn expected<L: Layout>(functions: &SignpostFunctions<L::Key>, row: &[u64; INPUTS]) -> [u64; OUTPUTS] {
    let &[key, function, tags, keys, token, position] = row;
    let key = L::Key::low(key);
    let (home, remainder) = functions.home(key);
    let tag = functions.fields.tag(remainder);
    let guest = functions.guest(home, tag, function as u32).unwrap_or(home);
    let leave = keys as u32 - L::SLOTS as u32;
    let tokens = leave.min((tags as u32).count_ones());
    let leavers = Leavers { tags: tags as u32, stashed: 0, tokens, surplus: leave - tokens };
    let offer = leavers.offer(token as u32, position as u32);
    let offer = offer.map_or(u64::from(u32::MAX) << 32, |(tag, function)| u64::from(tag) << 32 | u64::from(function));
    let packed = u64::from(home % 512) << 32 | token << 16 | position;
    [home.into(), remainder.into(), tag.into(), guest.into(), key.into(), key.into(), offer, packed]
}

fn agree<L: Layout>(cl: &OpenCl, functions: &SignpostFunctions<L::Key>) -> Result<()>
where
    L::Key: DeviceKey,
{
    let rows = rows(L::SLOTS as u64, 1 << post::tag_bits::<L>());
    let to: Buffer<u64> = cl.filled(rows.len() * OUTPUTS, 9)?;
    let program = cl.program(MIRROR_SIGNPOST, &parameters::<L>(functions.posts, GROUP))?;
    let from = cl.upload(rows.as_flattened())?;
    let launch = cl.signpost_kernel(&program, functions, "mirror_signpost", &from)?.buffer(&to);
    launch.value(rows.len() as u64).over_groups_of(GROUP, rows.len(), rows.len())?;
    for (row, found) in rows.iter().zip(cl.download(&to)?.chunks_exact(OUTPUTS)) {
        assert_eq!(found, expected::<L>(functions, row), "inputs {row:x?} of {} buckets", functions.buckets);
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn homes_guests_and_offers_are_those_of_their_twins() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    // Within a part, with signposts after the lines and within the words, and with a last part of one line and of two.
    for buckets in [16, 100, 4097, 5122, 1 << 20] {
        let scheme = Signpost::new();
        let request = |slots: usize| Request { slots: (buckets * slots) as u64, pairs: 1, seed: 7, attempt: 0 };
        agree::<Narrow>(cl, &scheme.plan(request(8))?.with_stash(100).functions())?;
        agree::<NarrowSet>(cl, &scheme.of::<u32, ()>().plan(request(16))?.with_stash(100).functions())?;
        agree::<(u64, u64)>(cl, &scheme.of::<u64, u64>().plan(request(4))?.with_stash(100).functions())?;
        agree::<(u64, u32)>(cl, &scheme.of::<u64, u32>().plan(request(5))?.with_stash(100).functions())?;
        agree::<(u32, u64)>(cl, &scheme.of::<u32, u64>().plan(request(5))?.with_stash(100).functions())?;
        agree::<(u64, ())>(cl, &scheme.of::<u64, ()>().plan(request(8))?.with_stash(100).functions())?;
    }
    Ok(())
}
