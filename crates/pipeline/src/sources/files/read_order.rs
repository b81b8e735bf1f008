//! Order in which the files of a source are read.
//!
//! A file that was read to its end once is current: programs write to it now, and its few new lines are read in each pass. The other
//! files wait in a queue that is read for a limited time in each pass, so that thousands of new or large files delay no current one.

use std::cmp::Reverse;
use std::time::Instant;

use super::tail::{FileId, Stamp};

/// A file with lines that may not have been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct DueFile {
    pub(super) id: FileId,
    pub(super) is_current: bool,
    /// Since when it waits.
    pub(super) since: Instant,
    pub(super) stamp: Stamp,
}

/// Returns the current files, and the others in the order of the queue: the longest waiting first, of those the most recently changed.
pub(super) fn read_order(due: impl Iterator<Item = DueFile>) -> (Vec<FileId>, Vec<FileId>) {
    let (mut current, mut queue): (Vec<DueFile>, Vec<DueFile>) = due.partition(|file| file.is_current);
    current.sort_unstable_by_key(|file| file.id);
    queue.sort_unstable_by_key(|file| (file.since, Reverse(file.stamp.changed), file.id));
    let ids = |files: Vec<DueFile>| files.into_iter().map(|file| file.id).collect();
    (ids(current), ids(queue))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn current_files_come_first_and_the_others_wait_in_turn() {
        let start = Instant::now();
        let file = |inode: u64, is_current: bool, since_ms: u64, changed: i64| DueFile {
            id: FileId { device: 1, inode },
            is_current,
            since: start + Duration::from_millis(since_ms),
            stamp: Stamp {
                length: 7,
                changed: (changed, 0),
            },
        };
        let due = [
            file(1, false, 20, 1),
            file(2, false, 10, 1),
            file(3, true, 30, 1),
            file(4, false, 10, 5),
            file(5, true, 0, 1),
        ];
        let inodes = |ids: Vec<FileId>| ids.into_iter().map(|id| id.inode).collect::<Vec<_>>();
        let (current, queue) = read_order(due.into_iter());
        assert_eq!((inodes(current), inodes(queue)), (vec![3, 5], vec![4, 2, 1]));
    }
}
