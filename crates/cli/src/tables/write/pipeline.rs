//! Runs tasks on all threads of the pool; one thread writes their results in order, while the caller makes the rows of
//! the next tasks.
//!
//! ```text
//! caller   push(task)      waits if too many are unwritten
//! pool     task -> result  in any order
//! writer   result -> file  in the order of the tasks
//! ```

use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Unwritten, guarded};

/// Tasks with results of type `T`, which are written to a `W`.
pub(super) struct Pipeline<T, W> {
    /// The result of each task, until the last task was pushed.
    results: Option<Sender<Receiver<Result<T, Unwritten>>>>,
    /// Receives a message for each result that was written.
    written: Receiver<()>,
    writer: Option<JoinHandle<Result<W, Unwritten>>>,
    unwritten: usize,
    at_once: usize,
}

impl<T: Send + 'static, W: Send + 'static> Pipeline<T, W> {
    /// Creates a pipeline with at most `at_once` unwritten results, but at least one. `write` writes a result to `to`.
    pub(super) fn new(
        at_once: usize,
        mut to: W,
        mut write: impl FnMut(&mut W, T) -> Result<(), Unwritten> + Send + 'static,
    ) -> Result<Self, Unwritten> {
        let (results, of_tasks) = channel::<Receiver<Result<T, Unwritten>>>();
        let (is_written, written) = channel();
        let all = move || {
            for result in of_tasks {
                let result = result.recv().map_err(|_| ended_early())??;
                guarded(|| write(&mut to, result))?;
                // The caller may have returned early because of an error.
                let _ = is_written.send(());
            }
            Ok(to)
        };
        let writer = thread::Builder::new().name("koel-writer".into()).spawn(all)?;
        Ok(Pipeline { results: Some(results), written, writer: Some(writer), unwritten: 0, at_once: at_once.max(1) })
    }

    /// Starts a task. Waits for earlier results if too many are unwritten.
    pub(super) fn push(
        &mut self,
        task: impl FnOnce() -> Result<T, Unwritten> + Send + 'static,
    ) -> Result<(), Unwritten> {
        self.wait(self.at_once - 1)?;
        let (send, result) = sync_channel(1);
        if self.results.as_ref().is_none_or(|results| results.send(result).is_err()) {
            return Err(self.end().err().unwrap_or_else(ended_early));
        }
        self.unwritten += 1;
        rayon::spawn(move || {
            // After an error, no one receives the result.
            let _ = send.send(guarded(task));
        });
        Ok(())
    }

    /// Waits until at most `left` results are unwritten.
    pub(super) fn wait(&mut self, left: usize) -> Result<(), Unwritten> {
        while self.unwritten > left {
            if wait_for(&self.written).is_err() {
                return Err(self.end().err().unwrap_or_else(ended_early));
            }
            self.unwritten -= 1;
        }
        Ok(())
    }

    /// Waits until all results are written.
    pub(super) fn finish(mut self) -> Result<W, Unwritten> {
        self.wait(0)?;
        self.end()
    }

    /// Waits for the writer thread, and returns its result.
    fn end(&mut self) -> Result<W, Unwritten> {
        self.results = None;
        self.writer.take().and_then(|writer| writer.join().ok()).unwrap_or_else(|| Err(ended_early()))
    }
}

fn ended_early() -> Unwritten {
    Unwritten::Because("a thread ended early".into())
}

/// Waits for the next message. A thread of the pool runs tasks while it waits, because it may be the only one.
fn wait_for(messages: &Receiver<()>) -> Result<(), RecvError> {
    if rayon::current_thread_index().is_none() {
        return messages.recv();
    }
    loop {
        let has_run = rayon::yield_now() == Some(rayon::Yield::Executed);
        match messages.recv_timeout(Duration::from_micros(if has_run { 0 } else { 100 })) {
            Ok(()) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
            Err(RecvTimeoutError::Timeout) => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(at_once: usize) -> Result<Pipeline<usize, Vec<usize>>, Unwritten> {
        Pipeline::new(at_once, Vec::new(), |all, number| match number {
            13 => Err(Unwritten::Because("13".into())),
            _ => {
                all.push(number);
                Ok(())
            }
        })
    }

    #[test]
    fn results_are_written_in_order() {
        let run = |at_once| {
            let mut pipeline = numbers(at_once)?;
            for number in 100..200 {
                pipeline.push(move || {
                    thread::sleep(std::time::Duration::from_micros(number as u64 % 7 * 50));
                    Ok(number)
                })?;
            }
            pipeline.finish()
        };
        for at_once in [1, 3, 50] {
            assert!(run(at_once).is_ok_and(|all| all == (100..200).collect::<Vec<_>>()));
            // Called from the only thread of a pool.
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
            assert!(alone.install(|| run(at_once)).is_ok_and(|all| all.len() == 100));
        }
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let tasks: [fn(usize) -> Result<usize, Unwritten>; 3] = [
            Ok,
            |number| if number == 13 { panic!("at 13") } else { Ok(number) },
            |number| {
                if number == 13 { Err(Unwritten::Because("task 13".into())) } else { Ok(number) }
            },
        ];
        for (task, expected) in tasks.into_iter().zip(["13", "at 13", "task 13"]) {
            let run = || {
                let mut pipeline = numbers(4)?;
                for number in 0..100 {
                    pipeline.push(move || task(number))?;
                }
                pipeline.finish()
            };
            assert!(matches!(run(), Err(Unwritten::Because(why)) if why.contains(expected)), "{expected}");
        }
    }
}
