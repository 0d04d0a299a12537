//! The operations that koel runs while a call fails.

use koel::backend::Probe;
use koel::group::{group_by, wide};
use koel::{
    Aggregate, Any, Bucketized, Cpu, Cuckoo, Digest, Duplicates, Error, HashBackend, HashTable, IdOrder, JoinKind,
    OpenCl, Result, Sharded, ShardedMulti, join,
};

/// The number of pairs of a table: the work of a few work-groups.
const PAIRS: u32 = 600;
/// The number of queries or words of transfers through pinned slots: several chunks, which use several lanes.
const MANY: u32 = 1_300_000;

/// A repeatable operation. A failed run leaves everything as it was.
pub trait Operation: Sized {
    /// Creates the inputs, on a device that does not fail.
    fn prepare(device: &OpenCl) -> Result<Self>;
    /// Runs the operation. Returns whether the result is right.
    fn run(&mut self) -> Result<bool>;
    /// Whether the state is the same as before `run`.
    fn unchanged(&self) -> Result<bool>;
}

fn keys(from: u32, len: u32) -> Vec<u32> {
    (from..from + len).map(|i| i.wrapping_mul(0x9e37_79b1)).collect()
}

fn values(from: u32, len: u32) -> Vec<u32> {
    (from..from + len).map(|i| i.wrapping_mul(7) & 0xffff).collect()
}

/// Whether the table contains these pairs and no others.
fn holds(table: &HashTable<OpenCl, Cuckoo>, keys: &[u32], values: &[u32]) -> Result<bool> {
    let got = table.get(keys)?;
    Ok(table.len() == keys.len() && got.iter().zip(values).all(|(got, &value)| *got == Some(value)))
}

fn cuckoo(device: &OpenCl) -> Result<HashTable<OpenCl, Cuckoo>> {
    let builder = HashTable::builder(Cuckoo::default()).slots(4096).duplicates(Duplicates::KeepLast);
    builder.build(device, &keys(0, PAIRS), &values(0, PAIRS))
}

pub struct Build(OpenCl);

impl Operation for Build {
    fn prepare(device: &OpenCl) -> Result<Self> {
        Ok(Build(device.clone()))
    }

    fn run(&mut self) -> Result<bool> {
        let table = HashTable::builder(Bucketized::canonical(8)).duplicates(Duplicates::KeepLast);
        let (keys, values) = (keys(0, PAIRS), values(0, PAIRS));
        let table = table.build(&self.0, &[&keys[..], &keys[..9]].concat(), &[&values[..], &values[..9]].concat())?;
        let mut pairs = table.to_pairs()?;
        let mut expected: Vec<_> = keys.into_iter().zip(values).collect();
        pairs.sort_unstable();
        expected.sort_unstable();
        Ok(pairs == expected)
    }

    fn unchanged(&self) -> Result<bool> {
        Ok(true)
    }
}

macro_rules! on_a_table {
    ($($name:ident: |$table:ident| $run:block;)*) => {$(
        pub struct $name(HashTable<OpenCl, Cuckoo>);

        impl Operation for $name {
            fn prepare(device: &OpenCl) -> Result<Self> {
                Ok($name(cuckoo(device)?))
            }

            fn run(&mut self) -> Result<bool> {
                let $table = &mut self.0;
                $run
            }

            fn unchanged(&self) -> Result<bool> {
                holds(&self.0, &keys(0, PAIRS), &values(0, PAIRS))
            }
        }
    )*};
}

on_a_table! {
    Insert: |table| {
        let added = table.insert(&keys(PAIRS, 100), &values(PAIRS, 100))?.added;
        Ok(added == 100 && table.len() == PAIRS as usize + 100)
    };
    Upsert: |table| {
        let done = table.upsert(&keys(0, PAIRS + 5), &values(1, PAIRS + 5))?;
        Ok((done.added, done.overwritten) == (5, PAIRS as usize))
    };
    Remove: |table| {
        Ok(table.remove(&keys(PAIRS - 50, 100))? == 50 && table.len() == PAIRS as usize - 50)
    };
    Get: |table| {
        let found = table.get(&keys(PAIRS / 2, PAIRS))?;
        let expected = |i| (i < PAIRS).then(|| values(i, 1)[0]);
        Ok((PAIRS / 2..).zip(found).all(|(i, found)| found == expected(i)))
    };
    Timed: |table| {
        let device = table.backend().clone();
        let (there, _) = device.timed(|| table.contains(&keys(PAIRS / 2, PAIRS)))?;
        Ok((PAIRS / 2..).zip(there).all(|(i, there)| there == (i < PAIRS)))
    };
    GetMany: |table| {
        let queried = keys(0, MANY);
        let found = table.get(&queried)?;
        let expected = |i| (i < PAIRS).then(|| values(i, 1)[0]);
        Ok((0..).zip(found).all(|(i, found)| found == expected(i)))
    };
    GetPinned: |table| {
        let device = table.backend().clone();
        let (mut queried, mut found) = (device.pinned(MANY as usize)?, device.pinned((MANY as usize).div_ceil(32))?);
        let mut got = device.pinned(MANY as usize)?;
        queried.copy_from_slice(&keys(0, MANY));
        table.get_into(&queried, &mut got, &mut found)?;
        let is_found = |i: usize| found[i / 32] >> (i % 32) & 1 == 1;
        let right = |i: usize| is_found(i) == (i < PAIRS as usize) && (!is_found(i) || got[i] == values(i as u32, 1)[0]);
        Ok((0..MANY as usize).all(right))
    };
}

/// Inserts a batch into a sharded table that has every second shard on this device and the others on the CPU.
pub struct Shards(Sharded<Any, Bucketized>, Digest);

impl Operation for Shards {
    fn prepare(device: &OpenCl) -> Result<Self> {
        let devices = [Any::Cpu(Cpu::with_threads(1)?), Any::OpenCl(device.clone())];
        let builder = Sharded::builder(Bucketized::canonical(8), 4).capacity(2 * PAIRS as usize);
        let table = builder.build(&devices, &keys(0, PAIRS), &values(0, PAIRS))?;
        let digest = table.digest()?;
        Ok(Shards(table, digest))
    }

    fn run(&mut self) -> Result<bool> {
        let Shards(table, digest) = self;
        table.upsert(&keys(PAIRS - 9, 200), &values(PAIRS - 9, 200))?;
        *digest = table.digest()?;
        let got = table.get(&keys(0, 2 * PAIRS))?;
        let expected = (0..2 * PAIRS).map(|i| (i < PAIRS + 191).then(|| values(i, 1)[0]));
        table.audit()?;
        Ok(got.into_iter().eq(expected))
    }

    /// The batch is in no shard, or in all shards if only a later step failed.
    fn unchanged(&self) -> Result<bool> {
        let whole = [PAIRS as usize, PAIRS as usize + 191].contains(&self.0.len());
        self.0.audit()?;
        Ok(whole && (self.0.len() > PAIRS as usize || self.0.digest()? == self.1))
    }
}

/// Removes keys from a sharded multivalue table, and inserts pairs.
pub struct ShardsOfLists(ShardedMulti<Any, Bucketized>, Digest);

impl Operation for ShardsOfLists {
    fn prepare(device: &OpenCl) -> Result<Self> {
        let devices = [Any::OpenCl(device.clone()), Any::Cpu(Cpu::with_threads(1)?)];
        let builder = ShardedMulti::builder(Bucketized::canonical(8), 4);
        let table = builder.build(&devices, &keys(0, PAIRS), &values(0, PAIRS))?;
        let digest = table.digest()?;
        Ok(ShardsOfLists(table, digest))
    }

    fn run(&mut self) -> Result<bool> {
        let ShardsOfLists(table, digest) = self;
        table.remove(&keys(PAIRS - 9, 200))?;
        table.insert(&keys(PAIRS - 9, 200), &values(0, 200))?;
        *digest = table.digest()?;
        let found = table.retrieve(&keys(PAIRS - 10, 2))?;
        table.audit()?;
        Ok(found.offsets == [0, 1, 2] && found.values == [values(PAIRS - 10, 1), values(0, 1)].concat())
    }

    /// Each change is in no shard, or in all shards if only a later step failed.
    fn unchanged(&self) -> Result<bool> {
        let (len, before) = (self.0.len(), PAIRS as usize);
        self.0.audit()?;
        Ok([before, before - 9, before + 191].contains(&len) && (len != before || self.0.digest()? == self.1))
    }
}

/// Transfers many words in each direction.
pub struct Transfer(OpenCl);

impl Operation for Transfer {
    fn prepare(device: &OpenCl) -> Result<Self> {
        Ok(Transfer(device.clone()))
    }

    fn run(&mut self) -> Result<bool> {
        let data = keys(3, MANY);
        let buffer = self.0.upload(&data)?;
        Ok(self.0.download(&buffer)? == data)
    }

    fn unchanged(&self) -> Result<bool> {
        Ok(true)
    }
}

pub struct Join(OpenCl);

impl Operation for Join {
    fn prepare(device: &OpenCl) -> Result<Self> {
        Ok(Join(device.clone()))
    }

    fn run(&mut self) -> Result<bool> {
        let (left, right): (Vec<_>, Vec<_>) = ((0..PAIRS).map(|i| i % 100).collect(), (0..50).collect());
        let rows = join(&self.0, &left, &right, JoinKind::Inner)?;
        let expected = (0..PAIRS).filter(|row| row % 100 < 50);
        Ok(rows.left.iter().copied().eq(expected.clone())
            && rows.right.iter().copied().eq(expected.map(|row| row % 100)))
    }

    fn unchanged(&self) -> Result<bool> {
        Ok(true)
    }
}

pub struct Group(OpenCl);

impl Operation for Group {
    fn prepare(device: &OpenCl) -> Result<Self> {
        Ok(Group(device.clone()))
    }

    fn run(&mut self) -> Result<bool> {
        let keys: Vec<_> = (0..PAIRS).map(|i| i % 60).collect();
        let groups = group_by(&self.0, &keys, &values(0, PAIRS), &Aggregate::ALL, IdOrder::FirstSeen)?;
        let of = |key: u32| (0..PAIRS).filter(move |i| i % 60 == key).map(|i| u64::from(values(i, 1)[0]));
        let right = |key: u32| groups.counts[key as usize] == 10 && groups.sums[key as usize] == of(key).sum::<u64>();
        Ok(groups.keys.iter().copied().eq(0..60) && (0..60).all(right))
    }

    fn unchanged(&self) -> Result<bool> {
        Ok(true)
    }
}

/// Sums doubles in runs of one block and of many blocks.
pub struct GroupDoubles(OpenCl);

impl Operation for GroupDoubles {
    fn prepare(device: &OpenCl) -> Result<Self> {
        Ok(GroupDoubles(device.clone()))
    }

    fn run(&mut self) -> Result<bool> {
        let keys: Vec<u64> = (0..u64::from(PAIRS)).map(|i| i % 60 * u64::from(i % 2 == 0)).collect();
        let values: Vec<f64> = keys.iter().map(|&key| key as f64 + 0.5).collect();
        let groups = wide::group_by(&self.0, &keys, &values, &Aggregate::ALL, IdOrder::Ascending)?;
        // These sums are exact in any order.
        let right = |i: usize| groups.sums[i] == f64::from(groups.counts[i]) * groups.maxs[i];
        let counted: u32 = groups.counts.iter().sum();
        Ok(groups.keys.iter().copied().eq((0..60).step_by(2)) && (0..30).all(right) && counted == PAIRS)
    }

    fn unchanged(&self) -> Result<bool> {
        Ok(true)
    }
}

/// Opens a device and uses it, which compiles the kernels that are needed.
pub struct Open;

impl Operation for Open {
    fn prepare(_: &OpenCl) -> Result<Self> {
        Ok(Open)
    }

    fn run(&mut self) -> Result<bool> {
        let device = OpenCl::by_name(crate::PLATFORM)?;
        let table = cuckoo(&device)?;
        holds(&table, &keys(0, PAIRS), &values(0, PAIRS))
    }

    fn unchanged(&self) -> Result<bool> {
        Ok(true)
    }
}

/// Whether an error is of an expected type. A device error must contain the driver's code if OpenCL does not define it.
pub fn is_right(error: &Error, unknown: bool) -> bool {
    match error {
        Error::Device { message, .. } => !unknown || message.contains("-7777"),
        // Several attempts may have failed; each has its reason.
        Error::NoDevice { .. } | Error::OutOfMemory { .. } | Error::Unsupported { .. } | Error::Compile { .. } => true,
        _ => false,
    }
}
