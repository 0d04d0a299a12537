//! The parameters of schemes, as options.

use clap::Args;
use clap::builder::TypedValueParser;

use koel::{Insertion, LookupMode, Reinsertion, Sequence};

use super::values::{count, one_of};

/// Parameters of schemes; each scheme takes those that it has. `-h` does not list them.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Parameters of schemes, as in the papers")]
pub struct SchemeOptions {
    /// Hash functions, which are the possible places of a key
    ///
    /// cuckoo and cuckoo_set: 2 to 5 [default: 4]. Classic bucketized: 2 to 4 [default: 2].
    #[arg(long, hide_short_help = true, value_name = "H")]
    pub functions: Option<u32>,
    /// Slots of a bucket: 4, 8 or 16 [default: 8]
    ///
    /// For bucketized and horton.
    #[arg(long, hide_short_help = true, value_name = "S")]
    pub bucket_slots: Option<u32>,
    /// Family of hash functions [default: mixer]
    ///
    /// All but `mixer` are those of the papers, for classic tables: `linear` and `xor` for cuckoo, `jenkins` for
    /// horton, `sahu` for fks.
    #[arg(long, hide_short_help = true, value_name = "FAMILY", value_parser = ["mixer", "linear", "xor", "jenkins", "sahu"])]
    pub hash: Option<String>,
    /// Where evicted pairs go [default: skip-same-slot]
    ///
    /// For classic cuckoo and cuckoo_set.
    #[arg(long, hide_short_help = true, value_name = "RULE", value_parser = reinsertion())]
    pub reinsertion: Option<Reinsertion>,
    /// Which bucket takes a new pair [default: load-balancing]
    ///
    /// For classic bucketized.
    #[arg(long, hide_short_help = true, value_name = "POLICY", value_parser = insertion())]
    pub insertion: Option<Insertion>,
    /// How lookups read buckets [default: bandwidth-optimized]
    ///
    /// One bucket after the other, or all at once. For classic bucketized.
    #[arg(long, hide_short_help = true, value_name = "MODE", value_parser = lookup_mode())]
    pub lookup_mode: Option<LookupMode>,
    /// Most buckets searched for a free slot [default: 4096]
    ///
    /// For one pair; for classic bucketized.
    #[arg(long, hide_short_help = true, value_name = "BUCKETS")]
    pub reach: Option<u32>,
    /// Remap entries of a bucket [default: 21]
    ///
    /// For horton.
    #[arg(long, hide_short_help = true, value_name = "COUNT")]
    pub tags: Option<u32>,
    /// Bits of a remap entry, 2 to 4 [default: 3]
    ///
    /// For horton.
    #[arg(long, hide_short_help = true, value_name = "BITS")]
    pub bits: Option<u32>,
    /// Most consecutive moves to free a slot, 1 to 8 [default: 5]
    ///
    /// For one pair; for classic horton.
    #[arg(long, hide_short_help = true, value_name = "MOVES")]
    pub height: Option<u32>,
    /// Rounds of a bucket with one seed, 1 to 1000 [default: 100]
    ///
    /// For classic fks.
    #[arg(long, hide_short_help = true, value_name = "ROUNDS")]
    pub iterations: Option<u32>,
    /// Probe sequence of a key [default: coherent]
    ///
    /// For robin_hood.
    #[arg(long, hide_short_help = true, value_name = "SEQUENCE", value_parser = sequence())]
    pub sequence: Option<Sequence>,
    /// Bits of the maximum ages: 0, 2, 3 or 4
    ///
    /// For robin_hood; 0 for no maximum ages. The default is 0 for canonical and 4 for classic tables.
    #[arg(long, hide_short_help = true, value_name = "BITS")]
    pub max_ages: Option<u32>,
    /// Keys of 28 bits without values
    ///
    /// All values are 0. For classic robin_hood.
    #[arg(long, hide_short_help = true)]
    pub keys_alone: bool,
    /// WIDTH or WIDTHxHEIGHT of the domain [default: 65536]
    ///
    /// For perfect: keys are the cells of this domain, row by row. WIDTH is that of a plane; WIDTHxHEIGHT is the size
    /// of the layers of a volume.
    #[arg(long, hide_short_help = true, value_name = "EXTENT", value_parser = extent)]
    pub extent: Option<Extent>,
}

/// The extents of a domain except the last one, which follows from the 32 bits of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub width: u32,
    pub height: Option<u32>,
}

/// Parses `--extent`.
fn extent(text: &str) -> std::result::Result<Extent, String> {
    let advice = || {
        format!("`{text}` is not an extent: give a width like 2048, or the width and height of a layer like 256x256")
    };
    let number = |text: &str| count(text).ok().and_then(|cells| u32::try_from(cells).ok()).ok_or_else(advice);
    let (width, height) = text.split_once('x').map_or((text, None), |(width, height)| (width, Some(height)));
    Ok(Extent { width: number(width)?, height: height.map(number).transpose()? })
}

impl SchemeOptions {
    /// The names of the options that are given.
    pub fn given(&self) -> Vec<&'static str> {
        let given = [
            ("functions", self.functions.is_some()),
            ("bucket-slots", self.bucket_slots.is_some()),
            ("hash", self.hash.is_some()),
            ("reinsertion", self.reinsertion.is_some()),
            ("insertion", self.insertion.is_some()),
            ("lookup-mode", self.lookup_mode.is_some()),
            ("reach", self.reach.is_some()),
            ("tags", self.tags.is_some()),
            ("bits", self.bits.is_some()),
            ("height", self.height.is_some()),
            ("iterations", self.iterations.is_some()),
            ("extent", self.extent.is_some()),
            ("sequence", self.sequence.is_some()),
            ("max-ages", self.max_ages.is_some()),
            ("keys-alone", self.keys_alone),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The options without those that are not in `taken`.
    pub(super) fn only(&self, taken: &[&str]) -> SchemeOptions {
        let takes = |name| taken.contains(&name);
        SchemeOptions {
            functions: self.functions.filter(|_| takes("functions")),
            bucket_slots: self.bucket_slots.filter(|_| takes("bucket-slots")),
            hash: self.hash.clone().filter(|_| takes("hash")),
            reinsertion: self.reinsertion.filter(|_| takes("reinsertion")),
            insertion: self.insertion.filter(|_| takes("insertion")),
            lookup_mode: self.lookup_mode.filter(|_| takes("lookup-mode")),
            reach: self.reach.filter(|_| takes("reach")),
            tags: self.tags.filter(|_| takes("tags")),
            bits: self.bits.filter(|_| takes("bits")),
            height: self.height.filter(|_| takes("height")),
            iterations: self.iterations.filter(|_| takes("iterations")),
            extent: self.extent.filter(|_| takes("extent")),
            sequence: self.sequence.filter(|_| takes("sequence")),
            max_ages: self.max_ages.filter(|_| takes("max-ages")),
            keys_alone: self.keys_alone && takes("keys-alone"),
        }
    }
}

fn reinsertion() -> impl TypedValueParser<Value = Reinsertion> {
    one_of(&Reinsertion::ALL, Reinsertion::name)
}

fn insertion() -> impl TypedValueParser<Value = Insertion> {
    one_of(&Insertion::ALL, Insertion::name)
}

fn sequence() -> impl TypedValueParser<Value = Sequence> {
    one_of(&Sequence::ALL, Sequence::name)
}

fn lookup_mode() -> impl TypedValueParser<Value = LookupMode> {
    one_of(&LookupMode::ALL, LookupMode::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_a_width_or_a_width_and_a_height() {
        assert_eq!(extent("2048"), Ok(Extent { width: 2048, height: None }));
        assert_eq!(extent("2^8x100"), Ok(Extent { width: 256, height: Some(100) }));
        for text in ["", "x", "5x", "x5", "1x2x3", "-1", "2^32"] {
            assert!(extent(text).is_err(), "{text}");
        }
    }
}
