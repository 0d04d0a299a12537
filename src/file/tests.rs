//! Saving files, with both kinds of parts.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;

use super::part::Part;
use super::{WholeFile, is_stdout, lands_at};
use crate::{Cpu, Cuckoo, HashTable};

/// A function that creates a part.
type Constructor = fn(&Path, u32) -> io::Result<Part>;

/// The functions that work on this system.
fn ways(folder: &Path) -> Vec<Constructor> {
    let unnamed: Constructor = |folder, mode| Part::unnamed(folder, mode).ok_or(io::ErrorKind::Unsupported.into());
    let mut ways: Vec<Constructor> = vec![Part::named];
    if Part::unnamed(folder, 0o600).is_some() {
        ways.push(unnamed);
    } else {
        let _ = writeln!(io::stderr(), "skipped: files without a name: this system has none");
    }
    ways
}

/// Writes a file with such a function.
fn save(path: &Path, way: Constructor, contents: &str) -> io::Result<()> {
    let (whole, mut file) = WholeFile::create_as(path, way)?;
    file.write_all(contents.as_bytes())?;
    whole.finish()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_appear_when_complete_and_are_replaced_atomically() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    for way in ways(folder.path()) {
        for contents in ["one", "two"] {
            let (whole, mut file) = WholeFile::create_as(&path, way).unwrap();
            let before = fs::read_to_string(&path).ok();
            file.write_all(contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).ok(), before, "nothing is seen of it yet");
            whole.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        let (unfinished, mut file) = WholeFile::create_as(&path, way).unwrap();
        file.write_all(b"three").unwrap();
        drop((unfinished, file));
        assert_eq!(fs::read_to_string(&path).unwrap(), "two", "an error in the middle changes nothing");
        assert_eq!(names(folder.path()), ["t"]);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn two_saves_of_a_new_name_both_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    for way in ways(folder.path()) {
        let (first, _) = WholeFile::create_as(&path, way).unwrap();
        let (second, mut file) = WholeFile::create_as(&path, way).unwrap();
        file.write_all(b"second").unwrap();
        first.finish().unwrap();
        second.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(names(folder.path()), ["t"]);
        fs::remove_file(&path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn modes_and_owners_are_preserved_and_new_files_use_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let usual = folder.path().join("usual");
    fs::write(&usual, "").unwrap();
    let usual = usual.metadata().unwrap().mode();
    for (i, way) in ways(folder.path()).into_iter().enumerate() {
        let path = folder.path().join(format!("t{i}"));
        save(&path, way, "new").unwrap();
        assert_eq!(path.metadata().unwrap().mode(), usual);
        for mode in [0o600, 0o640, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            save(&path, way, "again").unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode);
        }
        if std::os::unix::fs::chown(&path, Some(12_345), Some(54_321)).is_err() {
            let _ = writeln!(io::stderr(), "skipped: owners that are kept: only root gives files away");
            continue;
        }
        save(&path, way, "theirs").unwrap();
        let there = path.metadata().unwrap();
        assert_eq!((there.uid(), there.gid(), there.mode() & 0o7777), (12_345, 54_321, 0o666));
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_to_files_and_to_missing_names() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    let at = |name: &str| folder.path().join(name);
    symlink("deep/link", at("chain")).unwrap();
    symlink("../real", at("deep/link")).unwrap();
    for way in ways(folder.path()) {
        for contents in ["through a dangling chain", "and through one that leads to a file"] {
            save(&at("chain"), way, contents).unwrap();
            assert_eq!(fs::read_to_string(at("real")).unwrap(), contents);
            assert!(at("chain").symlink_metadata().unwrap().is_symlink());
            assert!(at("deep/link").symlink_metadata().unwrap().is_symlink());
            assert_eq!(
                (names(folder.path()), names(&at("deep"))),
                (vec!["chain".into(), "deep".into(), "real".into()], vec!["link".into()])
            );
        }
        // Another hard link keeps the old contents.
        fs::hard_link(at("real"), at("deep/other")).unwrap();
        save(&at("chain"), way, "new").unwrap();
        assert_eq!(fs::read_to_string(at("deep/other")).unwrap(), "and through one that leads to a file");
        fs::remove_file(at("deep/other")).unwrap();
        fs::remove_file(at("real")).unwrap();
    }
    assert_eq!(lands_at(&at("chain")), Some(folder.path().canonicalize().unwrap().join("real")));
    symlink("loop", at("loop")).unwrap();
    for none in ["loop", "deep", "", "new/", ".."] {
        let path = if none.is_empty() { none.into() } else { at(none) };
        assert!(WholeFile::create(&path).is_err(), "{none}");
    }
    assert!(WholeFile::create(&at("no/such/folder")).is_err());
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut read = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut read).unwrap();
            read
        }
    });
    save(&pipe, Part::create, "through").unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    save(Path::new("/dev/null"), Part::create, "gone").unwrap();
    assert_eq!(names(folder.path()), ["pipe"]);
    assert!(is_stdout(Path::new("/dev/stdout")) && is_stdout(Path::new("/dev/fd/1")));
    assert!(!is_stdout(Path::new("/dev/stderr")) && !is_stdout(Path::new("/dev/null")) && !is_stdout(&pipe));
}

#[cfg(unix)]
#[test]
fn only_orphaned_parts_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let stay = [".koel-0123456789ab.part.txt", ".koel-short.part", "koel-0123456789ab.part", "t.1234.part"];
    stay.iter().for_each(|name| fs::write(at(name), "a user's").unwrap());
    fs::write(at("victim"), "untouched").unwrap();
    symlink("victim", at(".koel-AAAAAAAAAAAA.part")).unwrap();
    let (living, mut file) = WholeFile::create_as(&at("living"), Part::named).unwrap();
    file.write_all(b"goes on").unwrap();
    // The part of a process that was killed: no process has locked it.
    fs::write(at(".koel-0123456789ab.part"), "half").unwrap();
    let before = names(folder.path()).len();

    WholeFile::create(&at("t")).map(drop).unwrap();
    assert!(!at(".koel-0123456789ab.part").exists());
    assert_eq!(names(folder.path()).len(), before - 1);
    living.finish().unwrap();
    assert_eq!(fs::read_to_string(at("living")).unwrap(), "goes on");
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "untouched");
    assert!(at(".koel-AAAAAAAAAAAA.part").symlink_metadata().unwrap().is_symlink());
    assert!(stay.iter().all(|name| at(name).exists()));
}

/// A new part has a name for a moment before it is locked.
#[test]
fn parts_in_use_are_never_removed() {
    let folder = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for writer in 0..4 {
            let path = folder.path().join(format!("t{writer}"));
            scope.spawn(move || {
                for round in 0..50 {
                    // Lists the folder, and removes the parts that it considers orphans.
                    WholeFile::create(&path).map(drop).unwrap();
                    let (whole, mut file) = WholeFile::create_as(&path, Part::named).unwrap();
                    write!(file, "{round}").unwrap();
                    if round % 10 == 0 {
                        whole.finish().unwrap();
                        assert_eq!(fs::read_to_string(&path).unwrap(), round.to_string());
                    }
                }
            });
        }
    });
    assert_eq!(names(folder.path()), ["t0", "t1", "t2", "t3"]);
}

#[cfg(unix)]
#[test]
#[expect(unsafe_code, reason = "what a mapped table promises is tested")]
fn mapped_tables_survive_a_save_through_the_same_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    symlink(&real, &link).unwrap();
    let keys: Vec<u32> = (0..5000).collect();
    let build = |keys: &[u32]| HashTable::builder(Cuckoo::default()).build(&Cpu::new(), keys, keys).unwrap();
    build(&keys).save(&link).unwrap();
    // SAFETY: no one writes to the file; it is replaced.
    let mapped: HashTable<Cpu> = unsafe { HashTable::open_mapped(&Cpu::new(), &link).unwrap() };
    build(&[1]).save(&link).unwrap();
    let answers = mapped.get(&keys).unwrap();
    assert!(answers.iter().zip(&keys).all(|(answer, &key)| *answer == Some(key)));
    // Reads the mapped file while it is replaced.
    let digest = mapped.save(&link).unwrap();
    let again: HashTable<Cpu> = HashTable::open(&Cpu::new(), &real).unwrap();
    assert_eq!((again.digest().unwrap(), again.len()), (digest, 5000));
    assert_eq!(names(folder.path()), ["link", "real"]);
}
