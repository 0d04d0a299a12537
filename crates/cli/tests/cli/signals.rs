//! Signals: whenever the `koel` command is ended, its output is the complete old file or the complete new one.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::folder::Folder;

/// Signals and their numbers, which POSIX defines.
const SIGNALS: [(&str, i32); 4] = [("HUP", 1), ("INT", 2), ("TERM", 15), ("KILL", 9)];

/// The signals that are not ignored. The command inherits ignored ones; `nohup`, for example, ignores HUP.
fn signals() -> Vec<(&'static str, i32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let ignored = u64::from_str_radix(mask.trim(), 16).unwrap();
    let (left_out, kept) = SIGNALS.into_iter().partition(|(_, number)| ignored >> (number - 1) & 1 != 0);
    let left_out: Vec<(&str, i32)> = left_out;
    if !left_out.is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: {left_out:?}: the process that runs the tests ignores them");
    }
    kept
}

fn rows(count: u32) -> String {
    (0..count).map(|key| format!("{key},{key}\n")).collect()
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
}

fn part_names(folder: &Folder) -> Vec<OsString> {
    let names = fs::read_dir(folder.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".part")).collect()
}

fn parts(folder: &Folder) -> usize {
    part_names(folder).len()
}

/// Waits until a condition holds. The timeout is long, for busy machines.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// A lookup that has written a part of its output and waits for more queries.
fn unfinished_lookup(folder: &Folder, output: &str) -> Child {
    let before = part_names(folder);
    let mut command = folder.command(&format!("lookup t.koel - -o {output} --device cpu"));
    command.env("KOEL_UNNAMED_FILES", "off").stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(rows(20_000).as_bytes()).unwrap();
    until("the output exists", || part_names(folder).iter().any(|name| !before.contains(name)));
    child
}

fn with_table() -> Folder {
    let folder = Folder::new();
    folder.file("p.csv", rows(100));
    folder.ok("build p.csv -o t.koel --device cpu");
    folder
}

#[test]
fn signals_remove_incomplete_files_and_end_the_process() {
    let folder = with_table();
    folder.file("out.csv", "old");
    for (signal, number) in signals() {
        let mut child = unfinished_lookup(&folder, "out.csv");
        send(signal, &child);
        assert_eq!(child.wait().unwrap().signal(), Some(number), "{signal}");
        assert_eq!(folder.bytes("out.csv"), b"old");
        assert_eq!(parts(&folder), usize::from(signal == "KILL"), "{signal}");
    }
    // The next output removes the part that `kill -9` left behind, but not parts that are being written.
    let mut living = unfinished_lookup(&folder, "living.csv");
    assert_eq!(parts(&folder), 1, "only its own part");
    folder.ok("build p.csv -o other.koel --device cpu");
    assert_eq!(parts(&folder), 1, "the part of a running process is kept");
    drop(living.stdin.take());
    assert!(living.wait().unwrap().success());
    assert_eq!(parts(&folder), 0);
    assert_eq!(folder.text("living.csv").lines().count(), 20_001);
}

/// Default actions of signals do not end the first process of a container.
#[cfg(target_os = "linux")]
#[test]
fn signals_end_the_first_process_of_a_container() {
    let folder = with_table();
    let unshare = ["--pid", "--fork", "--kill-child"];
    let probe = Command::new("unshare").args(unshare).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: the first process of a container: unshare is not permitted");
        return;
    }
    for (signal, number) in signals().into_iter().filter(|(signal, _)| *signal != "KILL") {
        let mut command = Command::new("unshare");
        command.args(unshare).arg(crate::PROGRAM).args("lookup t.koel - -o out.csv --device cpu".split(' '));
        command.current_dir(folder.path("")).env("KOEL_UNNAMED_FILES", "off");
        let mut outer = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        outer.stdin.as_mut().unwrap().write_all(rows(20_000).as_bytes()).unwrap();
        until("the output exists", || parts(&folder) == 1);
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner = fs::read_to_string(children).unwrap();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(inner.trim()).status().unwrap().success());
        assert_eq!(outer.wait().unwrap().code(), Some(128 + number), "{signal}");
        assert_eq!(parts(&folder), 0, "{signal}");
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    if !fs::exists("/proc/self/status").unwrap() {
        let _ = writeln!(std::io::stderr(), "skipped: ignored signals: this system does not report them");
        return;
    }
    let folder = with_table();
    let mut command = Command::new("sh");
    command.arg("-c").arg("trap '' HUP; exec \"$0\" build - -o new.koel --device cpu").arg(crate::PROGRAM);
    let mut child = command.current_dir(folder.path("")).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // SIGTERM has the 15th bit of the mask of signals that are caught.
    until("the signal handler is installed", || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> 14 & 1 != 0
    });
    send("HUP", &child);
    child.stdin.take().unwrap().write_all(b"1,2\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.json("info new.koel --json")["pairs"], 1);
}

/// Kills the command at arbitrary times, both with named and with unnamed temporary files.
#[test]
fn a_kill_at_any_time_leaves_the_old_file_or_the_new_one() {
    // Set this variable for longer manual runs, such as 200 kills.
    let kills = std::env::var("KOEL_TEST_KILLS").map_or(24, |kills| kills.parse().unwrap());
    let folder = Folder::new();
    folder.file("old.csv", rows(20_000));
    folder.file("new.csv", rows(60_000));
    let build = |input: &str, output: &str| format!("build {input} -o {output} --device cpu");
    folder.ok(&build("old.csv", "old.koel"));
    let start = Instant::now();
    folder.ok(&build("new.csv", "new.koel"));
    let whole = start.elapsed();
    let (old, new) = (folder.bytes("old.koel"), folder.bytes("new.koel"));
    let mut ends = [0, 0];
    for kill in 0..kills {
        fs::write(folder.path("t.koel"), &old).unwrap();
        let setting = ["on", "off"][kill % 2];
        let mut command = folder.command(&build("new.csv", "t.koel"));
        command.env("KOEL_UNNAMED_FILES", setting).stdout(Stdio::null()).stderr(Stdio::null());
        let before = part_names(&folder);
        let new_part = || part_names(&folder).iter().any(|name| !before.contains(name));
        let mut child = command.spawn().unwrap();
        // Some kills wait for a named temporary file to appear; the others are at arbitrary times.
        if kill % 6 == 1 {
            while !new_part() && child.try_wait().unwrap().is_none() {}
        } else {
            sleep(whole.mul_f64(1.1 * (kill * 7 % kills) as f64 / kills as f64));
        }
        let (signal, _) = SIGNALS[kill / 2 % SIGNALS.len()];
        if child.try_wait().unwrap().is_none() {
            send(signal, &child);
        }
        child.wait().unwrap();
        let left = folder.bytes("t.koel");
        assert!(left == old || left == new, "kill {kill}, {signal}: {} bytes", left.len());
        ends[usize::from(left == new)] += 1;
        assert!(!new_part() || signal == "KILL", "kill {kill}, {signal}: a part was not removed");
    }
    let _ = writeln!(
        std::io::stderr(),
        "{kills} kills: {} old files, {} new ones, {} parts",
        ends[0],
        ends[1],
        parts(&folder)
    );
    folder.ok(&build("new.csv", "t.koel"));
    assert_eq!(parts(&folder), 0);
}
