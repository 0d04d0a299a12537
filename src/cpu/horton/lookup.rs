//! Lookups in blocks: every key reads its home bucket, and the few keys with a remap entry read one more bucket.
//!
//! ```text
//! loop  aim      the homes and tags of the next 128 keys, eight at a time
//!       first    the 128 before them: the whole bucket is compared with the key at once; without a hit, in a Type B
//!                bucket with an entry: list the key. At each step one line of the next 128 is prefetched
//!       second   those listed one block earlier, whose second lines had a block's time to arrive
//!       lead     the second buckets of those just listed, eight at a time; their lines are prefetched
//! ```
//!
//! The branch predictor cannot foresee whether a key hits, or whether it has a second bucket, so nothing branches on
//! either: each key writes its result, and its number to the end of the list, and only the length of the list depends
//! on the result. At load 0.9 about 14 % of the hits and 5 % of the misses read a second bucket.
//!
//! In contrast to the cuckoo table, there are no queues by age. A key has at most two probes, and few keys of a block
//! have a second one, so second probes need no separate blocks, and answers are in the order of the keys.

use wide::u32x8;

use crate::cpu::BLOCK;
use crate::cpu::lanes::Lanes;
use crate::cpu::memory::prefetch;
use crate::scheme::hash::Lane;
use crate::scheme::horton::{Functions, HortonFamily, tokens};

/// The parts of a plan that a search needs.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) functions: &'a Functions,
    pub(super) family: HortonFamily,
}

/// Keys whose homes are in flight. Elements from `len` on are leftovers.
struct Firsts {
    start: usize,
    len: usize,
    keys: [u32; BLOCK],
    homes: [u32; BLOCK],
    tags: [u32; BLOCK],
}

/// The keys of a block that have a second bucket.
struct Led {
    len: usize,
    /// Their numbers in the block, ascending.
    numbers: [u8; BLOCK],
    /// The entry of every key of the block.
    codes: [u32; BLOCK],
}

/// Keys whose second buckets are in flight.
struct Seconds {
    len: usize,
    numbers: [u32; BLOCK],
    keys: [u32; BLOCK],
    buckets: [u32; BLOCK],
}

/// Receives the results of comparisons. Bit `2 i + 1` of `hits` is set for each word i of a bucket whose key is the
/// query; in a valid image at most one bit is set. For the key of the empty marker every answer is wrong.
pub(super) trait Answers<const S: usize> {
    /// The answer for a key. A second answer follows only if the first had no hit. Without hits, `value` is arbitrary.
    fn answer(&mut self, number: usize, bucket: u32, hits: u32, value: u32);
}

/// The slot of a hit; an arbitrary one without hits.
#[inline(always)]
pub(super) fn slot_of<const S: usize>(hits: u32) -> usize {
    hits.trailing_zeros() as usize / 2 % S
}

/// Looks `keys` up.
#[inline(always)]
pub(super) fn search<const S: usize>(
    lanes: impl Lanes,
    lookup: Lookup<'_>,
    image: &[u64],
    keys: &[u32],
    answers: &mut impl Answers<S>,
) {
    let buckets = image.as_chunks::<S>().0;
    let none = [0; BLOCK];
    let first_occurrences = || Firsts { start: 0, len: 0, keys: none, homes: none, tags: none };
    let (mut one, mut other) = (first_occurrences(), first_occurrences());
    let (mut flying, mut next) = (&mut one, &mut other);
    let mut led = Led { len: 0, numbers: [0; BLOCK], codes: none };
    let mut seconds = Seconds { len: 0, numbers: none, keys: none, buckets: none };
    let mut start = 0;
    loop {
        start += next.aim(lookup, keys, start);
        flying.ask(lanes, lookup.functions, buckets, &mut led, answers, &next.homes);
        seconds.ask(lanes, lookup.functions, buckets, answers);
        seconds.lead(lookup, buckets, flying, &led);
        std::mem::swap(&mut flying, &mut next);
        if flying.len == 0 && seconds.len == 0 {
            return;
        }
    }
}

impl Firsts {
    /// Takes at most a block of keys from `start` on, and returns how many.
    #[inline(always)]
    fn aim(&mut self, lookup: Lookup<'_>, keys: &[u32], start: usize) -> usize {
        let keys = &keys[start..keys.len().min(start + BLOCK)];
        (self.start, self.len) = (start, keys.len());
        match keys.first_chunk() {
            Some(whole) => self.keys = *whole,
            None => self.keys[..keys.len()].copy_from_slice(keys),
        }
        let lanes = self.len.div_ceil(8);
        let homes = self.homes.as_chunks_mut::<8>().0.iter_mut();
        let tags = self.tags.as_chunks_mut::<8>().0.iter_mut();
        for ((keys, homes), tags) in self.keys.as_chunks::<8>().0.iter().zip(homes).zip(tags).take(lanes) {
            let (home, tag) = lookup.homes(*keys);
            (*homes, *tags) = (home, tag);
        }
        self.len
    }

    /// Reads every home, and lists the keys that are missing and have a second bucket in `led`. For each home it
    /// prefetches one of the next block: 128 prefetches at once would wait for each other, with no other work to do
    /// meanwhile.
    #[inline(always)]
    fn ask<const S: usize>(
        &self,
        lanes: impl Lanes,
        functions: &Functions,
        image: &[[u64; S]],
        led: &mut Led,
        answers: &mut impl Answers<S>,
        next: &[u32; BLOCK],
    ) {
        let bits = functions.bits;
        led.len = 0;
        let len = self.len.min(BLOCK);
        #[expect(
            clippy::needless_range_loop,
            reason = "an iterator is one more pointer, for which a register is missing"
        )]
        for i in 0..len {
            fetch(image, next[i]);
            let (home, key) = (self.homes[i], self.keys[i]);
            let bucket = &image[home as usize];
            let type_b = tokens::is_type_b(bucket[0], bucket[1]);
            let hits = find(lanes, bucket, type_b, key);
            answers.answer(self.start + i, home, hits, bucket[slot_of::<S>(hits)] as u32);
            let code = tokens::entry(bucket[S - 1], self.tags[i], bits);
            led.numbers[led.len % BLOCK] = i as u8;
            led.codes[i] = code;
            led.len += usize::from((hits == 0) & type_b & (code != 0));
        }
        next[len..].iter().for_each(|&ahead| fetch(image, ahead));
    }
}

impl Seconds {
    /// Reads every second bucket.
    #[inline(always)]
    fn ask<const S: usize>(
        &self,
        lanes: impl Lanes,
        functions: &Functions,
        image: &[[u64; S]],
        answers: &mut impl Answers<S>,
    ) {
        for i in 0..self.len.min(BLOCK) {
            let at = self.buckets[i];
            let Some(bucket) = image.get(at as usize) else { continue };
            // In a valid image no entry leads to a Type B bucket. In an invalid one, the entries of such a bucket must
            // not be read as a pair.
            let type_b = tokens::is_type_b(bucket[0], bucket[1]) & (at < functions.buckets);
            let hits = find(lanes, bucket, type_b, self.keys[i]);
            answers.answer(self.numbers[i] as usize, at, hits, bucket[slot_of::<S>(hits)] as u32);
        }
    }

    /// Takes over the keys of a block that have a second bucket.
    #[inline(always)]
    fn lead<const S: usize>(&mut self, lookup: Lookup<'_>, image: &[[u64; S]], from: &Firsts, led: &Led) {
        self.len = led.len.min(BLOCK);
        let lanes = self.len.div_ceil(8);
        let numbers = led.numbers.as_chunks::<8>().0.iter();
        let keys = self.keys.as_chunks_mut::<8>().0.iter_mut().zip(self.numbers.as_chunks_mut::<8>().0);
        let buckets = self.buckets.as_chunks_mut::<8>().0.iter_mut();
        for ((numbers, (keys, of_all)), buckets) in numbers.zip(keys).zip(buckets).take(lanes) {
            // Elements after the end of the list are leftovers, which are valid numbers too.
            let of = |all: &[u32; BLOCK]| numbers.map(|i| all[usize::from(i) % BLOCK]);
            *keys = of(&from.keys);
            *of_all = numbers.map(|i| from.start as u32 + u32::from(i));
            *buckets = lookup.led(*keys, of(&from.homes), of(&from.tags), of(&led.codes));
        }
        self.buckets[..self.len].iter().for_each(|&bucket| fetch(image, bucket));
    }
}

impl Lookup<'_> {
    /// The homes and tags of eight keys.
    #[inline(always)]
    fn homes(self, keys: [u32; 8]) -> ([u32; 8], [u32; 8]) {
        match self.family {
            HortonFamily::Mixer => {
                let (homes, tags) = self.functions.mixed_home(u32x8::new(keys));
                (homes.to_array(), tags.to_array())
            }
            _ => {
                let each = keys.map(|key| self.functions.home(key));
                (each.map(|(home, _)| home), each.map(|(_, tag)| tag))
            }
        }
    }

    /// The buckets to which the entries of eight keys lead.
    #[inline(always)]
    fn led(self, keys: [u32; 8], homes: [u32; 8], tags: [u32; 8], codes: [u32; 8]) -> [u32; 8] {
        let functions = self.functions;
        match self.family {
            HortonFamily::Mixer => {
                let code = u32x8::new(codes);
                let remapped = functions.mixed_remap(u32x8::new(homes), u32x8::new(tags), code);
                let stash = functions.stash(u32x8::new(keys)).plus(u32x8::splat(functions.buckets));
                let stashed = code.simd_eq(u32x8::splat(functions.stash_code()));
                stashed.bitselect(stash, remapped).to_array()
            }
            _ => std::array::from_fn(|i| functions.led(keys[i], homes[i], tags[i], codes[i]).unwrap_or(0)),
        }
    }
}

/// Compares a key with all pairs of a bucket.
#[inline(always)]
fn find<const S: usize>(lanes: impl Lanes, bucket: &[u64; S], type_b: bool, key: u32) -> u32 {
    keys_equal(lanes, bucket, key) & !(u32::from(type_b) << (2 * S - 1))
}

/// Sets bit 2 i + 1 for each word i whose upper half is this key.
#[inline(always)]
fn keys_equal<const S: usize>(lanes: impl Lanes, bucket: &[u64; S], key: u32) -> u32 {
    const { assert!(S == 4 || S.is_multiple_of(8) && S <= 16) }
    let (key, care) = (u64::from(key) << 32, u64::from(u32::MAX) << 32);
    if S == 4 {
        let mut line = [0; 8];
        line[..4].copy_from_slice(&bucket[..4]);
        return lanes.same(&line, key, care) & 0xaa;
    }
    let lines = bucket.as_chunks::<8>().0.iter().enumerate();
    lines.fold(0, |equal, (i, words)| equal | lanes.same(words, key, care) << (16 * i)) & 0xaaaa_aaaa
}

/// Prefetches the lines of a bucket.
#[inline(always)]
fn fetch<const S: usize>(image: &[[u64; S]], bucket: u32) {
    let words = image.as_flattened();
    for line in (0..S).step_by(8) {
        prefetch(words, bucket as usize * S + line);
    }
}
