//! Files of queries, read in the same way as the keys of the table were.

use koel::KeyType;
use koel::table::FileInfo;

use super::Args;
use crate::failure::{Failure, Result};
use crate::input::{Inputs, ReadOptions};
use crate::structure::Types;
use crate::text;

/// A file of queries, and the options for reading it.
pub(super) struct Queries<'a> {
    pub(super) inputs: Inputs<'a>,
    pub(super) reading: ReadOptions,
    /// The number of letters of the table's keys, if they are k-mers.
    pub(super) k: Option<u32>,
}

impl<'a> Queries<'a> {
    /// Opens the file. Letters become keys in the same way as for the table, so the number of letters must be known.
    pub(super) fn open(args: &Args, info: &FileInfo) -> Result<Queries<'a>> {
        let (key_type, mut reading) = (info.key_type, args.reading.clone());
        reading.spool = args.memory.is_some();
        let are = if args.reverse {
            "the queries of --reverse are ids, which are numbers".into()
        } else {
            format!("the keys of {} are {}", text::path(&args.table), Types::of(info).keys_said())
        };
        // Numbers may be k-mers that another program counted, on one strand or on both: only the user knows.
        let build_anew = |k: Option<u32>| {
            let k = k.map_or("K".into(), |k| k.to_string());
            format!(
                "build the table with --kmer {k}, and with --canonical-kmers if both strands count as one: `koel \
                 build` takes k-mers as sequences, letters or numbers"
            )
        };
        let are_numbers = key_type == KeyType::Numbers && !args.reverse;
        let is_canonical = matches!(key_type, KeyType::CanonicalKmers { .. }) && !args.reverse;
        if reading.canonical_kmers && !is_canonical {
            let advice = if are_numbers { build_anew(reading.kmer) } else { "omit it".into() };
            return Err(Failure::Input(format!("--canonical-kmers: {are}, not canonical k-mers: {advice}")));
        }
        reading.canonical_kmers = is_canonical;
        match (k_of(key_type), reading.kmer) {
            (Some(k), None) if !args.reverse => (reading.kmer, reading.letters) = (Some(k), true),
            (Some(k), Some(kmer)) if kmer == k && !args.reverse => reading.letters = true,
            (_, Some(kmer)) if are_numbers => {
                return Err(Failure::Input(format!("--kmer {kmer}: {are}: {}", build_anew(Some(kmer)))));
            }
            (_, Some(kmer)) => return Err(Failure::Input(format!("--kmer {kmer}: {are}: omit it"))),
            _ => {}
        }
        let inputs = Inputs::open(&args.queries)?;
        Inputs::check(&[&inputs], &reading)?;
        reading.check_value(false)?;
        if inputs.has_sequences() && reading.kmer.is_none() {
            let advice = if are_numbers { build_anew(None) } else { "give numbers, as CSV, TSV or .npy".into() };
            return Err(Failure::Input(format!("{}: these are sequences, and {are}: {advice}", inputs.shown())));
        }
        let k = k_of(key_type);
        args.output.check_letters(k)?;
        Ok(Queries { inputs, reading, k })
    }
}

/// The number of letters of keys, if they are k-mers.
pub(super) fn k_of(key_type: KeyType) -> Option<u32> {
    match key_type {
        KeyType::Kmers { k } | KeyType::CanonicalKmers { k } => Some(k),
        _ => None,
    }
}
