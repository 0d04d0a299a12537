//! Workers as processes: this test program, started again with a role.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use koel_cluster::{ballista, distributed};

/// The variable with the role of a process and its arguments, separated by blanks.
const PART: &str = "KOEL_CLUSTER_PART";

/// A process of a cluster. It ends when this value is dropped, or with the test at the latest, because its input ends
/// then.
pub(crate) struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub(crate) fn begin(part: &str, opencl: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "process::part", "--ignored", "--nocapture"]).env(PART, part);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if !opencl {
            command.env("KOEL_OPENCL", "off");
        }
        let mut child = command.spawn().expect("a process");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (output, all) = (child.stdout.take().expect("its output"), Arc::clone(&lines));
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                all.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Process { child, lines }
    }

    /// The lines that it has printed.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The text that it prints after these words; waits for them.
    pub(crate) fn said(&self, words: &str) -> String {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if let Some(rest) = self.lines().iter().find_map(|line| Some(line.split_once(words)?.1.to_owned())) {
                return rest;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("a process never said {words:?}: {:?}", self.lines());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Not a test: runs the process that [`Process::begin`] starts.
#[test]
#[ignore = "a process of a cluster, which tests begin"]
fn part() {
    let Ok(part) = std::env::var(PART) else { return };
    thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    let runtime = runtime();
    let task = runtime.spawn(async move {
        match part.split(' ').collect::<Vec<_>>()[..] {
            ["worker"] => {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                println!("a worker at port {}", listener.local_addr()?.port());
                distributed::worker(listener).await
            }
            ["executor", port, scheduler, folder] => {
                let number = |text: &str| text.parse().expect("a port");
                ballista::executor(number(port), number(scheduler), 1, Path::new(folder)).await
            }
            _ => panic!("no such part: {part}"),
        }
    });
    runtime.block_on(task).expect("no panic").expect("a process that is ended, and does not end");
}

/// A port that is not in use: outside of the ephemeral range, and each is returned only once.
pub(crate) fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() + TRIED.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (number % 10_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// With stacks for deep plans, which are decoded recursively by functions that are not optimised.
pub(crate) fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).thread_stack_size(32 << 20).enable_all().build().expect("a runtime")
}
