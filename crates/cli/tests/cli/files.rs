//! Output files of the `koel` command: they are never its inputs, never incomplete, and replaced atomically.

use std::fs;
use std::process::{Command, Stdio};

use crate::folder::{Folder, stderr};

/// A folder with tables that commands must not overwrite.
fn with_inputs() -> Folder {
    let folder = Folder::new();
    folder.file("p.csv", "key,value\n5,50\n6,60\n7,70\n");
    folder.file("q.csv", "key,value\n6,1\n9,2\n");
    folder.ok("build p.csv -o t.koel --device cpu");
    folder
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let folder = with_inputs();
    let mut names = vec!["p.csv", "./p.csv", "../FOLDER/p.csv", "hard.csv"];
    // Tables cannot be called .csv, so rows in a file called `p` are linked as well.
    fs::copy(folder.path("p.csv"), folder.path("p")).unwrap();
    for extension in [".csv", ""] {
        let name = |stem: &str| format!("{stem}{extension}");
        fs::hard_link(folder.path(&name("p")), folder.path(&name("hard"))).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(name("p"), folder.path(&name("link"))).unwrap();
            std::os::unix::fs::symlink(name("link"), folder.path(&name("chain"))).unwrap();
        }
    }
    if cfg!(unix) {
        names.extend(["link.csv", "chain.csv"]);
    }
    let own = folder.path("").canonicalize().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let before = (folder.bytes("p.csv"), folder.bytes("t.koel"));
    for name in names {
        let name = name.replace("FOLDER", &own);
        let table = name.strip_suffix(".csv").unwrap();
        for arguments in [
            format!("build p -o {table}"),
            format!("build {table} -o p"),
            format!("unique p.csv -o {name}"),
            format!("unique p.csv --inverse {name}"),
            format!("unique p.csv -o u.csv --inverse {name}"),
            format!("groupby p.csv -o {name}"),
            format!("join p.csv q.csv -o {name}"),
            format!("join q.csv p.csv -o {name}"),
            format!("lookup t.koel p.csv -o {name}"),
        ] {
            folder.refused(&arguments, "is the input");
        }
    }
    // Rows cannot be called .koel, so the table is linked under a name without an extension.
    fs::hard_link(folder.path("t.koel"), folder.path("table")).unwrap();
    for option in ["", "--mapped"] {
        folder.refused(&format!("lookup t.koel q.csv -o table {option}"), "is the input t.koel");
    }
    assert_eq!((folder.bytes("p.csv"), folder.bytes("t.koel")), before);
    assert!(!folder.path("u.csv").exists());
    // A missing input is reported as missing, even if the output has its name.
    for arguments in ["build new -o new", "unique new -o new", "groupby new -o ./new", "lookup new q.csv -o new"] {
        let said = stderr(&folder.koel(arguments));
        assert!(said.starts_with("koel: new: ") && !said.contains("is the input"), "{arguments}: {said}");
    }
    assert!(!folder.path("new").exists());
    // A file may be read twice.
    folder.ok("join p.csv p.csv -o j.csv --device cpu");
}

#[test]
fn two_outputs_that_are_one_file_are_refused() {
    let folder = with_inputs();
    folder.file("old.csv", "old");
    let mut pairs =
        vec![("new.csv", "new.csv"), ("new.csv", "./new.csv"), ("old.csv", "./old.csv"), ("old.csv", "hard.csv")];
    fs::hard_link(folder.path("old.csv"), folder.path("hard.csv")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("new.csv", folder.path("dangling.csv")).unwrap();
        pairs.extend([("dangling.csv", "new.csv"), ("/dev/stdout", "/dev/stdout")]);
    }
    for (output, inverse) in pairs {
        folder.refused(&format!("unique p.csv -o {output} --inverse {inverse}"), "name one file");
    }
    assert_eq!(folder.bytes("old.csv"), b"old");
    assert!(!folder.path("new.csv").exists());
    #[cfg(unix)]
    folder.ok("unique p.csv -o /dev/null --inverse /dev/null --device cpu");
}

#[cfg(unix)]
#[test]
fn streams_that_are_redirected_files_are_known_as_such() {
    let folder = with_inputs();
    let before = folder.bytes("p.csv");
    let open = |options: &mut fs::OpenOptions| options.open(folder.path("p.csv")).unwrap();
    fs::copy(folder.path("p.csv"), folder.path("p")).unwrap();
    for arguments in ["build - -o p", "unique - -o p.csv", "groupby - -o p.csv", "lookup t.koel - -o p.csv"] {
        let stdin = fs::File::open(folder.path(arguments.rsplit(' ').next().unwrap())).unwrap();
        let output = folder.command(arguments).stdin(stdin).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains("is the input stdin"), "{}", stderr(&output));
    }
    for arguments in ["unique p.csv", "lookup t.koel p.csv", "join q.csv p.csv", "unique p.csv -o /dev/stdout"] {
        let stdout = open(fs::OpenOptions::new().append(true));
        let output = folder.command(arguments).stdout(stdout).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains("is the input p.csv"), "{}", stderr(&output));
    }
    assert_eq!(folder.bytes("p.csv"), before);
    // As `koel unique p.csv > p.csv` finds it.
    for arguments in ["unique p.csv", "lookup t.koel p.csv"] {
        let stdout = fs::File::create(folder.path("p.csv")).unwrap();
        let output = folder.command(arguments).stdout(stdout).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let said = stderr(&output);
        assert!(said.contains("is the input p.csv, and the shell has already emptied it"), "{said}");
    }
}

#[test]
fn nothing_is_written_if_an_input_is_missing_or_invalid() {
    let folder = with_inputs();
    folder.file("old.csv", "old");
    folder.file("bad.npy", "no array");
    for queries in ["missing.csv", "bad.npy"] {
        // `refused` also checks that stdout is empty.
        folder.refused(&format!("lookup t.koel {queries} --device cpu"), queries);
        folder.refused(&format!("lookup t.koel {queries} -o old.csv --device cpu"), queries);
        folder.refused(&format!("lookup t.koel {queries} -o new.csv --device cpu"), queries);
    }
    folder.refused("lookup missing.koel q.csv -o new.csv", "missing.koel");
    folder.refused("join p.csv missing.csv -o new.csv", "missing.csv");
    folder.refused("unique missing.csv -o new.csv", "missing.csv");
    folder.refused("groupby missing.csv -o new.csv", "missing.csv");
    assert_eq!(folder.bytes("old.csv"), b"old");
    assert!(!folder.path("new.csv").exists());
}

#[cfg(unix)]
#[test]
fn links_stay_and_so_do_modes() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = with_inputs();
    fs::create_dir(folder.path("deep")).unwrap();
    symlink("deep/real", folder.path("link")).unwrap();
    let mode = |name: &str| folder.path(name).metadata().unwrap().permissions().mode() & 0o777;
    for arguments in ["build p.csv -o link --device cpu", "lookup t.koel q.csv -o link --device cpu"] {
        folder.ok(arguments);
        assert!(folder.path("link").symlink_metadata().unwrap().is_symlink());
        assert_eq!(mode("link"), mode("p.csv"));
        fs::set_permissions(folder.path("link"), fs::Permissions::from_mode(0o600)).unwrap();
        folder.ok(arguments);
        assert_eq!(mode("link"), 0o600);
        assert_eq!(fs::read_dir(folder.path("deep")).unwrap().count(), 1);
        fs::remove_file(folder.path("deep/real")).unwrap();
    }
}

/// Limits files to this number of blocks of 512 bytes. SIGXFSZ is ignored, so that a write beyond them is an error.
#[cfg(unix)]
fn with_small_files(folder: &Folder, blocks: u32, arguments: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")).arg(crate::PROGRAM);
    shell.args(arguments.split_whitespace()).current_dir(folder.path("")).stdin(Stdio::null());
    shell
}

#[cfg(unix)]
#[test]
fn a_write_that_fails_in_the_middle_leaves_the_old_file() {
    let folder = with_inputs();
    let rows: Vec<String> = (0..30_000).map(|key| format!("{key},{key}")).collect();
    folder.file("large.csv", rows.join("\n"));
    fs::copy(folder.path("t.koel"), folder.path("old")).unwrap();
    std::os::unix::fs::symlink("old", folder.path("link")).unwrap();
    let before = (folder.bytes("old"), fs::read_dir(folder.path("")).unwrap().count());
    for name in ["old", "link", "new"] {
        for arguments in [
            format!("build large.csv -o {name} --device cpu"),
            format!("build large.csv -o {name} --device cpu --table multi"),
            format!("lookup t.koel large.csv -o {name} --device cpu"),
            format!("unique large.csv -o {name} --device cpu"),
        ] {
            for setting in ["on", "off"] {
                let mut command = with_small_files(&folder, 8, &arguments);
                let output = command.env("KOEL_UNNAMED_FILES", setting).output().unwrap();
                assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
                assert!(stderr(&output).starts_with(&format!("koel: {name}: ")), "{}", stderr(&output));
                let after = (folder.bytes("old"), fs::read_dir(folder.path("")).unwrap().count());
                assert!(after == before, "{arguments}: {} files and {}", before.1, after.1);
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_cannot_be_written_is_an_error() {
    let folder = with_inputs();
    for arguments in [
        "",
        "--help",
        "--version",
        "build --help",
        "lookup -h",
        "devices",
        "info t.koel",
        "info t.koel --json",
        "build p.csv -o new.koel --device cpu",
        "build p.csv -o new.koel --device cpu --json",
        "lookup t.koel q.csv --device cpu",
        "unique p.csv --device cpu",
        "groupby p.csv --device cpu",
        "join p.csv q.csv --device cpu",
        "unique p.csv -o new.csv --json --device cpu",
        "verify --n 100 --device cpu --scheme cuckoo",
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("koel: stdout: "), "{arguments}: {}", stderr(&output));
    }
    // The first block can be written.
    let rows: Vec<String> = (0..30_000).map(|key| key.to_string()).collect();
    folder.file("large.csv", rows.join("\n"));
    for arguments in ["--help", "unique large.csv --device cpu", "lookup t.koel large.csv --device cpu"] {
        let stdout = fs::File::create(folder.path("stdout")).unwrap();
        let output = with_small_files(&folder, 1, arguments).stdout(stdout).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("koel: stdout: "), "{arguments}: {}", stderr(&output));
        assert_eq!(fs::metadata(folder.path("stdout")).unwrap().len(), 512, "{arguments}");
    }
}

#[cfg(unix)]
#[test]
fn stdout_has_only_the_table_or_the_rows() {
    let folder = with_inputs();
    let table = folder.bytes("t.koel");
    for name in ["/dev/stdout", "/dev/fd/1"] {
        let build = format!("build p.csv -o {name} --device cpu");
        // Stdout is a pipe.
        let output = folder.koel(&build);
        assert!(output.status.success() && output.stdout == table, "{}", stderr(&output));
        assert!(stderr(&output).contains("digest"), "{}", stderr(&output));
        // Stdout is a file to which the table is appended.
        let stdout = folder.path("stdout");
        fs::write(&stdout, "before").unwrap();
        let append = fs::OpenOptions::new().append(true).open(&stdout).unwrap();
        let status = folder.command(&build).stdout(append).stderr(Stdio::null()).status().unwrap();
        assert!(status.success());
        assert_eq!(fs::read(&stdout).unwrap(), [b"before", &table[..]].concat());
        let rows = folder.ok(&format!("lookup t.koel q.csv -o {name} --device cpu"));
        assert_eq!(rows, "key,value\n6,60\n9,\n");

        folder.refused(&format!("{build} --json"), "--json");
        folder.refused(&format!("unique p.csv -o {name} --json --device cpu"), "--json");
        folder.refused(&format!("unique p.csv -o u.csv --inverse {name} --json --device cpu"), "--inverse /dev/");
        assert!(!folder.path("u.csv").exists());
        let ids = folder.ok(&format!("unique p.csv -o u.csv --inverse {name} --device cpu"));
        assert_eq!(ids, "id\n0\n1\n2\n");
        fs::remove_file(folder.path("u.csv")).unwrap();
    }
    // The output is given by the name of the file to which stdout is redirected.
    let out = fs::File::create(folder.path("same.koel")).unwrap();
    let output = folder.command("build p.csv -o same.koel --device cpu").stdout(out).output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("digest"), "{}", stderr(&output));
    assert_eq!(folder.bytes("same.koel"), table);
}

#[cfg(unix)]
#[test]
fn tables_are_written_to_pipes_that_readers_may_close() {
    let folder = with_inputs();
    assert!(Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap().success());
    let mut build = folder.command("build p.csv -o pipe --device cpu").stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(folder.bytes("pipe"), folder.bytes("t.koel"));
    assert!(build.wait().unwrap().success());

    let rows: Vec<String> = (0..100_000).map(|key| format!("{key},{key}")).collect();
    folder.file("large.csv", rows.join("\n"));
    let mut build = folder.command("build large.csv -o pipe --device cpu").stderr(Stdio::piped()).spawn().unwrap();
    drop(fs::File::open(folder.path("pipe")).unwrap());
    assert_eq!(build.wait().unwrap().code(), Some(0));
}

/// Root has write permission everywhere, so this runs the command as an unprivileged user.
#[cfg(unix)]
#[test]
fn errors_name_files_and_folders_without_write_permission() {
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let folder = with_inputs();
    let mode = |name: &str, mode| fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
    for name in ["closed", "sticky", "open"] {
        fs::create_dir(folder.path(name)).unwrap();
        fs::write(folder.path(&format!("{name}/old")), "old").unwrap();
    }
    let root = folder.path("").metadata().unwrap().uid() == 0;
    mode("", 0o755);
    mode("closed", 0o555);
    mode("sticky", 0o1777);
    mode("open", 0o777);
    mode("closed/old", 0o666);
    mode("sticky/old", 0o666);
    mode("open/old", 0o444);
    if root {
        chown(folder.path("open"), Some(NOBODY), Some(NOBODY)).unwrap();
        chown(folder.path("open/old"), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let run = |arguments: &str| {
        let mut command = folder.command(arguments);
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output()
    };
    if let Err(error) = run("--version") {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: files without write permission: the user `nobody` cannot run koel: {error}"
        );
        return;
    }
    let mut cases = vec![
        ("closed/old", "a temporary file to replace it cannot be created"),
        ("closed/new", "a temporary file to replace it cannot be created"),
        ("open/old", "a file that cannot be written is not replaced"),
    ];
    if root {
        cases.push(("sticky/old", "it cannot be given its name"));
    }
    for (name, part) in cases {
        let output = run(&format!("build p.csv -o {name} --device cpu")).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(part) && stderr(&output).contains(name), "{}", stderr(&output));
    }
    for name in ["closed", "sticky", "open"] {
        assert_eq!(fs::read_dir(folder.path(name)).unwrap().count(), 1, "{name}");
        assert_eq!(folder.bytes(&format!("{name}/old")), b"old");
    }
}
