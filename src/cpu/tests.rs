//! The primitives compared with plain Rust.

mod relational;
pub(super) mod schemes;

use super::{Cpu, Memory};
use crate::backend::{DeviceBuffer, HashBackend, Probe, bitmap_words, wall_tests};
use crate::device::Any;
use crate::error::{Error, Result};
use crate::scheme::AnyScheme;
use crate::scheme::hash::{MixKeys, SplitMix64, mix, reduce};
use crate::workload::keys_of_every_sort;

const SIZES: [usize; 10] = [0, 1, 2, 31, 32, 33, 129, 1000, 16 << 10, 100_001];

fn cpus() -> [Cpu; 4] {
    let [one, two, five] = [1, 2, 5].map(|threads| Cpu::with_threads(threads).expect("threads"));
    [one, two, five, Cpu::of_caller()]
}

fn noise(len: usize) -> Vec<u32> {
    let mut stream = SplitMix64::new(len as u64);
    (0..len).map(|_| stream.next_u32()).collect()
}

#[test]
fn buffers_are_written_and_read_back() -> Result<()> {
    for cpu in cpus() {
        for len in SIZES {
            let data = noise(len);
            let mut buffer = cpu.upload(&data)?;
            assert_eq!(cpu.download(&buffer)?, data);
            assert_eq!(cpu.clone_buffer(&buffer)?.words(), data);
            assert_eq!(cpu.concat(&buffer, &buffer)?.words(), data.repeat(2));
            let mut part = vec![0; len / 2];
            cpu.read(&buffer, len / 3, &mut part)?;
            assert_eq!(part, data[len / 3..len / 3 + len / 2]);
            cpu.write(&mut buffer, len - part.len(), &part)?;
            assert_eq!(buffer.words()[len - part.len()..], part);
            assert_eq!(buffer.words()[..len - part.len()], data[..len - part.len()]);
        }
        assert!(cpu.filled(3_000_000, 6u64)?.words().iter().all(|&word| word == 6));
        cpu.finish()?;
    }
    Ok(())
}

#[test]
fn ranges_past_the_end_are_refused() -> Result<()> {
    let cpu = Cpu::new();
    let (mut to, from) = (cpu.filled(4, 0u32)?, cpu.filled(9, 0u32)?);
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::LengthMismatch { .. })));
    refused(cpu.write(&mut to, 2, &[1, 2, 3]));
    refused(cpu.write(&mut to, usize::MAX, &[1]));
    refused(cpu.read(&to, 5, &mut []));
    refused(cpu.copy(&from, 0, &mut to, 0, 5));
    refused(cpu.copy(&from, 8, &mut to, 0, 2));
    refused(cpu.select(&from, true, &to).map(drop));
    refused(cpu.select_pairs(&cpu.filled(1, 0)?, true, &to, &from).map(drop));
    Ok(())
}

#[test]
fn primitives_agree_with_plain_rust() -> Result<()> {
    for cpu in cpus() {
        for len in SIZES {
            let data = noise(len);
            assert_eq!(cpu.iota(len)?.words(), (0..len as u32).collect::<Vec<_>>());
            let mut buffer = cpu.upload(&data)?;
            cpu.complement(&mut buffer)?;
            assert_eq!(buffer.words(), data.iter().map(|x| !x).collect::<Vec<_>>());
            let from = noise(777);
            let index: Vec<u32> = data.iter().map(|x| x % 800).collect();
            let gathered = cpu.gather(&cpu.upload(&from)?, &cpu.upload(&index)?)?;
            let expected: Vec<u32> = index.iter().map(|&i| from.get(i as usize).copied().unwrap_or(0)).collect();
            assert_eq!(gathered.words(), expected);
            assert_eq!(cpu.greatest(&cpu.upload(&data)?)?, data.iter().copied().max().unwrap_or(0));
        }
    }
    Ok(())
}

#[test]
fn select_keeps_the_order_and_ignores_bits_past_the_end() -> Result<()> {
    for cpu in cpus() {
        for len in SIZES {
            for (and, or) in [(u32::MAX, 0), (0, 0), (0, u32::MAX)] {
                let bits: Vec<u32> = noise(bitmap_words(len)).iter().map(|word| word & and | or).collect();
                let data = noise(len);
                let (a, b) = (cpu.upload(&data)?, cpu.iota(len)?);
                for keep in [true, false] {
                    let selected = cpu.select_pairs(&cpu.upload(&bits)?, keep, &a, &b)?;
                    let kept: Vec<usize> = (0..len).filter(|i| (bits[i / 32] >> (i % 32) & 1 == 1) == keep).collect();
                    assert_eq!(selected.0.words(), kept.iter().map(|&i| data[i]).collect::<Vec<_>>());
                    assert_eq!(selected.1.words(), kept.iter().map(|&i| i as u32).collect::<Vec<_>>());
                }
            }
        }
    }
    Ok(())
}

#[test]
fn pairs_are_sorted_by_key_and_equal_keys_keep_their_order() -> Result<()> {
    // One bucket; several; crowds too large for one thread. Equal keys have different values.
    for len in SIZES.into_iter().chain([47, 48, 49, 2048, 2049, 16_385, 400_000]) {
        for (name, keys) in keys_of_every_sort(len) {
            let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
            expected.sort_by_key(|&(key, _)| key);
            for cpu in cpus() {
                let (sorted, values) = cpu.sort_pairs(&cpu.upload(&keys)?, &cpu.iota(len)?)?;
                assert_eq!((sorted.len(), values.len()), (len, len));
                let found: Vec<_> = sorted.words().iter().copied().zip(values.words().iter().copied()).collect();
                assert!(found == expected, "{len} keys, {name}, {}", cpu.info().driver);
            }
        }
    }
    let cpu = Cpu::new();
    let refused = cpu.sort_pairs(&cpu.iota(3)?, &cpu.iota(2)?);
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
    Ok(())
}

#[test]
fn random_access_visits_the_places_of_the_contract() -> Result<()> {
    for cpu in cpus() {
        for (len, count) in [(1, 5), (1000, 0), (1000, 1), (1000, 128), (1000, 129), (70_000, 100_000)] {
            let words: Vec<u64> = (0..len as u64).map(|i| i * i + 1).collect();
            let place = |i: usize| reduce(mix(i as u32, MixKeys::default()), len as u32) as usize;
            let expected = (0..count).fold(0, |all, i| all ^ words[place(i)]);
            assert_eq!(cpu.random_reads(&cpu.upload(&words)?, count)?, expected);
            let lines = words.as_chunks::<8>().0;
            let line = |i: usize| lines[reduce(mix(i as u32, MixKeys::default()), lines.len() as u32) as usize];
            let counted = if lines.is_empty() { 0 } else { count };
            let expected = (0..counted).flat_map(line).fold(0, |all, word| all ^ word);
            assert_eq!(cpu.random_lines(&cpu.upload(&words)?, count)?, expected);
            let mut raised = vec![0; len];
            (0..count).for_each(|i| raised[place(i)] = i as u64 + 1);
            let mut buffer = cpu.filled(len, 0u64)?;
            cpu.random_updates(&mut buffer, count)?;
            assert_eq!(buffer.words(), raised);
        }
        assert_eq!(cpu.random_reads(&cpu.filled(0, 0)?, 9)?, 0);
        cpu.random_updates(&mut cpu.filled(0, 0)?, 9)?;
    }
    Ok(())
}

#[test]
fn strided_updates_visit_each_element_once_if_coprime() -> Result<()> {
    for cpu in cpus() {
        for (len, stride) in [(1, 1), (1000, 1), (1000, 7), (70_000, 3), (1 << 17, (1 << 16) + 1), (9, u32::MAX - 1)] {
            for atomic in [false, true] {
                let (mut short, mut long) = (cpu.filled(len, u32::MAX)?, cpu.filled(len, 6u64)?);
                cpu.strided_updates(&mut short, stride, atomic)?;
                cpu.strided_updates(&mut long, stride, atomic)?;
                assert!(short.words().iter().all(|&word| word == 0), "{len} {stride}");
                assert!(long.words().iter().all(|&word| word == 7), "{len} {stride}");
            }
        }
        // Each word is incremented three times; atomics lose none of the increments.
        let mut words = cpu.filled(9, 0u32)?;
        cpu.strided_updates(&mut words, 3, true)?;
        assert_eq!(words.words(), [3, 0, 0, 3, 0, 0, 3, 0, 0]);
        cpu.strided_updates(&mut cpu.filled(0, 0u64)?, 3, true)?;
    }
    Ok(())
}

#[test]
fn the_ledger_and_the_device_info_record_what_ran() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    cpu.iota(7)?;
    let stages = cpu.ledger().take();
    assert_eq!((stages[0].name, stages[0].kernel, stages[0].host), ("iota", 7, 0));
    assert_eq!((cpu.info().id.as_str(), cpu.info().units), ("cpu", 2));
    let ((), times) = cpu.stages(|| {
        cpu.complement(&mut cpu.iota(9)?)?;
        cpu.iota(3).map(drop)
    })?;
    assert_eq!(times.iter().map(|stage| stage.name).collect::<Vec<_>>(), ["set-up", "iota", "complement"]);
    assert!(cpu.info().driver.starts_with("rayon, 2 threads, "));
    assert!(Cpu::default().info().units >= 1);
    assert!(matches!(Cpu::with_threads(0), Err(Error::InvalidParameter { .. })));
    Ok(())
}

#[test]
fn mapped_files_are_read_only() -> Result<()> {
    use std::io::Write;
    let cpu = Cpu::with_threads(2)?;
    let words: Vec<u64> = (0..20_000).collect();
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytemuck::cast_slice(&words)).expect("written");
    #[expect(unsafe_code, reason = "what is tested")]
    // SAFETY: the file has no name, and is not written to any more.
    let mut mapped = unsafe { Memory::map_file(&file, 0, words.len())? };
    assert_eq!(cpu.clone_buffer(&mapped)?.words(), words);
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::Device { .. })));
    refused(cpu.write(&mut mapped, 0, &[1]));
    refused(cpu.random_updates(&mut mapped, 1));
    refused(cpu.copy(&cpu.upload(&words)?, 0, &mut mapped, 0, 1));
    assert_eq!(mapped.len(), words.len());
    Ok(())
}

#[test]
fn wrong_lengths_are_refused_before_any_pass_runs() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let any = Any::Cpu(cpu.clone());
    AnyScheme::all().try_for_each(|scheme| wall_tests::what_does_not_fit_is_refused(&any, &scheme))
}
