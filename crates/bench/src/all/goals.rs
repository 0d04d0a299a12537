//! The goals of koel, row by row. They are defined only in this file.
//!
//! A row is a `koel-bench` command with some options, one row of its output, and the goals for its rate. Goals of GPUs
//! are rates that were reached on an H200, or that the best of other libraries reached there; goals of CPUs are
//! multiples of the rates of other tables in the same run. A row that a single run cannot measure states the reason.

/// The devices that a row was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Gpu,
    /// The CPU backend.
    Cpu,
    /// A CPU through OpenCL.
    CpuByOpenCl,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Gpu => "a GPU",
            Class::Cpu => "a CPU",
            Class::CpuByOpenCl => "a CPU through OpenCL",
        }
    }
}

/// The upper limit of a rate. Rows have none if no measured limit applies: builds of Horton tables, and of structures
/// on top of tables, are several passes of different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Words,
    Lines,
    /// Random 64-bit atomics, at least one per pair: limits builds that place each pair separately.
    Updates,
    Copy,
    /// Copies of everything that a build one partition at a time reads and writes for a pair. It makes no random
    /// accesses.
    Passes,
    /// The rate of transfers between host and device.
    Bus,
}

impl Limit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::Words => "8-byte reads",
            Limit::Lines => "64-byte reads",
            Limit::Updates => "atomics",
            Limit::Copy => "copy",
            Limit::Passes => "copies in passes",
            Limit::Bus => "the bus",
        }
    }
}

/// A rate to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// Operations per second.
    Rate(f64),
    /// A multiple of a rate that is measured in the same run.
    Times(f64, Reference),
}

/// The rate that a goal is a multiple of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// The row's limit.
    Limit,
    /// The rate of another table on the host, by its name in `koel-bench`.
    Peer(&'static str),
    /// The rate on one thread.
    OneThread,
    /// The rate on the CPU backend.
    CpuBackend,
    /// The rate with this number of pairs.
    Pairs(u32),
}

/// A rate to be reached, and a higher one that would be better still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    pub(super) reach: Target,
    pub(super) stretch: Option<Target>,
}

/// How a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The options of `koel-bench`, and its name for the row. `--n` is added; for a picture, its side and defined
    /// cells.
    Bench(&'static str, &'static str),
    /// A single run of one program cannot measure it, for this reason.
    Outside(&'static str),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) class: Class,
    pub(super) name: &'static str,
    pub(super) how: How,
    /// Where input and output are, as `koel-bench` calls it.
    pub(super) place: &'static str,
    /// The number of pairs; for a picture, of cells.
    pub(super) n: u32,
    /// Whether the row is measured only with all of its pairs, because its rate with fewer pairs is not meaningful.
    pub(super) whole: bool,
    /// The number of threads; `None` for all.
    pub(super) threads: Option<usize>,
    /// Hits per hundred queries; `None` if it does not matter, or follows from the data.
    pub(super) hits: Option<u32>,
    pub(super) limit: Option<Limit>,
    pub(super) goals: &'static [Goal],
}

const GPU_N: u32 = 1 << 26;
const CPU_N: u32 = 1 << 24;

/// The greatest number of pairs with which the rows of a class are measured, except rows about larger tables (`whole`).
pub(super) const fn usual_n(class: Class) -> u32 {
    match class {
        Class::Gpu => GPU_N,
        Class::Cpu | Class::CpuByOpenCl => CPU_N,
    }
}

/// Whether a goal is a multiple of the rate of this other table.
pub(super) fn needs_peer(name: &str, what: &str) -> bool {
    let is_it = |target: Target| matches!(target, Target::Times(_, Reference::Peer(peer)) if peer == name);
    let has_it = |goal: &Goal| is_it(goal.reach) || goal.stretch.is_some_and(is_it);
    ROWS.iter().any(|row| matches!(row.how, How::Bench(_, of) if of == what) && row.goals.iter().any(has_it))
}

impl Row {
    const fn new(class: Class, name: &'static str, how: How, goals: &'static [Goal]) -> Row {
        let n = usual_n(class);
        Row { class, name, how, place: "device", n, whole: false, threads: None, hits: None, limit: None, goals }
    }

    const fn gpu(name: &'static str, options: &'static str, what: &'static str, goals: &'static [Goal]) -> Row {
        Row::new(Class::Gpu, name, How::Bench(options, what), goals)
    }

    const fn cpu(name: &'static str, options: &'static str, what: &'static str, goals: &'static [Goal]) -> Row {
        Row::new(Class::Cpu, name, How::Bench(options, what), goals)
    }

    const fn at(self, n: u32) -> Row {
        Row { n, ..self }
    }

    const fn whole(self) -> Row {
        Row { whole: true, ..self }
    }

    const fn on_threads(self, threads: usize) -> Row {
        Row { threads: Some(threads), ..self }
    }

    const fn hits(self, hits: u32) -> Row {
        Row { hits: Some(hits), ..self }
    }

    const fn place(self, place: &'static str) -> Row {
        Row { place, ..self }
    }

    const fn of(self, limit: Limit) -> Row {
        Row { limit: Some(limit), ..self }
    }
}

const fn goal(reach: Target) -> Goal {
    Goal { reach, stretch: None }
}

/// Goals in billions per second.
const fn giga(reach: f64, stretch: f64) -> Goal {
    Goal { reach: Target::Rate(reach * 1e9), stretch: Some(Target::Rate(stretch * 1e9)) }
}

const fn times(factor: f64, bucketized_goals: Reference) -> Goal {
    goal(Target::Times(factor, bucketized_goals))
}

const HORTON_REACH: [Goal; 2] = {
    let stretch = Some(Target::Times(0.97, Reference::Limit));
    [Goal { reach: Target::Rate(34e9), stretch }, Goal { reach: Target::Rate(36e9), stretch }]
};
const AS_FAST_AS_SMALLER: [Goal; 1] = [times(0.75, Reference::Pairs(GPU_N))];
const OF_THE_BUS: [Goal; 1] =
    [Goal { reach: Target::Times(0.85, Reference::Limit), stretch: Some(Target::Times(0.95, Reference::Limit)) }];
const NEAR_CPU_BACKEND: [Goal; 1] = [Goal {
    reach: Target::Times(0.2, Reference::CpuBackend),
    stretch: Some(Target::Times(0.5, Reference::CpuBackend)),
}];
const BUILD_AT_2_24: [Goal; 4] = [
    times(4.0, Reference::Peer("hashbrown")),
    times(1.0, Reference::Peer("sorted by rdst")),
    times(10.0, Reference::Peer("ptr_hash")),
    times(10.0, Reference::Peer("ptr_hash+parts")),
];
const BUILD_AT_2_26: [Goal; 4] = [
    times(2.0, Reference::Peer("hashbrown")),
    times(1.0, Reference::Peer("sorted by rdst")),
    times(10.0, Reference::Peer("ptr_hash")),
    times(10.0, Reference::Peer("ptr_hash+parts")),
];
const HORTON_GOALS: [Goal; 2] = [times(1.0, Reference::Peer("ptr_hash")), times(0.8, Reference::Limit)];

/// The goals of signpost lookups on a CPU: multiples of the rate of ptr_hash, and a share of the rate of random reads.
/// The shares are 0.85 divided by the average number of lines that a lookup reads: 1.10, 1.07 and 1.045.
const fn signpost_goals(stretch: f64, share: f64) -> [Goal; 2] {
    let ptr_hash = Reference::Peer("ptr_hash");
    [
        Goal { reach: Target::Times(2.0, ptr_hash), stretch: Some(Target::Times(stretch, ptr_hash)) },
        times(share, Reference::Limit),
    ]
}

/// The goals of bucketized lookups on a CPU relative to others; `hashbrown` is the factor over a hash map.
const fn bucketized_goals(hashbrown: f64) -> [Goal; 3] {
    [
        times(1.15, Reference::Peer("ptr_hash")),
        times(hashbrown, Reference::Peer("hashbrown+fx")),
        times(0.8, Reference::Limit),
    ]
}

const HORTON: &str = "--scheme horton --kind canonical --load 0.9";
const SIGNPOST: &str = "--scheme signpost --kind canonical --load 0.9";
const SIGNPOST_PAIRS: &str = "--wide=u64-u64 --scheme signpost --load 0.9";
const SIGNPOST_WIDE_KEYS: &str = "--wide=u64-u32 --scheme signpost --load 0.9";
const SIGNPOST_WIDE_VALUES: &str = "--wide=u32-u64 --scheme signpost --load 0.9";
const SIGNPOST_SETS: &str = "--wide=sets --scheme signpost --load 0.9";
const BUCKETIZED: &str = "--scheme bucketized --kind canonical --load 0.9";
const BUCKETIZED_HITS: &str = "--scheme bucketized --kind canonical --load 0.9 --hits 100";
const FULLER: &str = "--scheme bucketized --kind canonical --load 0.95 --hits 100";
const FULLEST: &str = "--scheme bucketized --kind canonical --load 0.98 --hits 100";
const CUCKOO: &str = "--scheme cuckoo --kind canonical --load 0.8 --hits 100,0";
const TWO_LEVEL: &str = "--scheme fks --kind canonical --hits 100,0";
const PICTURE: &str = "--scheme robin_hood --kind canonical --load 0.85 --order row";
const SET: &str = "--table set --scheme bucketized --kind canonical --load 0.9 --hits 100,0";
const SET_HORTON: &str = "--table set --scheme horton --kind canonical --load 0.9 --hits 100,0";
const MULTI: &str = "--table multi --scheme bucketized --kind canonical --load 0.9 --multiplicity 4 --hits 100";
const INSERT_BUCKETIZED: &str = "--scheme bucketized --kind canonical --load 0.8 --hits 100 --insert";
const INSERT_CUCKOO: &str = "--scheme cuckoo --kind canonical --load 0.8 --hits 100 --insert";
const HORTON_HUGE: &str = "--scheme horton --kind canonical --load 0.9 --hits 100 --queries 2^29";
const BUCKETIZED_HUGE: &str = "--scheme bucketized --kind canonical --load 0.9 --hits 100 --queries 2^29";

/// All rows, with those of a GPU first.
pub(super) const ROWS: &[Row] = &[
    Row::gpu("Horton lookup", HORTON, "lookup", &[HORTON_REACH[0]]).hits(100).of(Limit::Lines),
    Row::gpu("Horton lookup", HORTON, "lookup", &[HORTON_REACH[0]]).hits(50).of(Limit::Lines),
    Row::gpu("Horton lookup", HORTON, "lookup", &[HORTON_REACH[1]]).hits(0).of(Limit::Lines),
    Row::gpu("signpost lookup", SIGNPOST, "lookup", &[giga(34.0, 36.9)]).hits(100).of(Limit::Lines),
    Row::gpu("signpost lookup", SIGNPOST, "lookup", &[giga(35.0, 37.8)]).hits(50).of(Limit::Lines),
    Row::gpu("signpost lookup", SIGNPOST, "lookup", &[giga(36.0, 38.9)]).hits(0).of(Limit::Lines),
    Row::gpu("signpost lookup, in cache", SIGNPOST, "lookup", &[giga(75.0, 81.0)])
        .at(1 << 20)
        .hits(100)
        .of(Limit::Lines),
    Row::gpu("signpost lookup, in cache", SIGNPOST, "lookup", &[giga(76.0, 82.0)])
        .at(1 << 20)
        .hits(50)
        .of(Limit::Lines),
    Row::gpu("signpost lookup, in cache", SIGNPOST, "lookup", &[giga(78.0, 85.0)]).at(1 << 20).hits(0).of(Limit::Lines),
    Row::gpu("signpost build", SIGNPOST, "build", &[giga(30.0, 43.0)]).of(Limit::Passes),
    Row::gpu("signpost lookup, u64 pairs", SIGNPOST_PAIRS, "lookup", &[giga(29.0, 32.6)]).hits(100).of(Limit::Lines),
    Row::gpu("signpost lookup, u64 pairs", SIGNPOST_PAIRS, "lookup", &[giga(30.0, 33.7)]).hits(50).of(Limit::Lines),
    Row::gpu("signpost lookup, u64 pairs", SIGNPOST_PAIRS, "lookup", &[giga(32.0, 35.0)]).hits(0).of(Limit::Lines),
    Row::gpu("signpost build, u64 pairs", SIGNPOST_PAIRS, "build", &[giga(20.0, 25.0)]),
    Row::gpu("signpost lookup, u64 keys, u32 values", SIGNPOST_WIDE_KEYS, "lookup", &[giga(30.0, 33.8)])
        .hits(100)
        .of(Limit::Lines),
    Row::gpu("signpost lookup, u64 keys, u32 values", SIGNPOST_WIDE_KEYS, "lookup", &[giga(31.0, 34.7)])
        .hits(50)
        .of(Limit::Lines),
    Row::gpu("signpost lookup, u64 keys, u32 values", SIGNPOST_WIDE_KEYS, "lookup", &[giga(32.0, 35.8)])
        .hits(0)
        .of(Limit::Lines),
    Row::gpu("signpost build, u64 keys, u32 values", SIGNPOST_WIDE_KEYS, "build", &[giga(20.0, 26.0)]),
    Row::gpu("signpost lookup, u32 keys, u64 values", SIGNPOST_WIDE_VALUES, "lookup", &[giga(30.0, 33.8)])
        .hits(100)
        .of(Limit::Lines),
    Row::gpu("signpost lookup, u32 keys, u64 values", SIGNPOST_WIDE_VALUES, "lookup", &[giga(31.0, 34.7)])
        .hits(50)
        .of(Limit::Lines),
    Row::gpu("signpost lookup, u32 keys, u64 values", SIGNPOST_WIDE_VALUES, "lookup", &[giga(32.0, 35.8)])
        .hits(0)
        .of(Limit::Lines),
    Row::gpu("signpost build, u32 keys, u64 values", SIGNPOST_WIDE_VALUES, "build", &[giga(20.0, 26.0)]),
    Row::gpu("signpost set of u64, contains", SIGNPOST_SETS, "contains", &[giga(33.0, 37.0)])
        .hits(100)
        .of(Limit::Lines),
    Row::gpu("signpost set of u64, contains", SIGNPOST_SETS, "contains", &[giga(34.0, 37.8)]).hits(50).of(Limit::Lines),
    Row::gpu("signpost set of u64, contains", SIGNPOST_SETS, "contains", &[giga(35.0, 38.8)]).hits(0).of(Limit::Lines),
    Row::gpu("signpost set of u64, insert", SIGNPOST_SETS, "set, insert", &[giga(34.0, 42.0)]),
    Row::gpu("bucketized lookup", BUCKETIZED, "lookup", &[giga(30.0, 33.0)]).hits(100).of(Limit::Lines),
    Row::gpu("bucketized lookup", BUCKETIZED, "lookup", &[giga(30.0, 33.0)]).hits(50).of(Limit::Lines),
    Row::gpu("bucketized lookup", BUCKETIZED, "lookup", &[giga(30.0, 33.0)]).hits(0).of(Limit::Lines),
    Row::gpu("Horton lookup, in cache", HORTON, "lookup", &[giga(75.0, 100.0)]).at(1 << 20).hits(100).of(Limit::Lines),
    Row::gpu("Horton lookup, in cache", HORTON, "lookup", &[giga(75.0, 100.0)]).at(1 << 20).hits(50).of(Limit::Lines),
    Row::gpu("Horton lookup, in cache", HORTON, "lookup", &[giga(75.0, 100.0)]).at(1 << 20).hits(0).of(Limit::Lines),
    Row::gpu("bucketized lookup, in cache", BUCKETIZED, "lookup", &[giga(75.0, 100.0)])
        .at(1 << 20)
        .hits(100)
        .of(Limit::Lines),
    Row::gpu("bucketized lookup, in cache", BUCKETIZED, "lookup", &[giga(75.0, 100.0)])
        .at(1 << 20)
        .hits(50)
        .of(Limit::Lines),
    Row::gpu("bucketized lookup, in cache", BUCKETIZED, "lookup", &[giga(75.0, 100.0)])
        .at(1 << 20)
        .hits(0)
        .of(Limit::Lines),
    Row::gpu("bucketized build", BUCKETIZED, "build", &[giga(33.0, 45.0)]).of(Limit::Passes),
    Row::gpu("bucketized build, load 0.95", FULLER, "build", &[giga(28.0, 35.0)]).of(Limit::Passes),
    Row::gpu("bucketized build, load 0.98", FULLEST, "build", &[giga(22.0, 35.0)]).of(Limit::Passes),
    Row::gpu("Horton build", HORTON, "build", &[giga(15.0, 25.0)]),
    Row::gpu("cuckoo build", CUCKOO, "build", &[giga(8.0, 14.0)]).of(Limit::Updates),
    Row::gpu("cuckoo lookup", CUCKOO, "lookup", &[goal(Target::Rate(19e9))]).hits(100).of(Limit::Words),
    Row::gpu("cuckoo lookup", CUCKOO, "lookup", &[goal(Target::Rate(12.5e9))]).hits(0).of(Limit::Words),
    Row::gpu(
        "Robin Hood, all pixels in row order",
        PICTURE,
        "lookup",
        &[Goal { reach: Target::Rate(60e9), stretch: Some(Target::Times(1.0, Reference::Limit)) }],
    )
    .of(Limit::Copy),
    Row::gpu("two-level build", TWO_LEVEL, "build", &[giga(7.2, 20.0)]).of(Limit::Updates),
    Row::gpu("two-level lookup", TWO_LEVEL, "lookup", &[giga(21.0, 25.0)]).hits(100).of(Limit::Words),
    Row::gpu("two-level lookup", TWO_LEVEL, "lookup", &[giga(14.0, 25.0)]).hits(0).of(Limit::Words),
    Row::gpu("set, insert", SET, "build", &[giga(14.9, 29.8)]),
    Row::gpu("set, contains", SET, "contains", &[giga(32.1, 64.2)]).hits(100).of(Limit::Lines),
    Row::gpu("set, contains", SET, "contains", &[giga(32.1, 64.2)]).hits(0).of(Limit::Lines),
    Row::gpu("set over Horton, insert", SET_HORTON, "build", &[giga(14.9, 29.8)]),
    Row::gpu("set over Horton, contains", SET_HORTON, "contains", &[giga(32.1, 64.2)]).hits(100).of(Limit::Lines),
    Row::gpu("set over Horton, contains", SET_HORTON, "contains", &[giga(32.1, 64.2)]).hits(0).of(Limit::Lines),
    Row::gpu("multivalue build, 4 values a key", MULTI, "build", &[giga(12.7, 25.0)]),
    Row::gpu("insert a tenth, bucketized", INSERT_BUCKETIZED, "insert a tenth", &[giga(12.0, 16.0)]),
    Row::gpu("insert a tenth, cuckoo", INSERT_CUCKOO, "insert a tenth", &[giga(12.0, 16.0)]).of(Limit::Updates),
    Row::gpu("bucketized lookup, from and to pinned memory", BUCKETIZED_HITS, "lookup", &OF_THE_BUS)
        .place("pinned")
        .hits(100)
        .of(Limit::Bus),
    Row::gpu("Horton lookup, a table of 2^31", HORTON_HUGE, "lookup", &AS_FAST_AS_SMALLER)
        .at(1 << 31)
        .whole()
        .hits(100)
        .of(Limit::Lines),
    Row::gpu("bucketized lookup, a table of 2^31", BUCKETIZED_HUGE, "lookup", &AS_FAST_AS_SMALLER)
        .at(1 << 31)
        .whole()
        .hits(100)
        .of(Limit::Lines),
    Row::cpu("bucketized lookup", BUCKETIZED, "lookup", &bucketized_goals(4.0)).hits(100).of(Limit::Lines),
    Row::cpu("bucketized lookup", BUCKETIZED, "lookup", &bucketized_goals(3.0)).hits(50).of(Limit::Lines),
    Row::cpu("bucketized lookup", BUCKETIZED, "lookup", &bucketized_goals(2.5)).hits(0).of(Limit::Lines),
    Row::cpu("Horton lookup", HORTON, "lookup", &HORTON_GOALS).hits(100).of(Limit::Lines),
    Row::cpu("Horton lookup", HORTON, "lookup", &HORTON_GOALS).hits(50).of(Limit::Lines),
    Row::cpu("Horton lookup", HORTON, "lookup", &HORTON_GOALS).hits(0).of(Limit::Lines),
    Row::cpu("signpost lookup", SIGNPOST, "lookup", &signpost_goals(3.0, 0.77)).hits(100).of(Limit::Lines),
    Row::cpu("signpost lookup", SIGNPOST, "lookup", &signpost_goals(3.0, 0.79)).hits(50).of(Limit::Lines),
    Row::cpu("signpost lookup", SIGNPOST, "lookup", &signpost_goals(2.5, 0.81)).hits(0).of(Limit::Lines),
    Row::cpu("signpost build", SIGNPOST, "build", &[times(3.0, Reference::Peer("hashbrown"))]).of(Limit::Passes),
    Row::cpu("bucketized build", BUCKETIZED, "build", &BUILD_AT_2_24).of(Limit::Passes),
    Row::cpu("bucketized lookup", BUCKETIZED, "lookup", &bucketized_goals(4.0))
        .at(1 << 26)
        .whole()
        .hits(100)
        .of(Limit::Lines),
    Row::cpu("bucketized lookup", BUCKETIZED, "lookup", &bucketized_goals(3.0))
        .at(1 << 26)
        .whole()
        .hits(50)
        .of(Limit::Lines),
    Row::cpu("bucketized lookup", BUCKETIZED, "lookup", &bucketized_goals(2.5))
        .at(1 << 26)
        .whole()
        .hits(0)
        .of(Limit::Lines),
    Row::cpu("Horton lookup", HORTON, "lookup", &HORTON_GOALS).at(1 << 26).whole().hits(100).of(Limit::Lines),
    Row::cpu("Horton lookup", HORTON, "lookup", &HORTON_GOALS).at(1 << 26).whole().hits(50).of(Limit::Lines),
    Row::cpu("Horton lookup", HORTON, "lookup", &HORTON_GOALS).at(1 << 26).whole().hits(0).of(Limit::Lines),
    Row::cpu("bucketized build", BUCKETIZED, "build", &BUILD_AT_2_26).at(1 << 26).whole().of(Limit::Passes),
    Row::cpu("bucketized lookup on 2 threads", BUCKETIZED, "lookup", &[times(1.8, Reference::OneThread)])
        .on_threads(2)
        .hits(100),
    Row::new(
        Class::Cpu,
        "a portable binary: 0.75 of one made for this CPU",
        How::Outside(
            "it takes two programs, of which this is one: docs/performance/cpu.md, \"What a portable binary loses\", says how \
             to compare them and what came of it",
        ),
        &[],
    ),
    // These rows have no limit. Through OpenCL on a CPU, a work-item makes one random read at a time, but looks up
    // several keys, so lookups can be faster.
    Row::new(Class::CpuByOpenCl, "bucketized lookup", How::Bench(BUCKETIZED, "lookup"), &NEAR_CPU_BACKEND).hits(100),
    Row::new(Class::CpuByOpenCl, "Horton lookup", How::Bench(HORTON, "lookup"), &NEAR_CPU_BACKEND).hits(100),
];
