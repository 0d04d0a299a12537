//! Sets: builds from rows with duplicate keys, and lookups.

use koel::backend::{HashBackend, Runs, bitmap_words};
use koel::device::Any;
use koel::{HashSet, Scheme};

use super::sized;
use super::timing::{Doing, Timing, all_right, same};
use koel_cli::failure::Result;

pub(super) fn measure<S: Scheme<Key = u32, Value = u32>>(timing: &mut Timing<'_>, scheme: S) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns) = (timing.device, timing.columns);
    let builder = sized!(HashSet::builder(scheme), timing.args);
    let check = |set: &HashSet<Any, S>| {
        let mut keys = set.to_keys()?;
        keys.sort_unstable();
        same("the keys of a set", &keys, &columns.unique)
    };
    let doing = Doing::build("build", columns.keys.len());
    let keys = device.upload(&columns.keys)?;
    let set = timing.on_device(doing, || builder.build_on(device, &keys), check)?;
    timing.loaded(set.load_factor());
    drop((set, keys));
    let set = timing.end_to_end(doing, || builder.build(device, &columns.keys), check)?;

    let (count, hits) = timing.args.data.lookups(columns.keys.len() as u32);
    for &hits in hits {
        let queries = columns.queries(count, hits);
        let doing = Doing::answers("contains", Some(hits), count);
        let there = device.upload(&queries)?;
        let right = |i: usize| columns.find(queries[i]).is_some();
        let words = bitmap_words(count);
        timing.on_device(
            doing,
            || set.contains_on(&there),
            |bits| {
                let bits = device.download(bits)?;
                all_right("contains", (bits.len(), words), &|word| {
                    let mut expected = 0u32;
                    for i in word * 32..(word * 32 + 32).min(count) {
                        expected |= u32::from(right(i)) << (i % 32);
                    }
                    bits[word] == expected
                })
            },
        )?;
        timing.end_to_end(
            doing,
            || set.contains(&queries),
            |answers| all_right("contains", (answers.len(), count), &|i| answers[i] == right(i)),
        )?;
    }
    Ok(())
}
