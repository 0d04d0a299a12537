//! What is left of the `koel` command when it is ended from outside: the old file or the new one, whole.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::folder::Folder;

/// Numbers that POSIX fixes.
const SIGNALS: [(&str, i32); 4] = [("HUP", 1), ("INT", 2), ("TERM", 15), ("KILL", 9)];

/// Those that the command does not inherit as ignored: `nohup` does that to HUP.
fn signals() -> Vec<(&'static str, i32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let ignored = u64::from_str_radix(mask.trim(), 16).unwrap();
    let (left_out, kept) = SIGNALS.into_iter().partition(|(_, number)| ignored >> (number - 1) & 1 != 0);
    let left_out: Vec<(&str, i32)> = left_out;
    if !left_out.is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: {left_out:?}: what runs the tests has them ignored");
    }
    kept
}

/// Rows that are more than one buffer.
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

/// Waits until something is so, for as long as a crowded machine may take.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// A lookup in the middle of its output, which waits for more queries.
fn held_lookup(folder: &Folder, output: &str) -> Child {
    let before = part_names(folder);
    let mut command = folder.command(&format!("lookup t.koel - -o {output} --device cpu"));
    command.env("KOEL_UNNAMED_FILES", "off").stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(rows(20_000).as_bytes()).unwrap();
    until("the output is begun", || part_names(folder).iter().any(|name| !before.contains(name)));
    child
}

fn with_table() -> Folder {
    let folder = Folder::new();
    folder.file("p.csv", rows(100));
    folder.ok("build p.csv -o t.koel --device cpu");
    folder
}

#[test]
fn signals_remove_what_is_half_written_and_end_the_process_as_they_should() {
    let folder = with_table();
    folder.file("out.csv", "old");
    for (signal, number) in signals() {
        let mut child = held_lookup(&folder, "out.csv");
        send(signal, &child);
        assert_eq!(child.wait().unwrap().signal(), Some(number), "{signal}");
        assert_eq!(folder.bytes("out.csv"), b"old");
        assert_eq!(parts(&folder), usize::from(signal == "KILL"), "{signal}");
    }
    // What `kill -9` left goes with the next file; what is being written stays.
    let mut living = held_lookup(&folder, "living.csv");
    assert_eq!(parts(&folder), 1, "its own alone");
    folder.ok("build p.csv -o other.koel --device cpu");
    assert_eq!(parts(&folder), 1, "it is not an orphan");
    drop(living.stdin.take());
    assert!(living.wait().unwrap().success());
    assert_eq!(parts(&folder), 0);
    assert_eq!(folder.text("living.csv").lines().count(), 20_001);
}

/// The first process of a container, which no default action ends.
#[cfg(target_os = "linux")]
#[test]
fn the_first_process_of_a_container_ends_as_others_do() {
    let folder = with_table();
    let unshare = ["--pid", "--fork", "--kill-child"];
    let probe = Command::new("unshare").args(unshare).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: the first process of a container: unshare may not make one");
        return;
    }
    for (signal, number) in signals().into_iter().filter(|(signal, _)| *signal != "KILL") {
        let mut command = Command::new("unshare");
        command.args(unshare).arg(crate::PROGRAM).args("lookup t.koel - -o out.csv --device cpu".split(' '));
        command.current_dir(folder.path("")).env("KOEL_UNNAMED_FILES", "off");
        let mut outer = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        outer.stdin.as_mut().unwrap().write_all(rows(20_000).as_bytes()).unwrap();
        until("the output is begun", || parts(&folder) == 1);
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner = fs::read_to_string(children).unwrap();
        assert!(Command::new("kill").arg(format!("-{signal}")).arg(inner.trim()).status().unwrap().success());
        assert_eq!(outer.wait().unwrap().code(), Some(128 + number), "{signal}");
        assert_eq!(parts(&folder), 0, "{signal}");
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    if !fs::exists("/proc/self/status").unwrap() {
        let _ = writeln!(std::io::stderr(), "skipped: ignored signals: this system does not tell them");
        return;
    }
    let folder = with_table();
    let mut command = Command::new("sh");
    command.arg("-c").arg("trap '' HUP; exec \"$0\" build - -o new.koel --device cpu").arg(crate::PROGRAM);
    let mut child = command.current_dir(folder.path("")).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // SIGTERM has the 15th bit of the mask of signals that are caught.
    until("signals are waited for", || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> 14 & 1 != 0
    });
    send("HUP", &child);
    child.stdin.take().unwrap().write_all(b"1,2\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.json("info new.koel --json")["pairs"], 1);
}

/// Kills at any time, with files that have a name while they are written and with those that have none.
#[test]
fn a_kill_at_any_time_leaves_the_old_file_or_the_new_one() {
    // For the loop of 200 by hand.
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
        // Some end while a file is written that can be seen, the others anywhere.
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
        assert!(!new_part() || signal == "KILL", "kill {kill}, {signal}: a part is left");
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
