//! The number of a scheme in files and digests: the scheme, and the types of its keys and values.
//!
//! ```text
//! bits 0 to 15    the scheme                 as in the registry
//!     16 to 19    keys                       0 = u32, 1 = u64
//!     20 to 23    values                     0 = u32, 1 = u64, 2 = no values
//! ```
//!
//! Tables of 32 bits keep their original numbers. Older readers reject all others by their number.

use std::fmt;

use super::AnyScheme;

/// The meaning of a scheme number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchemeNumber {
    pub(crate) name: &'static str,
    /// 32 or 64.
    pub(crate) key_bits: u32,
    /// 32 or 64; 0 without values.
    pub(crate) value_bits: u32,
}

impl SchemeNumber {
    /// The meaning of this number, if this version knows it. Not every combination has tables.
    pub(crate) fn of(number: u32) -> Option<SchemeNumber> {
        let name = AnyScheme::name_of(number & 0xffff)?;
        let key_bits = *[32, 64].get((number >> 16 & 0xf) as usize)?;
        let value_bits = *[32, 64, 0].get((number >> 20 & 0xf) as usize)?;
        (number >> 24 == 0).then_some(SchemeNumber { name, key_bits, value_bits })
    }
}

impl fmt::Display for SchemeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SchemeNumber { name, key_bits, value_bits } = self;
        match (key_bits, value_bits) {
            (32, 32) => write!(f, "{name} table"),
            (_, 0) => write!(f, "{name} table of u{key_bits} keys alone"),
            _ => write!(f, "{name} table of u{key_bits} keys and u{value_bits} values"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{BucketizedOf, Cuckoo, CuckooSet, Scheme, Signpost, SignpostOf};

    #[test]
    fn scheme_numbers_encode_scheme_and_types() {
        let said = |number: u32| SchemeNumber::of(number).map(|number| number.to_string());
        for (number, expected) in [
            (Cuckoo::ID, "cuckoo table"),
            (CuckooSet::ID, "cuckoo_set table"),
            (BucketizedOf::<u64, u64>::ID, "bucketized table of u64 keys and u64 values"),
            (BucketizedOf::<u64, u32>::ID, "bucketized table of u64 keys and u32 values"),
            (BucketizedOf::<u32, u64>::ID, "bucketized table of u32 keys and u64 values"),
            (BucketizedOf::<u64, ()>::ID, "bucketized table of u64 keys alone"),
            (Signpost::ID, "signpost table"),
            (SignpostOf::<u32, ()>::ID, "signpost table of u32 keys alone"),
        ] {
            assert_eq!(said(number).as_deref(), Some(expected), "{number:#x}");
        }
        for unknown in [0, 99, 2 | 2 << 16, 2 | 3 << 20, 2 | 1 << 24, u32::MAX] {
            assert_eq!(said(unknown), None, "{unknown:#x}");
        }
    }
}
