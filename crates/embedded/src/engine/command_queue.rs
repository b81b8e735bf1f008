//! Commands that wait for the catalog, which stores all of them in one transaction.
//!
//! A transaction waits for the disk. Whoever comes meanwhile would wait for one after the other; taken
//! together they wait for one. Each is still applied by itself, in the order in which they came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use firn_model::metadata::{Command, Outcome};
use firn_model::{Error, Result};
use parking_lot::Mutex;

use super::commands::Gone;

/// Commands of one transaction: enough that waiting for the disk no longer counts.
const BATCH_MAX: usize = 256;

/// What became of a command, and the indices whose shards are to be ended because of it.
pub(super) type Answer = Result<(Outcome, Vec<Gone>)>;

/// Commands that nobody has taken yet, oldest first.
#[derive(Default)]
pub(crate) struct CommandQueue {
    waiting: Arc<Mutex<Vec<Waiting>>>,
    next_id: AtomicU64,
}

/// A command and who waits for it.
pub(super) struct Waiting {
    id: u64,
    pub(super) command: Command,
    answer: SyncSender<Answer>,
}

impl Waiting {
    /// Tells who waits.
    pub(super) fn answer(self, answer: Answer) {
        // There is room for one, and who waits may have gone.
        let _ = self.answer.try_send(answer);
    }
}

/// A place in the queue. Dropping it takes the command back, if nobody has taken it yet.
pub(super) struct Queued {
    id: u64,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    answer: Receiver<Answer>,
}

impl CommandQueue {
    /// Puts a command at the end.
    pub(super) fn push(&self, command: Command) -> Queued {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(1);
        self.waiting.lock().push(Waiting {
            id,
            command,
            answer: sender,
        });
        Queued {
            id,
            waiting: Arc::clone(&self.waiting),
            answer: receiver,
        }
    }

    /// Takes the oldest, as many as one transaction has room for.
    pub(super) fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }
}

impl Queued {
    /// What became of it; `None`: nobody has taken it yet, or whoever did is still at it.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answer.try_recv().ok()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.waiting.lock().retain(|waiting| waiting.id != self.id);
    }
}

/// The answer of a command that was taken by someone who ended without one.
pub(super) fn forgotten() -> Error {
    Error::internal("the command failed by a bug, see the log")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str) -> Command {
        Command::CreateDataStream { name: name.to_owned() }
    }

    #[test]
    fn commands_are_taken_in_their_order_and_answered_each() {
        let queue = CommandQueue::default();
        let (first, second) = (queue.push(command("a")), queue.push(command("b")));
        assert!(first.answer().is_none());
        let mut taken = queue.take();
        assert_eq!(
            taken.iter().map(|one| one.command.clone()).collect::<Vec<_>>(),
            [command("a"), command("b")]
        );
        taken.remove(0).answer(Ok((Outcome::default(), Vec::new())));
        assert!(first.answer().is_some_and(|answer| answer.is_ok()));
        assert!(second.answer().is_none());
        assert!(queue.take().is_empty());
    }

    #[test]
    fn who_does_not_wait_any_more_has_not_asked() {
        let queue = CommandQueue::default();
        let (first, second) = (queue.push(command("a")), queue.push(command("b")));
        drop(first);
        let taken = queue.take();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].command, command("b"));
        drop(second);
        taken.into_iter().for_each(|one| one.answer(Err(forgotten())));
    }

    #[test]
    fn a_batch_is_bounded() {
        let queue = CommandQueue::default();
        let queued: Vec<_> = (0..BATCH_MAX + 5)
            .map(|n| queue.push(command(&n.to_string())))
            .collect();
        assert_eq!((queue.take().len(), queue.take().len()), (BATCH_MAX, 5));
        drop(queued);
    }
}
