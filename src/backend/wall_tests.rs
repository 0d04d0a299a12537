//! Invalid calls of the passes: wrong lengths of images and columns, and passes that a kind does not have. Each
//! backend's tests run them, for every scheme.

use super::{Kernels, bitmap_words};
use crate::error::{Error, Result};
use crate::scheme::{Plan as _, Request, Scheme, Updates};

/// The number of keys and of queries.
const KEYS: usize = 70;

/// The arguments of the passes.
struct Fixture<S: Scheme<Key = u32, Value = u32>, B: Kernels<S>> {
    plan: S::Plan,
    image: B::Buffer<u64>,
    keys: B::Buffer<u32>,
    values: B::Buffer<u32>,
    found: B::Buffer<u32>,
}

/// The lengths of the others, relative to [`KEYS`].
#[derive(Clone, Copy, Debug)]
struct Lengths {
    image: usize,
    values: usize,
    found: usize,
}

/// The passes, in the order of the calls, and the lengths that each checks.
const PASSES: [(&str, &[Part]); 9] = [
    ("build", &[Part::Values]),
    ("extended", &[Part::Image, Part::Values]),
    ("place", &[Part::Image, Part::Values]),
    ("lookup", &[Part::Image, Part::Values, Part::Found]),
    ("contains", &[Part::Image]),
    ("assign", &[Part::Image, Part::Values]),
    ("decode", &[Part::Image]),
    ("remove", &[Part::Image]),
    ("lift", &[Part::Image]),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Image,
    Values,
    Found,
}

impl<S: Scheme<Key = u32, Value = u32>, B: Kernels<S>> Fixture<S, B> {
    fn new(backend: &B, plan: S::Plan, lengths: Lengths) -> Result<Self> {
        Ok(Fixture {
            plan,
            image: backend.filled(lengths.image, plan.empty_word())?,
            keys: backend.iota(KEYS)?,
            values: backend.filled(lengths.values, 0)?,
            found: backend.filled(lengths.found, 0)?,
        })
    }

    /// Calls every pass, in the order of [`PASSES`].
    fn all(&mut self, backend: &B) -> [Result<()>; 9] {
        let Fixture { plan, image, keys, values, found } = self;
        [
            Kernels::<S>::build(backend, plan, keys, values).map(drop),
            Kernels::<S>::extended(backend, plan, image, keys, values).map(drop),
            Kernels::<S>::place(backend, plan, image, keys, values).map(drop),
            Kernels::<S>::lookup(backend, plan, image, keys, values, found),
            Kernels::<S>::contains(backend, plan, image, keys).map(drop),
            Kernels::<S>::assign(backend, plan, image, keys, values),
            Kernels::<S>::decode(backend, plan, image).map(drop),
            Kernels::<S>::remove(backend, plan, image, keys).map(drop),
            Kernels::<S>::lift(backend, plan, image).map(drop),
        ]
    }
}

/// Every pass rejects each invalid argument with the right error, and nothing else.
pub(crate) fn what_does_not_fit_is_refused<S: Scheme<Key = u32, Value = u32>, B: Kernels<S>>(
    backend: &B,
    scheme: &S,
) -> Result<()> {
    let pairs = KEYS as u64;
    let plan = scheme.plan(Request { slots: scheme.default_load().slots_for(pairs), pairs, seed: 6, attempt: 0 })?;
    let right = Lengths { image: plan.word_count()?, values: KEYS, found: bitmap_words(KEYS) };

    for off in [-1, 1] {
        let other = |length: usize| length.saturating_add_signed(off);
        for (part, lengths) in [
            (Part::Image, Lengths { image: other(right.image), ..right }),
            (Part::Values, Lengths { values: other(right.values), ..right }),
            (Part::Found, Lengths { found: other(right.found), ..right }),
        ] {
            let results = Fixture::<S, B>::new(backend, plan, lengths)?.all(backend);
            for ((pass, looks_at), result) in PASSES.iter().zip(results) {
                let refused = matches!(result, Err(Error::LengthMismatch { .. }));
                assert_eq!(refused, looks_at.contains(&part), "{} {pass}, {lengths:?}: {result:?}", scheme.name());
            }
        }
    }

    let mut queried = Fixture::<S, B>::new(backend, plan, right)?;
    for ((pass, _), result) in PASSES.iter().zip(queried.all(backend)) {
        let possible = match *pass {
            "remove" => scheme.updates() != Updates::Rebuild,
            "lift" => scheme.updates() == Updates::Tombstones,
            _ => true,
        };
        let as_it_should = match &result {
            Ok(()) => possible,
            Err(error) => !possible && matches!(error, Error::InvalidParameter { what: "kind", .. }),
        };
        assert!(as_it_should, "{} {pass}: {result:?}", scheme.name());
    }
    Ok(())
}
