//! The salt of a table's keys: computed before a salted attempt, and recomputed by an audit.
//!
//! Both sort the keys on the host. Few builds reach a salted attempt (`scheme/constants.rs`), and they have freed the
//! memory of their image by then, so no device needs more memory than for the build itself.

use rayon::prelude::*;

use crate::backend::{DeviceBuffer, HashBackend};
use crate::error::Result;
use crate::scheme::{Key, Kind, Plan, Salt, Scheme};
use crate::{memory, threads};

/// Keys that are read from the device at a time.
const CHUNK: usize = 1 << 21;

/// The salt of a column of distinct keys.
///
/// Cost: the column is copied to the host once, and sorted by all threads.
pub(super) fn of<B: HashBackend, K: Key>(backend: &B, seed: u64, keys: &B::Buffer<K>) -> Result<Salt> {
    threads::ready()?;
    let mut sorted = memory::zeroed::<K>(keys.len())?;
    for (piece, i) in sorted.chunks_mut(CHUNK).zip(0..) {
        backend.read(keys, i * CHUNK, piece)?;
    }
    sorted.par_sort_unstable();
    Ok(Salt::of(seed, &sorted))
}

/// Whether the salt of a valid image is that of its keys. Also true if the table does not guarantee it: a table with
/// tombstones keeps the salt that it had before pairs were removed, and so does a classic one, which has no tombstones.
pub(super) fn is_of_keys<S: Scheme>(plan: &S::Plan, image: &[u64], pairs: u64, tombstones: u64) -> Result<bool> {
    let Some(salt) = plan.salt().filter(|_| plan.kind() == Kind::Canonical && tombstones == 0) else { return Ok(true) };
    let outside = plan.outside().map(|(key, _)| key);
    let mut keys = memory::reserved(pairs as usize + 1)?;
    keys.extend((0..plan.cells()).filter_map(|cell| S::pair(plan, image, cell)).map(|(key, _)| key).chain(outside));
    keys.par_sort_unstable();
    Ok(Salt::of(plan.seed(), &keys) == salt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Kernels;
    use crate::scheme::{Cuckoo, CuckooPlan, FIRST_SALTED, Request, Violation};
    use crate::table::Image;
    use crate::{Cpu, Error, HashTable};

    const KEYS: [u32; 5] = [7, 1, u32::MAX, 30, 4];

    /// A table whose plan has this attempt and salt, whatever its keys.
    fn table(attempt: u32, salt: Option<Salt>) -> Result<HashTable<Cpu, Cuckoo>> {
        let (cpu, scheme) = (Cpu::new(), Cuckoo::canonical(4));
        let plan: CuckooPlan = scheme.plan(Request { slots: 40, pairs: 5, seed: 3, attempt })?.with_salt(salt);
        let (image, placed) = Kernels::<Cuckoo>::build(&cpu, &plan, &cpu.upload(&KEYS)?, &cpu.upload(&KEYS)?)?;
        assert_eq!(placed.unplaced, 0);
        let image = Image::of_pairs(plan, image, 5, None);
        HashTable::of_image(&cpu, &HashTable::builder(scheme).seed(3).slots(40), image)
    }

    fn saved(table: &HashTable<Cpu, Cuckoo>) -> Result<(tempfile::TempDir, std::path::PathBuf, Vec<u8>)> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table.koel");
        table.save(&path)?;
        let bytes = std::fs::read(&path).expect("the file");
        Ok((folder, path, bytes))
    }

    #[test]
    fn the_salt_is_that_of_the_sorted_keys() -> Result<()> {
        let cpu = Cpu::new();
        assert_eq!(of(&cpu, 3, &cpu.upload(&KEYS)?)?, Salt::of(3, &[1, 4, 7, 30, u32::MAX]));
        let many: Vec<u32> = (0..CHUNK as u32 + 5).rev().collect();
        let sorted: Vec<u32> = many.iter().copied().rev().collect();
        assert_eq!(of(&cpu, 3, &cpu.upload(&many)?)?, Salt::of(3, &sorted));
        Ok(())
    }

    /// All pairs are where these constants place them. Only the salt shows that the constants belong to other keys.
    #[test]
    fn the_audit_recomputes_the_salt() -> Result<()> {
        let cpu = Cpu::new();
        let own = of(&cpu, 3, &cpu.upload(&KEYS)?)?;
        let right = table(FIRST_SALTED, Some(own))?;
        right.audit()?;
        let wrong = table(FIRST_SALTED, Some(Salt::of(3, &[1, 2u32])))?;
        assert!(matches!(wrong.audit(), Err(Error::Damaged(Violation::Salt))));
        let (_folder, path, bytes) = saved(&wrong)?;
        assert_eq!(bytes[8], 3);
        let refused = HashTable::<Cpu, Cuckoo>::open(&cpu, &path);
        assert!(matches!(refused, Err(Error::BadFile { reason, .. }) if reason.contains("salt")));
        // A table with tombstones keeps the salt of its former keys.
        let mut with_tombstones = right;
        with_tombstones.remove(&[7])?;
        with_tombstones.audit()?;
        Ok(())
    }

    /// A table that was built before salts existed, at a late attempt, with constants that depend only on the seed. It
    /// keeps these constants.
    #[test]
    fn a_late_attempt_in_a_file_of_format_2_has_no_salt() -> Result<()> {
        for attempt in [FIRST_SALTED, 9, 31] {
            let (_folder, path, bytes) = saved(&table(attempt, None)?)?;
            assert_eq!((bytes[8], &bytes[112..128]), (2, &[0; 16][..]));
            let mut opened: HashTable<Cpu, Cuckoo> = HashTable::open(&Cpu::new(), &path)?;
            assert_eq!((opened.restarts(), opened.plan().salt()), (attempt, None));
            assert_eq!(opened.get(&[30, 31])?, [Some(30), None]);
            assert!(!opened.insert(&[5, 6], &[50, 60])?.rebuilt, "the pairs fit, under its old constants");
            opened.remove(&[7])?;
            opened.compact()?;
            assert_eq!((opened.restarts(), opened.plan().salt()), (attempt, None));
            assert_eq!(opened.get(&[30, 7, 5])?, [Some(30), None, Some(50)]);
            opened.audit()?;
            opened.rebuild()?;
            assert_eq!(opened.restarts(), 0);
        }
        Ok(())
    }
}
