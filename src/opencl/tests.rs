//! The device for tests, and tests of the backend without a scheme: memory, primitives, errors.
//!
//! `KOEL_REQUIRE_OPENCL` names a platform (or `1`: any) without which these tests fail; otherwise they print to stderr,
//! outside of cargo's capture, that they were skipped. `KOEL_TEST_SMALL=1` limits sizes to those that a simulator can
//! run.

mod aliases;
mod bucketized;
mod bucketized_insert;
mod bucketized_parts;
mod bucketized_wide;
mod bucketized_wide_parts;
mod cuckoo;
mod cuckoo_set;
mod cuckoo_wide;
mod duplicates;
mod first_seen;
mod fks;
mod heavy;
mod horton;
mod horton_parts;
mod interop;
mod perfect;
mod pool;
mod quadratic;
mod relational;
pub(super) mod robin_hood;
mod robin_hood_wide;
mod sharded;
mod signpost;
mod sort_runs;
mod sorted;
mod transfers;

use std::io::Write as _;
use std::sync::OnceLock;

use super::passes::scan::Scan;
use super::passes::sort::Strategy;
use super::runtime::program::{ATOMICS, CUCKOO, MIRROR, SHAPE};
use super::runtime::sizes::Sizes;
use super::*;
use crate::backend::scheme_tests::SchemePlan;
use crate::backend::{
    Answers, ChunkOf, DeviceBuffer, HashBackend, Kernels, Numbers, Placed, Probe, Queries, Transfers, Wanted, Word,
    bitmap_words, wall_tests,
};
use crate::device::Any;
use crate::error::Error;
use crate::scheme::hash::{MixKeys, SplitMix64, mix, reduce};
use crate::scheme::{AnyScheme, Kind, Plan as _};
use crate::tuning::tuning;
use crate::workload::keys_of_every_sort;

/// The device that all tests share, or `None` with the reason on stderr.
pub(super) fn device() -> Option<&'static OpenCl> {
    static DEVICE: OnceLock<std::result::Result<OpenCl, String>> = OnceLock::new();
    let required = std::env::var("KOEL_REQUIRE_OPENCL").ok();
    let found = DEVICE.get_or_init(|| {
        let found = match required.as_deref() {
            None | Some("1") => OpenCl::best(),
            Some(platform) => OpenCl::by_name(platform),
        };
        found.map_err(|error| error.to_string())
    });
    match found {
        Ok(device) => Some(device),
        Err(reason) => {
            assert!(required.is_none(), "KOEL_REQUIRE_OPENCL is set: {reason}");
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
            None
        }
    }
}

/// Whether sizes are limited to those of a simulator.
pub(super) fn small() -> bool {
    std::env::var_os("KOEL_TEST_SMALL").is_some()
}

impl OpenCl {
    /// The same device with groups of this many work-items, and with slots only if `KOEL_STAGING` requests them.
    pub(in crate::opencl) fn with_group(&self, group: usize) -> OpenCl {
        let staged = tuning().staging().expect("a variable that is understood").unwrap_or(false);
        OpenCl(Arc::new(self.anew(staged, Sizes { group, ..self.0.sizes })))
    }

    /// The same device with slots of this many bytes, used by all transfers that fill at least half of one.
    fn with_slots(&self, bytes: usize) -> OpenCl {
        let sizes = Sizes { slot: bytes, shortest: bytes / 2, ..self.0.sizes };
        OpenCl(Arc::new(self.anew(true, sizes)))
    }
}

/// Sizes of buckets. On a simulator one: the programs of all sizes have the same code, and the tests of images run all.
pub(super) fn bucket_sizes() -> &'static [u32] {
    if small() { &[8] } else { &[4, 8, 16] }
}

/// Lengths around the borders of groups, tiles and words of a bitmap.
pub(super) fn sizes() -> Vec<usize> {
    if small() {
        // A word, a group and one more, and several groups of the smallest size.
        return vec![0, 1, 33, 65, 300];
    }
    vec![0, 1, 2, 31, 32, 33, 63, 64, 65, 1000, 8191, 8192, 8193, 20_000, 3_000_001]
}

pub(super) fn noise(seed: u64, len: usize) -> Vec<u32> {
    let mut stream = SplitMix64::new(seed);
    (0..len).map(|_| stream.next_u32()).collect()
}

/// Builds by parts, in which this stage occurs; and whether no build by the other route followed, with its stage.
fn build_by_parts<P: SchemePlan>(
    cl: &OpenCl,
    plan: &P,
    (keys, values): (&[u32], &[u32]),
    stage: &str,
    other: &str,
) -> Result<(Vec<u64>, Placed, bool)>
where
    OpenCl: Kernels<P::Scheme>,
{
    let cl = cl.with_group(64);
    cl.set_build_route(Some(BuildRoute::ByParts));
    let (keys, values) = (cl.upload(keys)?, cl.upload(values)?);
    cl.ledger().take();
    let (image, placed) = cl.build(plan, &keys, &values)?;
    let stages: Vec<_> = cl.ledger().take().into_iter().map(|stage| stage.name).collect();
    assert!(stages.contains(&stage), "{stages:?}");
    Ok((cl.download(&image)?, placed, !stages.contains(&other)))
}

#[test]
fn buffers_are_written_and_read_back() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for len in sizes() {
        let data = noise(len as u64, len);
        let mut buffer = cl.upload(&data)?;
        assert_eq!((buffer.len(), cl.download(&buffer)?), (len, data.clone()));
        assert_eq!(cl.download(&cl.clone_buffer(&buffer)?)?, data);
        assert_eq!(cl.download(&cl.concat(&buffer, &buffer)?)?, data.repeat(2));
        let mut part = vec![0; len / 2];
        cl.read(&buffer, len / 3, &mut part)?;
        assert_eq!(part, data[len / 3..len / 3 + len / 2]);
        cl.write(&mut buffer, len - part.len(), &part)?;
        assert_eq!(cl.download(&buffer)?[len - part.len()..], part);
        assert_eq!(cl.download(&cl.filled(len, 0x1234_5678_9abc_def0u64)?)?, vec![0x1234_5678_9abc_def0u64; len]);
    }
    cl.finish()
}

#[test]
fn primitives_agree_with_plain_rust() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for len in sizes() {
        let data = noise(1, len);
        let mut on_device = cl.upload(&data)?;
        assert_eq!(cl.download(&cl.iota(len)?)?, (0..len as u32).collect::<Vec<_>>());
        let index: Vec<u32> = noise(2, len).iter().map(|&x| reduce(x, len as u32 + 3)).collect();
        let gathered = cl.download(&cl.gather(&on_device, &cl.upload(&index)?)?)?;
        let expected: Vec<u32> = index.iter().map(|&i| data.get(i as usize).copied().unwrap_or(0)).collect();
        assert_eq!(gathered, expected);
        assert_eq!(cl.greatest(&on_device)?, data.iter().copied().max().unwrap_or(0));
        cl.complement(&mut on_device)?;
        assert_eq!(cl.download(&on_device)?, data.iter().map(|x| !x).collect::<Vec<_>>());
    }
    let nothing = cl.filled(0, 0u32)?;
    assert_eq!(cl.download(&cl.gather(&nothing, &cl.upload(&[0, 7])?)?)?, [0, 0]);
    Ok(())
}

#[test]
fn select_keeps_order_and_ignores_bits_past_the_end() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for len in sizes() {
        let first = noise(3, len);
        // The halves differ, so that neither half can be mistaken for the whole.
        let second: Vec<u64> = noise(4, len).into_iter().map(|x| u64::from(x) << 32 | u64::from(!x >> 3)).collect();
        let (on_device, wide) = (cl.upload(&first)?, cl.upload(&second)?);
        for bits in [noise(5, bitmap_words(len)), vec![0; bitmap_words(len)], vec![u32::MAX; bitmap_words(len)]] {
            let chosen = cl.upload(&bits)?;
            for keep in [true, false] {
                let kept = |i: &usize| (bits[i / 32] >> (i % 32) & 1 == 1) == keep;
                let (narrow, selected) = cl.select_pairs(&chosen, keep, &on_device, &wide)?;
                assert_eq!(cl.download(&narrow)?, (0..len).filter(kept).map(|i| first[i]).collect::<Vec<_>>());
                assert_eq!(cl.download(&selected)?, (0..len).filter(kept).map(|i| second[i]).collect::<Vec<_>>());
                assert_eq!(cl.download(&cl.select(&chosen, keep, &on_device)?)?, cl.download(&narrow)?);
            }
        }
    }
    Ok(())
}

#[test]
fn pairs_are_sorted_by_key_and_equal_keys_keep_their_order() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    // Around the borders of a tile of 4096 pairs, and of one of 2048 counts.
    let lengths: &[usize] = if small() { &[0, 1, 2, 4097] } else { &[4095, 4096, 4097, 8192, 32_768, 40_000] };
    for len in sizes().into_iter().filter(|_| !small()).chain(lengths.iter().copied()) {
        for (name, mut keys) in keys_of_every_sort(len) {
            // A few cases of the largest size are enough; on a simulator one, of two digits with other bits between
            // them.
            if len > 1_000_000 && !["the extremes", "random"].contains(&name) || small() && len > 2 && name != "random"
            {
                continue;
            }
            if small() {
                keys.iter_mut().for_each(|key| *key &= 0x00ff_00ff);
            }
            let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
            expected.sort_by_key(|&(key, _)| key);
            let (on_device, places) = (cl.upload(&keys)?, cl.iota(len)?);
            // A chunk per tile, and chunks of several, of which the last may have fewer.
            let few = if small() { 1 } else { 3 };
            for (strategy, chunks) in [Strategy::Alone, Strategy::Together, Strategy::Runs]
                .into_iter()
                .flat_map(|strategy| [(strategy, 1000), (strategy, few)])
            {
                let (sorted, values) = cl.sort_pairs_by(strategy, chunks, &on_device, &places)?;
                let found: Vec<_> = cl.download(&sorted)?.into_iter().zip(cl.download(&values)?).collect();
                assert!(found == expected, "{len} keys, {name}, {strategy:?}, {chunks} chunks");
            }
        }
    }
    let refused = cl.sort_pairs(&cl.iota(3)?, &cl.iota(2)?);
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
    Ok(())
}

#[test]
fn prefix_sums_are_exclusive_and_of_any_length() -> Result<()> {
    fn agree<T: Word + From<u32> + std::ops::AddAssign>(cl: &OpenCl, len: usize) -> Result<()> {
        let counts: Vec<T> = noise(len as u64, len).iter().map(|&x| T::from(x >> 24)).collect();
        let mut before = T::from(0);
        let expected: Vec<T> = counts
            .iter()
            .map(|&count| {
                let mine = before;
                before += count;
                mine
            })
            .collect();
        let on_device = cl.upload(&counts)?;
        let scan = Scan::of(cl, len)?;
        scan.run(&on_device)?;
        assert!(cl.download(&on_device)? == expected, "{len}");
        // Again in the same memory.
        let again = cl.upload(&counts)?;
        scan.run(&again)?;
        assert!(cl.download(&again)? == expected, "{len}, again");
        assert!(matches!(scan.run(&cl.filled(len + 1, T::from(0))?), Err(Error::LengthMismatch { .. })));
        Ok(())
    }
    let Some(cl) = device() else { return Ok(()) };
    // One tile, several, and enough for the sums of tiles to have tiles themselves.
    let lengths: &[usize] = if small() { &[2049] } else { &[2047, 2048, 2049, 4096, 4_194_304, 4_194_305] };
    for len in sizes().into_iter().chain(lengths.iter().copied()) {
        agree::<u32>(cl, len)?;
        agree::<u64>(cl, len)?;
    }
    // Sums beyond 32 bits.
    let counts = cl.upload(&[u64::from(u32::MAX); 5000])?;
    Scan::of(cl, 5000)?.run(&counts)?;
    assert!(cl.download(&counts)?.iter().zip(0..).all(|(&sum, i)| sum == i * u64::from(u32::MAX)));
    Ok(())
}

#[test]
fn random_access_visits_the_places_of_the_contract() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for len in [1, 2, 1000, 4097] {
        let mut stream = SplitMix64::new(len as u64);
        let words: Vec<u64> = (0..len).map(|_| stream.next_u64() >> 40).collect();
        for count in [0, 1, 7, 255, 2049] {
            let place = |i: usize| reduce(mix(i as u32, MixKeys::default()), len as u32) as usize;
            let mut on_device = cl.upload(&words)?;
            let xor = (0..count).fold(0, |xor, i| xor ^ words[place(i)]);
            assert_eq!(cl.random_reads(&on_device, count)?, xor);
            let lines = words.as_chunks::<8>().0;
            let line = |i: usize| lines[reduce(mix(i as u32, MixKeys::default()), lines.len() as u32) as usize];
            let counted = if lines.is_empty() { 0 } else { count };
            let xor = (0..counted).flat_map(line).fold(0, |xor, word| xor ^ word);
            assert_eq!(cl.random_lines(&on_device, count)?, xor);
            let mut raised = words.clone();
            (0..count).for_each(|i| raised[place(i)] = raised[place(i)].max(i as u64 + 1));
            cl.random_updates(&mut on_device, count)?;
            assert_eq!(cl.download(&on_device)?, raised);
        }
    }
    let mut nothing = cl.filled(0, 0u64)?;
    cl.random_updates(&mut nothing, 9)?;
    assert_eq!(cl.random_reads(&nothing, 9)?, 0);
    Ok(())
}

#[test]
fn long_buffers_are_filled_by_a_kernel() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for len in [0, 1, 2, 3, 4, 5, 63, 1000, 5001] {
        let (words, longs): (Buffer<u32>, Buffer<u64>) = (cl.unwritten(len)?, cl.unwritten(len)?);
        // Few enough that each has several turns.
        cl.fill(&words, 0x8123_4567, 1)?;
        cl.fill(&longs, 0x8123_4567_89ab_cdef, 1)?;
        assert_eq!(cl.download(&words)?, vec![0x8123_4567; len]);
        assert_eq!(cl.download(&longs)?, vec![0x8123_4567_89ab_cdef; len]);
    }
    Ok(())
}

#[test]
fn strided_updates_are_those_of_the_contract() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for (len, stride) in [(1, 1), (1000, 7), (4097, 65_537), (9, u32::MAX - 1)] {
        for atomic in [false, true] {
            let (mut short, mut long) = (cl.filled(len, u32::MAX)?, cl.filled(len, 6u64)?);
            cl.strided_updates(&mut short, stride, atomic)?;
            cl.strided_updates(&mut long, stride, atomic)?;
            assert!(cl.download(&short)?.iter().all(|&word| word == 0), "{len} {stride}");
            assert!(cl.download(&long)?.iter().all(|&word| word == 7), "{len} {stride}");
        }
    }
    let mut words = cl.filled(9, 0u32)?;
    cl.strided_updates(&mut words, 3, true)?;
    assert_eq!(cl.download(&words)?, [3, 0, 0, 3, 0, 0, 3, 0, 0]);
    cl.strided_updates(&mut cl.filled(0, 0u64)?, 3, true)
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (mut to, from) = (cl.filled(4, 0u32)?, cl.filled(9, 0u32)?);
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::LengthMismatch { .. })));
    refused(cl.write(&mut to, 2, &[1, 2, 3]));
    refused(cl.write(&mut to, usize::MAX, &[1]));
    refused(cl.read(&to, 5, &mut []));
    refused(cl.copy(&from, 0, &mut to, 0, 5));
    refused(cl.copy(&from, 8, &mut to, 0, 2));
    refused(cl.select(&from, true, &to).map(drop));
    refused(cl.select_pairs(&cl.filled(1, 0)?, true, &to, &from).map(drop));
    if let Some(most) = cl.info().largest_buffer {
        let too_large = cl.filled(most as usize / 4 + 1, 0u32);
        assert!(matches!(too_large, Err(Error::TooLarge { .. })), "{too_large:?}");
    }
    Ok(())
}

#[test]
fn time_is_that_of_the_commands_in_between() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 1 << 10 } else { 1 << 20 };
    let mut buffer = cl.iota(len)?;
    let (nothing, none) = cl.timed(|| Ok(7))?;
    assert_eq!((nothing, none.as_nanos()), (7, 0));
    let mut inner = None;
    let (_, outer) = cl.timed(|| {
        inner = Some(cl.timed(|| cl.complement(&mut buffer))?.1);
        cl.complement(&mut buffer)
    })?;
    let inner = inner.expect("an inner time");
    // Oclgrind's timestamps may all be equal.
    assert!(outer > inner && inner.as_nanos() > 0 || small(), "{outer:?} {inner:?}");
    let ((), stages) = cl.stages(|| {
        cl.complement(&mut buffer)?;
        cl.clone_buffer(&buffer)?;
        cl.filled(1, 7u32)?;
        cl.complement(&mut buffer)
    })?;
    assert_eq!(stages.iter().map(|stage| stage.name).collect::<Vec<_>>(), ["complement", "copy", "fill"]);
    let failed: Result<((), _)> = cl.timed(|| Err(Error::WrongDevice));
    assert!(failed.is_err());
    assert!(!cl.0.clocks.is_running(), "a failure leaves no clock running");
    Ok(())
}

#[test]
fn the_ledger_names_kernels_and_items() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cl = cl.with_group(64);
    cl.iota(100)?;
    cl.iota(5)?;
    let stages = cl.ledger().take();
    assert_eq!((stages.len(), stages[0].name, stages[0].kernel, stages[0].host), (1, "iota", 105, 0));
    let buffer = cl.upload(&[1u64, 2, 3, 4, 5])?;
    cl.read(&buffer, 3, &mut [0; 2])?;
    let moved = cl.ledger().take_transfers();
    assert_eq!((moved.to_device, moved.to_host), (40, 16));
    assert_eq!(cl.ledger().take_transfers(), Transfers::default());
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn compilers_have_nothing_to_say() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let mut programs = vec![cl.program(ATOMICS, &[])?];
    programs.extend([cl.primitives()?, cl.columns::<u32>()?, cl.columns::<u64>()?, cl.sorted()?]);
    for strategy in [Strategy::Alone, Strategy::Together, Strategy::Runs] {
        programs.extend([cl.sort_program::<u32, u32>(strategy)?, cl.sort_program::<u32, u64>(strategy)?]);
        programs.extend([cl.sort_program::<u64, u32>(strategy)?, cl.sort_program::<u64, u64>(strategy)?]);
    }
    macro_rules! lines {
        ($($layout:ty),*) => {
            $(programs.extend([cl.lines_program::<$layout>()?, cl.sorted_columns::<$layout>()?]);
            programs.push(cl.lines_tokens_program::<$layout>()?);
            programs.extend([cl.cuckoo_lines::<$layout>(2)?, cl.cuckoo_lines::<$layout>(5)?]);
            for shape in [LookupShape::Alone, LookupShape::Together] {
                programs.extend([cl.lines_lookup::<$layout>(shape, true)?, cl.lines_lookup::<$layout>(shape, false)?]);
            }
            programs.extend(cl.lines_parts_programs::<$layout>()?);)*
        };
    }
    lines!((u64, u64), (u64, u32), (u32, u64), (u64, ()));
    programs.extend(signpost::programs(cl)?);
    programs.extend([cl.scan_program(false)?, cl.scan_program(true)?]);
    programs.extend([cl.key_slots_program::<u32>()?, cl.key_slots_program::<u64>()?]);
    programs.extend([cl.relational()?, cl.accumulate_program(None, Wanted::ALL)?]);
    programs.push(cl.accumulate_program(None, Wanted { count: true, ..Wanted::default() })?);
    for of in Numbers::ALL {
        programs.push(cl.accumulate_program(Some(of), Wanted::ALL)?);
    }
    programs.push(cl.program(MIRROR, &[("GROUP", 64)])?);
    for plan in cuckoo::plans(8) {
        for shape in [LookupShape::Alone, LookupShape::Runs] {
            programs.extend([cl.cuckoo::<u64>(&plan, shape)?, cl.cuckoo::<u32>(&plan, shape)?]);
        }
    }
    programs.push(cl.cuckoo::<u64>(&quadratic::plan(8, 0).1, LookupShape::Runs)?);
    programs.push(cl.program(SHAPE, &[("GROUP", 64)])?);
    for plan in horton::plans(8) {
        programs.extend([cl.horton(&plan)?, cl.horton_build(&plan)?]);
        if plan.kind() == Kind::Canonical {
            programs.extend([cl.horton_parts(&plan)?, cl.horton_rooms(&plan)?, cl.horton_stash(&plan)?]);
        }
        for shape in LookupShape::ALL {
            programs.extend([cl.horton_lookup(&plan, shape, true)?, cl.horton_lookup(&plan, shape, false)?]);
        }
    }
    for plan in fks::plans() {
        programs.extend([cl.fks(&plan)?, cl.fks_build(&plan)?]);
    }
    for plan in robin_hood::plans() {
        programs.extend([cl.robin_hood(&plan, LookupShape::Alone)?, cl.robin_hood(&plan, LookupShape::Runs)?]);
    }
    for plan in perfect::plans(8) {
        programs.push(cl.perfect(&plan)?);
    }
    for plan in bucketized::plans() {
        if plan.kind() == Kind::Canonical {
            programs.extend(cl.bucketized_parts_programs(&plan)?);
        }
        programs.extend([cl.bucketized(&plan)?, cl.bucketized_build(&plan)?]);
        for shape in LookupShape::ALL {
            programs.extend([cl.bucketized_lookup(&plan, shape, true)?, cl.bucketized_lookup(&plan, shape, false)?]);
        }
    }
    for program in &programs {
        let log = ocl::core::get_program_build_info(program, cl.0.device, ocl::enums::ProgramBuildInfo::BuildLog);
        let log = log.expect("a build log").to_string();
        assert!(!log.to_lowercase().contains("warning"), "{log}");
    }
    let broken = cl.program(CUCKOO, &[("CLASSIC", 0)]);
    let Err(Error::Compile { log, .. }) = broken else { panic!("KOEL_FUNCTIONS is missing: {broken:?}") };
    assert!(log.contains("KOEL_FUNCTIONS"), "{log}");
    // Oclgrind and NVIDIA ignore `#line`.
    let is_ignored = ["Oclgrind", "CUDA"].iter().any(|name| cl.info().driver.contains(name));
    assert!(log.contains("cuckoo.cl:") || is_ignored, "the log names our file: {log}");
    Ok(())
}

#[test]
fn devices_are_numbered_and_found_by_name() -> Result<()> {
    let found = devices();
    for (number, candidate) in found.iter().enumerate() {
        assert_eq!(candidate.info.id, format!("opencl:{number}"));
        let opened = OpenCl::nth(number);
        assert_eq!(opened.is_ok(), candidate.refused.is_none(), "{opened:?}");
    }
    assert!(matches!(OpenCl::nth(found.len()), Err(Error::NoDevice { .. })));
    assert!(matches!(OpenCl::by_name("no device has this name"), Err(Error::NoDevice { .. })));
    let Some(cl) = device() else { return Ok(()) };
    let again = OpenCl::by_name(&cl.info().name.to_uppercase())?;
    again.complement(&mut cl.iota(3)?)?;
    Ok(())
}

#[test]
#[ignore = "slow: kernels of every scheme, for checks on the host; CI runs it"]
fn wrong_lengths_are_refused_before_any_pass_runs() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let any = Any::OpenCl(cl.clone());
    AnyScheme::all().try_for_each(|scheme| wall_tests::what_does_not_fit_is_refused(&any, &scheme))
}
