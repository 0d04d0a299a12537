//! In all operations, tables of a scheme that is chosen at run time equal those of the scheme, byte for byte.

use std::collections::BTreeMap;

use crate::common::{devices, holds_exactly, image, label, workload};
use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::{AnyPlan, Plan, Request, Updates};
use koel::{AnyScheme, Cpu, Cuckoo, Error, HashTable, Horton, Kind, Scheme};

/// The defaults of `Scheme::kind` and `Plan::kind` are wrong for schemes of two kinds, and that of `Scheme::remove` for
/// schemes that are not rebuilt.
#[test]
fn schemes_of_two_kinds_or_with_removals_override_the_defaults() {
    for (name, kind) in AnyScheme::NAMES.iter().flat_map(|name| Kind::ALL.map(|kind| (name, kind))) {
        let Ok(scheme) = AnyScheme::by_name(name, kind) else { continue };
        let slots = scheme.default_load().slots_for(100);
        let plan = scheme.plan(Request { slots, pairs: 100, seed: 1, attempt: 0 }).expect("a plan");
        assert_eq!([scheme.kind(), plan.kind(), AnyScheme::from_plan(&plan).kind()], [kind; 3], "{name}");
        if scheme.updates() != Updates::Rebuild {
            let mut image = vec![plan.empty_word(); plan.word_count().expect("few words")];
            AnyScheme::place(&plan, &mut image, &[(3, 0)]);
            assert_eq!(AnyScheme::remove(&plan, &mut image, &[3]), 1, "{name}, {kind}");
        }
    }
}

fn same<S: Scheme<Key = u32, Value = u32>>(kind: Kind)
where
    Any: Runs<S>,
{
    // Half of the pairs are inserted later.
    let scheme = AnyScheme::by_name(S::NAME, kind).expect("a scheme");
    let (keys, values, _) = workload(&scheme, 600);
    let (first, later) = (keys.len() / 2, &keys[keys.len() / 2..]);
    let size = keys.len() as u64 * 4 / 3;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for device in devices() {
        let at = label(&scheme, &device);
        assert_eq!((scheme.name(), scheme.id(), scheme.kind()), (S::NAME, S::ID, kind));
        let own = S::of_kind(kind);
        assert_eq!(
            (scheme.limits(), scheme.updates(), scheme.default_load(), scheme.keeps_one(), scheme.host_built()),
            (own.limits(), own.updates(), own.default_load(), own.keeps_one(), own.host_built()),
            "{at}"
        );
        let mut own = HashTable::builder(own)
            .slots(size as usize)
            .build(&device, &keys[..first], &values[..first])
            .expect("memory");
        let builder = HashTable::builder(scheme.clone()).slots(size as usize);
        let mut any = builder.build(&device, &keys[..first], &values[..first]).expect("memory");
        assert_eq!((any.scheme().name(), any.plan().stored()), (S::NAME, own.plan().stored()), "{at}");
        own.insert(later, &values[first..]).expect("memory");
        any.insert(later, &values[first..]).expect("memory");
        own.remove(&later[..9]).expect("removed");
        any.remove(&later[..9]).expect("removed");
        own.upsert(&keys[..5], &values[1..6]).expect("memory");
        any.upsert(&keys[..5], &values[1..6]).expect("memory");
        let mut model: BTreeMap<u32, u32> = keys.iter().copied().zip(values.iter().copied()).collect();
        model.retain(|key, _| !later[..9].contains(key));
        model.extend(keys[..5].iter().copied().zip(values[1..6].iter().copied()));
        holds_exactly::<AnyScheme>(&any, &model, &at);
        assert_eq!(any.audit().expect("sound").pairs, own.audit().expect("sound").pairs, "{at}");
        if kind == Kind::Canonical {
            assert_eq!((image::<AnyScheme>(&any), any.digest().unwrap()), (image(&own), own.digest().unwrap()), "{at}");
            assert_eq!(any.to_pairs().unwrap(), own.to_pairs().unwrap(), "{at}");
            assert_eq!(any.stats().unwrap().ages, own.stats().unwrap().ages, "{at}");
        }
        // Each of the two types opens the file of the other.
        any.save(path("any")).expect("a file");
        own.save(path("own")).expect("a file");
        if kind == Kind::Canonical {
            assert!(std::fs::read(path("any")).unwrap() == std::fs::read(path("own")).unwrap(), "{at}");
        }
        let opened = HashTable::<Any, AnyScheme>::open(&device, path("own")).expect("a table");
        assert_eq!((opened.scheme().name(), opened.scheme().kind()), (S::NAME, kind), "{at}");
        holds_exactly::<AnyScheme>(&opened, &model, &at);
        holds_exactly(&HashTable::<Any, S>::open(&device, path("any")).expect("a table"), &model, &at);
    }
}

#[test]
fn tables_of_any_scheme_equal_those_of_the_scheme() {
    macro_rules! each {
        ($($module:ident, $scheme:ident, $name:literal;)*) => {
            $(koel::scheme::$scheme::KINDS.iter().for_each(|&kind| same::<koel::scheme::$scheme>(kind));)*
        };
    }
    koel::for_each_scheme!(each);
}

#[test]
fn names_and_numbers_are_those_of_the_registry() {
    for &name in AnyScheme::NAMES {
        let kinds = Kind::ALL.map(|kind| AnyScheme::by_name(name, kind));
        let known: Vec<_> = kinds.iter().flatten().collect();
        assert!(!known.is_empty(), "{name}");
        for scheme in known {
            assert_eq!((scheme.name(), AnyScheme::name_of(scheme.id())), (name, Some(name)));
            assert!(AnyScheme::has_id(scheme.id()));
        }
        for error in kinds.into_iter().filter_map(Result::err) {
            assert!(matches!(error, Error::InvalidParameter { what: "kind", .. }), "{name}: {error}");
        }
    }
    let error = AnyScheme::by_name("cockoo", Kind::Canonical).expect_err("no such scheme");
    assert!(error.to_string().contains("use one of: cuckoo bucketized horton"), "{error}");
    assert_eq!(
        (AnyScheme::name_of(0), AnyScheme::has_id(0), AnyPlan::of_stored(0, &[0; 40]).is_err()),
        (None, false, true)
    );
}

#[test]
fn a_file_of_another_or_an_unknown_scheme_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.koel");
    let cpu = Cpu::new();
    HashTable::builder(Horton::canonical(8)).build(&cpu, &[1, 2], &[3, 4]).unwrap().save(&path).expect("a file");
    let error = HashTable::<Cpu, Cuckoo>::open(&cpu, &path).expect_err("another scheme");
    assert!(error.to_string().contains("it contains a horton table, not a cuckoo table"), "{error}");
    let mut bytes = std::fs::read(&path).unwrap();
    // The number of the scheme follows the magic and the version.
    bytes[12..16].copy_from_slice(&77u32.to_le_bytes());
    let settings = bytes.len() - crate::common::TRAILER;
    crate::common::reseal_settings_at(&mut bytes, settings);
    std::fs::write(&path, &bytes).unwrap();
    let error = HashTable::<Cpu, AnyScheme>::open(&cpu, &path).expect_err("an unknown scheme");
    assert!(
        error.to_string().contains("it holds scheme number 77, which this koel does not know: use a newer one"),
        "{error}"
    );
}
