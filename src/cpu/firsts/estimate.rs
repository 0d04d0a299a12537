//! About how many keys of a column are distinct (HyperLogLog: Flajolet, Fusy, Gandouet and Meunier 2007).
//!
//! ```text
//! each key      its hash chooses a register; the zeros before the hash's first one, and 1: the register's greatest
//! registers     2^12 bytes a thread; those of all threads are joined by their greatest
//! estimate      their harmonic mean; or, while it is small, the share of registers that no key chose
//! ```
//!
//! The standard error is 1.6 %. Keys can be chosen so that it is far off; a table that is too small for that reason is
//! given up, and made again for the number of rows.

use super::hashed::mixed;
use super::{CHUNK, grain};
use crate::cpu::lanes::at_best;
use crate::parallel::fold_with;
use crate::scheme::Key;

const BITS: u32 = 12;
const REGISTERS: usize = 1 << BITS;
const SEED: u64 = 0x6b6f_656c_2065_7374;

/// At most the number of keys.
pub(super) fn distinct<K: Key>(keys: &[K]) -> usize {
    // On a thread's stack: one page.
    type Registers = [u8; REGISTERS];
    let size = grain(keys.len()).max(16 * CHUNK);
    let of_chunk = |(): &mut (), _, keys: &[K]| {
        let mut registers: Registers = [0; REGISTERS];
        at_best(
            #[inline(always)]
            || {
                for &key in keys {
                    let hash = mixed(key.into(), SEED);
                    let register = &mut registers[hash as usize % REGISTERS];
                    *register = (*register).max((hash | 1).leading_zeros() as u8 + 1);
                }
            },
        );
        registers
    };
    let join = |mut a: Registers, b: Registers| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(b));
        a
    };
    let registers = fold_with(keys, size, || (), of_chunk, join).unwrap_or([0; REGISTERS]);
    of_registers(&registers).min(keys.len())
}

fn of_registers(registers: &[u8; REGISTERS]) -> usize {
    let m = REGISTERS as f64;
    let sum: f64 = registers.iter().map(|&register| (-f64::from(register)).exp2()).sum();
    let estimate = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
    let unchosen = registers.iter().filter(|&&register| register == 0).count();
    if estimate <= 2.5 * m && unchosen > 0 { (m * (m / unchosen as f64).ln()) as usize } else { estimate as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_near() {
        for (len, apart) in [(0_u64, 1), (10, 1), (1_000, 1 << 40), (20_000, 7), (300_000, 0x9e37_79b9_7f4a_7c15_u64)] {
            let keys: Vec<u64> = (0..2 * len).map(|i| (i % len.max(1)).wrapping_mul(apart)).collect();
            let found = distinct(&keys) as f64;
            // Keys at equal distances are no random ones.
            assert!((found - len as f64).abs() <= 0.2 * len as f64 + 2.0, "{len}: {found}");
        }
    }
}
