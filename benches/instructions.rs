//! Counts instructions per key of the CPU's hot loops. Counts are equal in every run, so they show a slower loop even
//! on a machine whose timings are unreliable.
//!
//! ```text
//! cargo bench -p koel --bench instructions               compares counts with instructions.txt, fails beyond the slack
//! cargo bench -p koel --bench instructions -- --bless    writes the counts to instructions.txt
//! cargo bench -p koel --bench instructions -- horton     only loops whose names contain this
//! ```
//!
//! Each loop is a separate run of this program under Valgrind's callgrind, which collects only while `counted_part` is
//! on the stack: generating keys and tables is not counted. There is one thread, the main one, because callgrind
//! collects per thread. Without `--bench` (`cargo test`) the loops run once, and their answers are checked.
//!
//! Counts are not a measure of speed: a loop that waits for memory has the same count as one that does not.
//! `koel-bench` measures speed. Counts show that code was added to a loop, or is no longer inlined or vectorised.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use koel::backend::{BuildRoute, HashBackend, Runs, bitmap_words};
use koel::workload::Workload;
use koel::{Bucketized, Cpu, Cuckoo, Fks, HashTable, Horton, RobinHood, Scheme, Signpost};
use rayon::prelude::*;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Pairs of a table, and queries of a lookup: enough that the constant cost of a call is negligible.
const KEYS: u32 = 1 << 17;
/// The percentage by which new loops may exceed their limits.
const SLACK: f64 = 5.0;
/// The file with the limits.
const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
/// The command that writes the limits.
const AGAIN: &str = "`cargo bench -p koel --bench instructions -- --bless`";
/// The option before the name of the only loop of a run.
const ONE: &str = "--one";
/// The only function during which callgrind collects.
const COUNTED: &str = "*counted_part*";

/// Runs the work to be counted.
#[inline(never)]
fn counted_part(work: &mut dyn FnMut()) {
    work();
}

/// A loop: its name, and a function that prepares it, runs it in `counted_part` and checks the results.
struct Loop {
    name: String,
    run: Box<dyn Fn() -> Outcome<()> + Sync>,
}

fn loops() -> Vec<Loop> {
    let mut all = Vec::new();
    of_scheme(&mut all, &Cuckoo::canonical(4));
    of_scheme(&mut all, &Bucketized::canonical(8));
    all.push(Loop {
        name: "bucketized direct".into(),
        run: Box::new(|| build(&Bucketized::canonical(8), BuildRoute::Direct)),
    });
    of_scheme(&mut all, &Horton::canonical(8));
    of_scheme(&mut all, &Signpost::new());
    of_scheme(&mut all, &RobinHood::canonical());
    of_scheme(&mut all, &Fks::canonical());
    all.push(Loop { name: "sort pairs".into(), run: Box::new(sort_pairs) });
    all
}

/// The build of a table of a scheme (one partition at a time if possible), and lookups that hit and that miss.
fn of_scheme<S: Scheme<Key = u32, Value = u32>>(all: &mut Vec<Loop>, scheme: &S)
where
    Cpu: Runs<S>,
{
    let name = |what: &str| format!("{} {what}", S::NAME);
    let of = scheme.clone();
    all.push(Loop { name: name("build"), run: Box::new(move || build(&of, BuildRoute::ByParts)) });
    for (what, hits) in [("hits", 100), ("misses", 0)] {
        let of = scheme.clone();
        all.push(Loop { name: name(what), run: Box::new(move || lookup(&of, hits)) });
    }
}

fn workload() -> Workload {
    Workload::new(KEYS, 1)
}

fn build<S: Scheme<Key = u32, Value = u32>>(scheme: &S, route: BuildRoute) -> Outcome<()>
where
    Cpu: Runs<S>,
{
    let (device, work) = (Cpu::new(), workload());
    device.set_build_route(Some(route));
    let (keys, values) = (device.upload(&work.keys())?, device.upload(&work.values())?);
    let builder = HashTable::builder(scheme.clone()).seed(1);
    let mut built = None;
    counted_part(&mut || built = Some(builder.build_on(&device, &keys, &values)));
    let table = built.ok_or("nothing was built")??;
    table.audit()?;
    if table.len() == KEYS as usize { Ok(()) } else { Err(format!("{} pairs of {KEYS}", table.len()).into()) }
}

fn lookup<S: Scheme<Key = u32, Value = u32>>(scheme: &S, hits: u32) -> Outcome<()>
where
    Cpu: Runs<S>,
{
    let (device, work) = (Cpu::new(), workload());
    let table = HashTable::builder(scheme.clone()).seed(1).build(&device, &work.keys(), &work.values())?;
    let queries = work.queries(KEYS as usize, hits);
    let there = device.upload(&queries)?;
    let (mut values, mut found) = (device.filled(queries.len(), 0)?, device.filled(bitmap_words(queries.len()), 0)?);
    let mut done = Ok(());
    counted_part(&mut || done = table.get_on_into(&there, &mut values, &mut found));
    done?;
    let (values, found) = (device.download(&values)?, device.download(&found)?);
    let answer = |i: usize| (found[i / 32] >> (i % 32) & 1 != 0).then(|| values[i]);
    match (0..queries.len()).find(|&i| answer(i) != work.answer(queries[i])) {
        None => Ok(()),
        Some(i) => Err(format!("the answer to query {i} is wrong").into()),
    }
}

fn sort_pairs() -> Outcome<()> {
    let (device, work) = (Cpu::new(), workload());
    let (keys, values) = (work.keys(), work.values());
    let there = (device.upload(&keys)?, device.upload(&values)?);
    let mut sorted = None;
    counted_part(&mut || sorted = Some(device.sort_pairs(&there.0, &there.1)));
    let (got, with) = sorted.ok_or("nothing was sorted")??;
    let got: Vec<_> = device.download(&got)?.into_iter().zip(device.download(&with)?).collect();
    let mut pairs: Vec<_> = keys.into_iter().zip(values).collect();
    pairs.sort_unstable();
    if got == pairs { Ok(()) } else { Err("the pairs are not in order".into()) }
}

/// The maximum count of a loop.
#[derive(Clone, Copy)]
struct Limit {
    a_key: f64,
    /// A percentage.
    slack: f64,
}

/// Parses lines of a name, instructions per key and the slack; and comments.
fn limits(text: &str) -> Outcome<Vec<(String, Limit)>> {
    let of_line = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let slack = words.pop()?.parse().ok()?;
        let a_key = words.pop()?.parse().ok()?;
        (!words.is_empty()).then(|| (words.join(" "), Limit { a_key, slack }))
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let advice =
        |line| format!("{LIMITS}: `{line}` is not `name  instructions a key  percent`: write it again by --bless");
    lines.map(|line| of_line(line).ok_or_else(|| advice(line).into())).collect()
}

/// Formats a file of limits.
fn blessed(limits: &[(String, Limit)]) -> String {
    let mut text = format!(
        "# Instructions a key of the CPU's hot loops, and by how many percent a change may exceed them.\n\
         # Counted, never edited: {AGAIN} writes them and keeps the percents.\n\
         {}\n",
        made_by()
    );
    for (name, limit) in limits {
        let _ = writeln!(text, "{name:<20} {:>9.2} {:>4}", limit.a_key, limit.slack);
    }
    text
}

/// The conditions other than the code that counts depend on, as a line of the file.
fn made_by() -> String {
    let version = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    let version = version.map(|run| String::from_utf8_lossy(&run.stdout).trim().to_owned()).unwrap_or_default();
    // Valgrind does not support AVX-512, so counted code has at most AVX2's lanes, whatever this processor supports.
    let lanes = Cpu::new().info().driver.rsplit(", ").next().unwrap_or_default().replace("AVX-512", "AVX2");
    format!("# {version}, {}, {lanes}", env::consts::ARCH)
}

/// The instructions per key of one loop, counted by callgrind in a run of this program.
fn count(name: &str, folder: &Path) -> Outcome<f64> {
    let out = folder.join(name.replace(' ', "-"));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--error-exitcode=1", &format!("--toggle-collect={COUNTED}")])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(env::current_exe()?)
        .args([ONE, name])
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "valgrind is not there: install it, by `apt-get install valgrind` or the like".into()
            }
            _ => format!("starting valgrind: {error}"),
        })?;
    if !run.status.success() {
        return Err(format!("{name} failed under valgrind:\n{}", String::from_utf8_lossy(&run.stderr)).into());
    }
    let written = fs::read_to_string(&out)?;
    let total: Option<f64> = written.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    match total {
        Some(total) if total > f64::from(KEYS) => Ok(total / f64::from(KEYS)),
        _ => Err(format!("{name}: callgrind has counted nothing in `{COUNTED}`, so was the function inlined?").into()),
    }
}

/// Counts all loops, a few at a time, because counts do not depend on other processes. Returns whether none exceeds its
/// limit.
fn guard(only: &[String], bless: bool) -> Outcome<bool> {
    let folder = tempfile::tempdir()?;
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let names: Vec<String> = loops().into_iter().map(|each| each.name).filter(|name| wanted(name)).collect();
    let counts = names.par_iter().map(|name| count(name, folder.path())).collect::<Outcome<Vec<f64>>>()?;
    let text = if Path::new(LIMITS).exists() { fs::read_to_string(LIMITS)? } else { String::new() };
    let mut known = limits(&text)?;

    println!("{:<20} {:>9} {:>9} {:>8} {:>6}", "instructions a key", "counted", "limit", "change", "slack");
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for (name, &counted) in names.iter().zip(&counts) {
        let Some((_, limit)) = known.iter_mut().find(|(other, _)| other == name) else {
            println!("{name:<20} {counted:>9.2} {:>9}", "none");
            above.push(name.as_str());
            known.push((name.clone(), Limit { a_key: counted, slack: SLACK }));
            continue;
        };
        let change = 100.0 * (counted / limit.a_key - 1.0);
        println!("{name:<20} {counted:>9.2} {:>9.2} {change:>+7.2}% {:>5}%", limit.a_key, limit.slack);
        if change > limit.slack {
            above.push(name);
        } else if change < -limit.slack {
            below.push(name.as_str());
        }
        if bless {
            limit.a_key = counted;
        }
    }
    if bless {
        let all = loops();
        let place = |name: &str| all.iter().position(|each| each.name == name);
        known.retain(|(name, _)| place(name).is_some());
        known.sort_by_key(|(name, _)| place(name));
        fs::write(LIMITS, blessed(&known))?;
        println!("written to {LIMITS}: commit it with what changed the counts, and say there why");
        return Ok(true);
    }
    if !below.is_empty() {
        println!("below the limit by more than the slack: {}: keep the gain by {AGAIN}", below.join(", "));
    }
    if !above.is_empty() {
        println!(
            "above the limit, or without one: {}. Find what was added to these loops: a branch, a check of bounds, a \
             call that is no longer inlined, lanes that are no longer wide. Where it is worth its cost (measure by \
             `koel-bench`), write the new limits by {AGAIN} and commit them.",
            above.join(", ")
        );
        let (then, now) = (text.lines().find(|line| line.starts_with("# rustc")).unwrap_or("# -"), made_by());
        if then != now {
            println!("the limits are of {}, and this is {}, which may be all", &then[2..], &now[2..]);
        }
    }
    Ok(above.is_empty())
}

/// Runs all loops once, which checks their answers, and compares their names with those in the file of limits.
fn check() -> Outcome<()> {
    for each in loops() {
        (each.run)().map_err(|error| format!("{}: {error}", each.name))?;
    }
    let names: Vec<String> = loops().into_iter().map(|each| each.name).collect();
    let known: Vec<String> = limits(&fs::read_to_string(LIMITS)?)?.into_iter().map(|(name, _)| name).collect();
    match names == known {
        true => Ok(()),
        false => Err(format!("{LIMITS} has limits of {known:?}, and the loops are {names:?}: run {AGAIN}").into()),
    }
}

fn run() -> Outcome<bool> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [one, name] = &arguments[..]
        && one == ONE
    {
        rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global()?;
        let known = loops().into_iter().find(|each| each.name == *name).ok_or_else(|| format!("no loop {name}"))?;
        return (known.run)().map(|()| true);
    }
    if arguments.iter().any(|argument| argument == "--bench") {
        let only: Vec<String> = arguments.iter().filter(|argument| !argument.starts_with('-')).cloned().collect();
        return guard(&only, arguments.iter().any(|argument| argument == "--bless"));
    }
    check().map(|()| true)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
