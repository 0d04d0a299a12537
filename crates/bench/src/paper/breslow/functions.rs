//! The five other functions that Section 6.1 names, each of a key of 32 bits: its four bytes, the lowest first.
//!
//! The paper says that they make no difference, and gives no seeds: all seeds are 0 here. Where a function exists in
//! several versions, its comment says which one this is. No table of koel uses them.

/// A function from keys to 32 bits.
pub(super) type Function = fn(u32) -> u32;

/// Their names, and the functions.
pub(super) const NAMED: [(&str, Function); 5] =
    [("FNV-1a", fnv_1a), ("Wang", wang), ("lookup3", lookup3), ("SpookyHash", spooky), ("CityHash", city)];

/// FNV-1a of 32 bits: each byte is combined by XOR, and the result is multiplied by the prime. From the paper's
/// reference 26 (Fowler, Noll, Vo and Eastlake, `draft-eastlake-fnv`), which recommends FNV-1a over FNV-1.
fn fnv_1a(key: u32) -> u32 {
    let (offset, prime) = (0x811c_9dc5, 0x0100_0193);
    key.to_le_bytes().into_iter().fold(offset, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(prime))
}

/// Thomas Wang's function of 32 bits with one multiplication ("Integer Hash Function", 1997 to 2007). Of his functions
/// it is the first on the page that the paper cites (reference 35, Jenkins' "4-byte Integer Hashing").
fn wang(key: u32) -> u32 {
    let mixed = key ^ 61 ^ key >> 16;
    let mixed = mixed.wrapping_mul(9);
    let mixed = (mixed ^ mixed >> 4).wrapping_mul(0x27d4_eb2d);
    mixed ^ mixed >> 15
}

/// `hashword` of one word, by Bob Jenkins (`lookup3.c`, May 2006); `hashlittle` of the same four bytes is equal.
fn lookup3(key: u32) -> u32 {
    // Three words of state, to which the length in bytes is added; then `final`, one step per rotation. The steps write
    // to c, a and b in turn, each from the word that the previous step wrote; the first step reads b.
    let start = 0xdead_beef_u32.wrapping_add(4);
    let mut words = [start, start.wrapping_add(key), start];
    for (step, by) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        let (to, from) = (step % 3, words[(step + 2) % 3]);
        words[to] = (words[to] ^ from).wrapping_sub(from.rotate_left(by));
    }
    words[0]
}

/// SpookyHash V2 by Bob Jenkins (`SpookyV2.cpp`, August 2012): `Hash32`, which is the lower half of the first word of
/// `Short` for messages as short as these.
fn spooky(key: u32) -> u32 {
    // State words that are not the seed start as this constant. The length is added to the highest byte of the last
    // word.
    let start = 0xdead_beef_dead_beef_u64;
    let mut words = [0, 0, start.wrapping_add(key.into()), start.wrapping_add(4 << 56)];
    // `ShortEnd`, one step per rotation: each step combines a word with the one before it, which is rotated and added.
    // The steps begin with the last word, and continue with the first.
    for (step, by) in [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63].into_iter().enumerate() {
        let (to, from) = ((step + 3) % 4, (step + 2) % 4);
        words[to] ^= words[from];
        words[from] = words[from].rotate_left(by);
        words[to] = words[to].wrapping_add(words[from]);
    }
    words[0] as u32
}

/// CityHash32 by Geoff Pike and Jyrki Alakuijala (`city.cc` of version 1.1, 2012), for four bytes. The post that the
/// paper cites (reference 59) is older and has only functions of 64 and 128 bits; the paper hashes to 32.
fn city(key: u32) -> u32 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let taken_in = |hash: u32, word: u32| {
        let word = word.wrapping_mul(C1).rotate_right(17).wrapping_mul(C2);
        (hash ^ word).rotate_right(19).wrapping_mul(5).wrapping_add(0xe654_6b64)
    };
    let (mut sum, mut all) = (0_u32, 9);
    for byte in key.to_le_bytes() {
        // The source has `signed char`: bytes from 128 on are negative.
        sum = sum.wrapping_mul(C1).wrapping_add(i32::from(byte as i8) as u32);
        all ^= sum;
    }
    let hash = taken_in(taken_in(all, 4), sum);
    // The finalizer of MurmurHash3.
    let hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: Function, of: &[([u8; 4], u32)]) {
        for &(bytes, hash) in of {
            let found = function(u32::from_le_bytes(bytes));
            assert_eq!(found, hash, "{bytes:02x?}: {found:08x} in place of {hash:08x}");
        }
    }

    /// A sum of the hashes of many keys that depends on the position of each hash.
    fn of_many(function: Function) -> u32 {
        let keys = (0..100_000_u32).map(|i| i.wrapping_mul(0x9e37_79b9));
        keys.fold(0, |sum: u32, key| sum.wrapping_mul(31).wrapping_add(function(key)))
    }

    /// Published: all inputs of four bytes among the first hundred of `test_fnv.c`, by the authors of FNV.
    #[test]
    fn fnv_has_its_authors_test_vectors() {
        check(
            fnv_1a,
            &[
                (*b"foob", 0x3f50_76ef),
                (*b"foo\0", 0x6150_ac75),
                (*b"chon", 0xac29_7727),
                (*b"cho\0", 0x0229_fe89),
                (*b"curd", 0x8cb9_1483),
                (*b"cur\0", 0x70b8_e86f),
                ([0xff, 0, 0, 1], 0xc48f_b86d),
                ([1, 0, 0, 0xff], 0x2269_f369),
                ([0xff, 0, 0, 2], 0xc18f_b3b4),
                ([2, 0, 0, 0xff], 0x50ef_1236),
                ([0xff, 0, 0, 3], 0xc28f_b547),
                ([3, 0, 0, 0xff], 0x96c3_bf47),
                ([0xff, 0, 0, 4], 0xbf8f_b08e),
                ([4, 0, 0, 0xff], 0xf3e4_d49c),
                ([0x40, 0x51, 0x4e, 0x44], 0x3217_9058),
                ([0x44, 0x4e, 0x51, 0x40], 0x280b_fee6),
                ([0x40, 0x51, 0x4e, 0x4a], 0x3017_8d32),
                ([0x4a, 0x4e, 0x51, 0x40], 0x21ad_daf8),
            ],
        );
    }

    /// No test vectors of Wang's are known. Published by another author: the first, in the test of AnzenKodo's `hash.c`
    /// (2024). Not published: the rest, computed with that file's `hash_int_wang32shiftmult`.
    #[test]
    fn wang_is_what_others_have() {
        assert_eq!(wang(1_501_094_981), 608_512_410);
        let others = [(0, 0xc0a9_496a), (1, 0x2792_2c9d), (1 << 31, 0xad16_aa14), (u32::MAX, 0x70f4_99d3)];
        assert_eq!(others.map(|(key, _)| wang(key)), others.map(|(_, hash)| hash));
        assert_eq!(of_many(wang), 0xbe82_7fb7);
    }

    /// Published: `test_chksum_size_four` of HDF5 (`test/tchecksum.c`), whose checksum is `hashlittle`; and the key of
    /// four bytes of DPDK's `rte_jhash` (`test_hash_functions.c`), which is lookup3, with initial value 0.
    #[test]
    fn lookup3_has_the_vectors_of_hdf5_and_dpdk() {
        check(lookup3, &[([23, 187, 98, 217], 0x2c88_bb51), ([0; 4], 0x0493_96b8), ([0, 1, 2, 3], 0xe4cf_1d42)]);
    }

    /// Published: the entry of length 4 in the table of `TestSpookyV2.cpp`, whose bytes count from 128. Not published:
    /// the sum, of Jenkins' code as the Python package `spookyhash` 2.1.1 wraps it.
    #[test]
    fn spooky_is_what_its_author_has() {
        check(spooky, &[([128, 129, 130, 131], 0x8223_b279)]);
        assert_eq!(of_many(spooky), 0xa070_6bf6);
    }

    /// Published: row 4 of `city-test.cc` of version 1.1, which is of bytes 16 to 19 of its data (one is above 127).
    /// Not published: the sum, of Google's code as the Python package `cityhash` 0.4.10 wraps it.
    #[test]
    fn city_is_what_its_authors_have() {
        check(city, &[([0x3b, 0x30, 0xa7, 0x2c], 0x26f2_b463)]);
        assert_eq!(of_many(city), 0x4fb4_7513);
    }
}
