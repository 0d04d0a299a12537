//! Mutated inputs: the same sequence in every run, so that a failure can be reproduced.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.word() % end as u64) as usize }
    }
}

/// Values of fields at the edges of their ranges.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    3,
    0x7f,
    0xff,
    0xffff,
    1 << 20,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    1 << 32,
    1 << 61,
    u64::MAX >> 1,
    u64::MAX,
];

/// One to three changes of `input`: bits, bytes, fields at the edges of their ranges, cuts, insertions, and pieces of
/// `other`.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + random.below(3) {
        // Half of all changes are made to the first and last bytes, which contain headers and settings.
        let len = bytes.len();
        let at = match random.below(4) {
            0 => random.below(len.min(160)),
            1 => len.saturating_sub(1 + random.below(len.min(64))),
            _ => random.below(len),
        };
        match random.below(16) {
            0..5 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            5..7 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.word() as u8),
            7..10 => put(&mut bytes, at & !3, &(EDGES[random.below(EDGES.len())] as u32).to_le_bytes()),
            10..12 => put(&mut bytes, at & !7, &EDGES[random.below(EDGES.len())].to_le_bytes()),
            12 => {
                let by = (random.below(5) as u32).wrapping_sub(2);
                let field =
                    bytes.get(at & !3..(at & !3) + 4).map(|four| u32::from_le_bytes(four.try_into().expect("4")));
                field.into_iter().for_each(|field| put(&mut bytes, at & !3, &field.wrapping_add(by).to_le_bytes()));
            }
            13 => bytes.truncate(at),
            14 => {
                let piece = (random.word().to_le_bytes()).repeat(1 + random.below(4));
                let _ = bytes.splice(at..at, piece);
            }
            _ => {
                let from = random.below(other.len()) & !7;
                let piece = &other[from.min(other.len())..other.len().min(from + 8 + 8 * random.below(8))];
                put(&mut bytes, at & !7, piece);
            }
        }
    }
    bytes
}

/// Overwrites the bytes from `at` on with `piece`, up to the end.
fn put(bytes: &mut [u8], at: usize, piece: &[u8]) {
    bytes.iter_mut().skip(at).zip(piece).for_each(|(byte, &new)| *byte = new);
}
