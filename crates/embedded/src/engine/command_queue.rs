//! Queue of commands that wait for the catalog, which stores a batch of them in one transaction.
//!
//! A transaction waits for the disk. Commands that arrive meanwhile form the next batch and wait for one sync
//! instead of one each (group commit). Each command is still applied separately, in order of arrival.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use firn_model::metadata::{EmbeddedCommand, Outcome};
use firn_model::{Error, Result};
use parking_lot::Mutex;

use super::commands::ClosingIndex;

/// Maximum commands in one transaction: enough that the sync no longer dominates.
const BATCH_MAX: usize = 256;

/// Result of a command, and the indices whose shards must be ended because of it.
pub(super) type Answer = Result<(Outcome, Vec<ClosingIndex>)>;

/// Commands that no thread has taken yet, oldest first.
#[derive(Default)]
pub(crate) struct CommandQueue {
    waiting: Arc<Mutex<Vec<Waiting>>>,
    next_id: AtomicU64,
}

/// Command and the channel to its caller.
pub(super) struct Waiting {
    id: u64,
    pub(super) command: EmbeddedCommand,
    answer: SyncSender<Answer>,
}

impl Waiting {
    /// Sends the result to the caller.
    pub(super) fn answer(self, answer: Answer) {
        // The channel has space for one result; the caller may be gone.
        let _ = self.answer.try_send(answer);
    }
}

/// Position in the queue. Dropping it withdraws the command if no thread has taken it yet.
pub(super) struct Queued {
    id: u64,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    answer: Receiver<Answer>,
}

impl CommandQueue {
    /// Appends a command.
    pub(super) fn push(&self, command: EmbeddedCommand) -> Queued {
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

    /// Takes the oldest commands, at most [`BATCH_MAX`].
    pub(super) fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }
}

impl Queued {
    /// Returns the result; `None`: the command is still queued or being executed.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answer.try_recv().ok()
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.waiting.lock().retain(|waiting| waiting.id != self.id);
    }
}

/// Returns the error for a command whose executing thread ended without a result.
pub(super) fn forgotten() -> Error {
    Error::internal("the command failed because of a bug, see the log")
}

#[cfg(test)]
mod tests {
    use firn_model::metadata::Command;

    use super::*;

    fn command(name: &str) -> EmbeddedCommand {
        Command::CreateDataStream { name: name.to_owned() }.into()
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
    fn a_command_whose_caller_left_is_withdrawn() {
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
