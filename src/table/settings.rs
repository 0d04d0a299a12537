//! The settings after a table's image: how later batches are inserted, and the types of the keys and values.
//!
//! ```text
//! short form   load u32, rule for duplicates u32, attempts u32, contents u32 | check                     48 bytes
//! long form    load u32, rule for duplicates u32, attempts u32, contents u32 | types 64 bytes | check   112 bytes
//!
//! contents     bits 0 to 7: what the pairs are;  bit 8: the long form;  the others 0
//! types        of the key, then of the value: bits u16, type u16, flags u32, 6 parameters u32
//! check        BLAKE3( digest of all before the settings | the settings before the check )
//! ```
//!
//! Tables of plain numbers use the short form, so their files are the same as before types existed. All other tables
//! use the long form; each table has exactly one valid file. `docs/file-format.md` lists the types and the reserved
//! fields. A reader that finds a reserved field in use reports that the file needs a newer koel.

use bytemuck::{Pod, Zeroable};

use super::builder::{Contents, Duplicates, MOST_ATTEMPTS, Settings, Size, slots_at};
use super::digest::Digest;
use super::keys::{KeyType, ValueType};
use crate::backend::Word;
use crate::layout::{Layout, Rows2, Rows3};
use crate::scheme::{Load, Plan};

/// The error is a clause that says what is wrong with a file.
type Checked<T> = std::result::Result<T, String>;

/// The bits of the fourth number that encode the contents.
const CONTENTS_BITS: u32 = 0xff;
/// The bit of the fourth number that is set if types follow.
const LONG_FORM: u32 = 1 << 8;

const NUMBERS_BYTES: usize = size_of::<Numbers>();
const TYPES_BYTES: usize = size_of::<Types>();
const CHECK_BYTES: usize = 32;

/// The settings for later batches.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Numbers {
    load_millionths: u32,
    duplicates: u32,
    attempts: u32,
    contents: u32,
}

/// The types of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Types {
    key: Column,
    value: Column,
}

const _: () = assert!(TYPES_BYTES == 64);

/// The meaning of a column's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Column {
    bits: u16,
    code: u16,
    flags: u32,
    parameters: [u32; 6],
}

const NUMBERS: u16 = 0;
const KMERS: u16 = 1;
const CELLS: u16 = 2;
const SIGNED: u16 = 3;
/// Two bits per letter, A C G T = 0 1 2 3, the first letter most significant.
const TWO_BITS_FIRST_HIGHEST: u32 = 0;
/// K-mers as they occur, or the smaller of each and its reverse complement.
const ONE_STRAND: u32 = 0;
const BOTH_STRANDS: u32 = 1;

/// Bits of the keys and values of a table. If it has no values, the bits of the numbers stored in place of values.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    pub(super) keys: u32,
    pub(super) values: u32,
}

impl Widths {
    pub(super) fn of<P: Plan>() -> Widths {
        Widths { keys: P::Key::BITS, values: P::Value::BITS }
    }
}

impl Column {
    fn plain(bits: u32) -> Column {
        Column { bits: bits as u16, code: NUMBERS, flags: 0, parameters: [0; 6] }
    }

    fn of_values(value_type: ValueType, bits: u32) -> Column {
        match value_type {
            ValueType::Numbers => Column::plain(bits),
            ValueType::Signed => Column { code: SIGNED, ..Column::plain(bits) },
        }
    }

    fn of_keys(key_type: KeyType, bits: u32) -> Column {
        let (code, parameters) = match key_type {
            KeyType::Numbers => (NUMBERS, [0; 4]),
            KeyType::Signed => (SIGNED, [0; 4]),
            KeyType::Kmers { k } => (KMERS, [k, TWO_BITS_FIRST_HIGHEST, ONE_STRAND, 0]),
            KeyType::CanonicalKmers { k } => (KMERS, [k, TWO_BITS_FIRST_HIGHEST, BOTH_STRANDS, 0]),
            KeyType::Cells(layout) => {
                let parameters = match layout {
                    Layout::Rows2(rows) => [0, rows.width(), rows.height(), 0],
                    Layout::Rows3(rows) => [1, rows.width(), rows.height(), rows.depth()],
                    Layout::Morton2 => [2, 0, 0, 0],
                    Layout::Morton3 => [3, 0, 0, 0],
                    Layout::BitReversed2 { bits } => [4, bits, 0, 0],
                };
                (CELLS, parameters)
            }
        };
        let [a, b, c, d] = parameters;
        Column { code, parameters: [a, b, c, d, 0, 0], ..Column::plain(bits) }
    }

    fn key_type(&self, bits: u32) -> Checked<KeyType> {
        let [first, a, b, c, ..] = self.parameters;
        let key_type = match (self.code, first) {
            (NUMBERS, _) => KeyType::Numbers,
            (SIGNED, _) => KeyType::Signed,
            (KMERS, k) if b == BOTH_STRANDS => KeyType::CanonicalKmers { k },
            (KMERS, k) => KeyType::Kmers { k },
            (CELLS, 0) => KeyType::Cells(Layout::Rows2(Rows2::new(a, b).map_err(|error| error.to_string())?)),
            (CELLS, 1) => KeyType::Cells(Layout::Rows3(Rows3::new(a, b, c).map_err(|error| error.to_string())?)),
            (CELLS, 2) => KeyType::Cells(Layout::Morton2),
            (CELLS, 3) => KeyType::Cells(Layout::Morton3),
            (CELLS, 4) => KeyType::Cells(Layout::BitReversed2 { bits: a }),
            (CELLS, layout) => return Err(of_newer(&format!("keys that are cells of layout {layout}"))),
            (code, _) => return Err(of_newer(&format!("keys of type {code}"))),
        };
        if Column::of_keys(key_type, bits) != *self {
            return Err(of_newer("a key type with reserved fields in use"));
        }
        key_type.check(bits).map_err(|error| error.to_string())?;
        Ok(key_type)
    }

    fn value_type(&self, bits: u32) -> Checked<ValueType> {
        let known = [ValueType::Numbers, ValueType::Signed].into_iter();
        let found = known.into_iter().find(|&value_type| Column::of_values(value_type, bits) == *self);
        found.ok_or_else(|| of_newer(&format!("values of type {} and {} bits", self.code, self.bits)))
    }
}

/// The types that the short form omits.
const PLAIN: (KeyType, ValueType) = (KeyType::Numbers, ValueType::Numbers);

impl Types {
    fn of(key_type: KeyType, value_type: ValueType, widths: Widths) -> Types {
        let (key, value) = (Column::of_keys(key_type, widths.keys), Column::of_values(value_type, widths.values));
        Types { key, value }
    }

    fn read(&self, widths: Widths) -> Checked<(KeyType, ValueType)> {
        let types = (self.key.key_type(widths.keys)?, self.value.value_type(widths.values)?);
        if types == PLAIN {
            return Err("its settings say at length what needs no saying".into());
        }
        Ok(types)
    }
}

fn of_newer(what: &str) -> String {
    format!("it has {what}, which koel {} does not read: open it with a newer koel", env!("CARGO_PKG_VERSION"))
}

/// The bytes after the image. Their contents are checked when they are decoded.
pub(super) struct Trailer {
    numbers: Numbers,
    types: Option<Types>,
    check: [u8; CHECK_BYTES],
}

impl Trailer {
    pub(super) const SHORT_BYTES: usize = NUMBERS_BYTES + CHECK_BYTES;
    pub(super) const LONG_BYTES: usize = NUMBERS_BYTES + TYPES_BYTES + CHECK_BYTES;

    pub(super) fn new(settings: &Settings, default_load: Load, widths: Widths, digest: Digest) -> Trailer {
        let load_millionths = match settings.size {
            Size::Default => default_load.millionths(),
            Size::Load(load) => load.millionths(),
            Size::Slots(_) => 0,
        };
        let duplicates = Duplicates::ALL.iter().position(|&rule| rule == settings.duplicates).unwrap_or(0) as u32;
        let contents = Contents::ALL.iter().position(|&contents| contents == settings.contents).unwrap_or(0) as u32;
        let Settings { key_type, value_type, .. } = *settings;
        let types = ((key_type, value_type) != PLAIN).then(|| Types::of(key_type, value_type, widths));
        let contents = contents | if types.is_some() { LONG_FORM } else { 0 };
        let numbers = Numbers { load_millionths, duplicates, attempts: settings.attempts, contents };
        let bare = Trailer { numbers, types, check: [0; CHECK_BYTES] };
        Trailer { check: bare.sum(digest), ..bare }
    }

    /// Whether one of the two forms has this many bytes.
    pub(super) fn has_length(bytes: u64) -> bool {
        bytes == Self::SHORT_BYTES as u64 || bytes == Self::LONG_BYTES as u64
    }

    /// Decodes the settings in these bytes.
    pub(super) fn read(bytes: &[u8]) -> Checked<Trailer> {
        let wrong = || "its settings contradict their length".to_owned();
        let (numbers, rest) = bytes.split_at_checked(NUMBERS_BYTES).ok_or_else(wrong)?;
        let numbers: Numbers = bytemuck::pod_read_unaligned(numbers);
        if numbers.contents & !(CONTENTS_BITS | LONG_FORM) != 0 {
            return Err(of_newer("unknown settings"));
        }
        let (types, check) = if numbers.contents & LONG_FORM == 0 {
            (None, rest)
        } else {
            let (types, check) = rest.split_at_checked(TYPES_BYTES).ok_or_else(wrong)?;
            (Some(bytemuck::pod_read_unaligned(types)), check)
        };
        Ok(Trailer { numbers, types, check: check.try_into().map_err(|_| wrong())? })
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        [self.unchecked_bytes(), self.check.to_vec()].concat()
    }

    fn unchecked_bytes(&self) -> Vec<u8> {
        let types = self.types.as_ref().map_or(&[][..], bytemuck::bytes_of);
        [bytemuck::bytes_of(&self.numbers), types].concat()
    }

    fn sum(&self, digest: Digest) -> [u8; CHECK_BYTES] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&digest.bytes()).update(&self.unchecked_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Whether the check matches these settings after a table with this digest.
    pub(super) fn is_of(&self, digest: Digest) -> bool {
        self.check == self.sum(digest)
    }

    pub(super) fn contents(&self) -> Checked<Contents> {
        let contents = Contents::ALL.get((self.numbers.contents & CONTENTS_BITS) as usize).copied();
        contents.ok_or_else(|| "what its pairs are is unknown".into())
    }

    pub(super) fn types(&self, widths: Widths) -> Checked<(KeyType, ValueType)> {
        self.types.map_or(Ok(PLAIN), |types| types.read(widths))
    }

    /// The settings of a table with this plan and this number of pairs.
    ///
    /// The load must not require more slots for these pairs than the image has: builds and batches ensure this, and
    /// removing pairs keeps the slots. So a small file cannot cause a huge allocation at its first batch.
    pub(super) fn settings<P: Plan>(&self, plan: &P, pairs: u64) -> Checked<Settings> {
        let Numbers { load_millionths, duplicates, attempts, .. } = self.numbers;
        let size = match load_millionths {
            0 => Size::Slots(plan.requested_slots()),
            load if load <= 1_000_000 => Size::Load(Load::from_millionths(load)),
            load => return Err(format!("a load of {load} millionths is above 1")),
        };
        if let Size::Load(load) = size
            && slots_at(load, pairs) > plan.requested_slots()
        {
            let (load, slots) = (load.get(), plan.slots());
            return Err(format!("a load of {load} contradicts its {pairs} pairs in {slots} slots: build it again"));
        }
        let duplicates =
            *Duplicates::ALL.get(duplicates as usize).ok_or(format!("rule {duplicates} for copies is unknown"))?;
        if !(1..=MOST_ATTEMPTS).contains(&attempts) {
            return Err("its settings contradict each other".into());
        }
        let (contents, (key_type, value_type)) = (self.contents()?, self.types(Widths::of::<P>())?);
        Ok(Settings { size, seed: plan.seed(), duplicates, attempts, contents, key_type, value_type })
    }
}

impl Settings {
    /// Returns an error if the table is part of another structure than it is opened as.
    pub(super) fn expect(&self, contents: Contents) -> Checked<()> {
        if self.contents == contents {
            // Sets accept duplicate keys.
            return match (contents, self.duplicates) {
                (Contents::Set, Duplicates::Error) => Err("its settings contradict each other".into()),
                _ => Ok(()),
            };
        }
        Err(format!(
            "it contains a {} table, not a {} table: open it with the type that saved it",
            self.contents.name(),
            contents.name()
        ))
    }
}
