//! Positions of files that are gone: which of them are removed, and when.
//!
//! The time runs while the file is seen to be gone. If that cannot be known (a folder that cannot be read, a file system that is not
//! mounted, a file that cannot be identified), it starts anew, and so it does with the source.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::tail::FileId;

/// Longest pause between two looks.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(3600);

/// See the module.
pub(super) struct Vanished {
    after: Duration,
    looked_at: Option<Instant>,
    /// When each partition was first seen to have no file.
    since: HashMap<String, Instant>,
}

/// What is known of the files of a source.
#[derive(Debug, Default)]
pub(super) struct Present {
    /// Whether every folder could be read.
    pub(super) is_complete: bool,
    /// Devices of the files, and of the folders that the patterns start in.
    pub(super) devices: HashSet<u64>,
    /// Partitions of the files, without their generations.
    pub(super) partitions: HashSet<String>,
    /// Files whose partitions are not known.
    pub(super) unidentified: HashSet<FileId>,
}

impl Vanished {
    pub(super) fn new(after: Duration) -> Self {
        Self {
            after,
            looked_at: None,
            since: HashMap::new(),
        }
    }

    /// Whether it is time to look again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let every = LOOK_EVERY_MAX.min(self.after / 4);
        self.looked_at
            .is_none_or(|at| now.saturating_duration_since(at) >= every)
    }

    /// Returns those of the source's partitions whose files have been gone long enough.
    pub(super) fn look(&mut self, partitions: Vec<String>, present: &Present, now: Instant) -> Vec<String> {
        self.looked_at = Some(now);
        let before = std::mem::take(&mut self.since);
        if !present.is_complete {
            return Vec::new();
        }
        let mut gone = Vec::new();
        for partition in partitions {
            let Some((id, name)) = parts_of(&partition) else {
                continue;
            };
            let is_known = present.devices.contains(&id.device) && !present.unidentified.contains(&id);
            if !is_known || present.partitions.contains(name) {
                continue;
            }
            let since = before.get(&partition).copied().unwrap_or(now);
            if now.saturating_duration_since(since) >= self.after {
                gone.push(partition.clone());
            }
            // Until it is removed.
            self.since.insert(partition, since);
        }
        gone
    }
}

/// Returns the file of a partition, and its name without the generation; `None`: it is no partition of a file.
pub(super) fn parts_of(partition: &str) -> Option<(FileId, &str)> {
    let (name, generation) = partition.rsplit_once(':')?;
    let mut parts = name.split(':');
    let (device, inode, checksum) = (parts.next()?, parts.next()?, parts.next()?);
    let id = FileId {
        device: device.parse().ok()?,
        inode: inode.parse().ok()?,
    };
    let is_name = parts.next().is_none() && checksum.len() == 8 && generation.parse::<u32>().is_ok();
    is_name.then_some((id, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn present(partitions: &[&str]) -> Present {
        Present {
            is_complete: true,
            devices: HashSet::from([1]),
            partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
            unidentified: HashSet::new(),
        }
    }

    #[test]
    fn a_position_is_removed_when_its_file_has_been_gone_for_the_time() {
        let mut vanished = Vanished::new(DAY * 7);
        let start = Instant::now();
        let all = || {
            ["1:10:0000000a:0", "1:10:0000000a:1", "1:11:0000000b:0"]
                .map(str::to_owned)
                .to_vec()
        };
        let mut look = |day: u32, present: &Present| vanished.look(all(), present, start + DAY * day);
        let other = present(&["1:11:0000000b"]);
        assert!(look(0, &other).is_empty());
        assert!(look(6, &other).is_empty());
        assert_eq!(look(7, &other), ["1:10:0000000a:0", "1:10:0000000a:1"]);
        // It came back in between.
        assert!(look(8, &present(&["1:11:0000000b", "1:10:0000000a"])).is_empty());
        assert!(look(14, &other).is_empty());
        assert_eq!(look(21, &other).len(), 2);
        // The same file with another content: the partition of the first content is gone.
        let rewritten = present(&["1:10:0000000c", "1:11:0000000b"]);
        assert_eq!(look(30, &rewritten).len(), 2);
    }

    #[test]
    fn what_is_not_known_stays() {
        let start = Instant::now();
        let check = |partition: &str, change: fn(&mut Present), expect: usize| {
            let mut vanished = Vanished::new(DAY * 7);
            let mut present = present(&[]);
            let mut look =
                |day: u32, present: &Present| vanished.look(vec![partition.to_owned()], present, start + DAY * day);
            assert!(look(0, &present).is_empty());
            change(&mut present);
            assert!(look(5, &present).is_empty());
            assert_eq!(look(8, &present).len(), expect, "{partition}");
        };
        check("1:10:0000000a:0", |_| {}, 1);
        check("1:10:0000000a:0", |present| present.is_complete = false, 0);
        check("1:10:0000000a:0", |present| present.devices.clear(), 0);
        check(
            "1:10:0000000a:0",
            |present| {
                present.unidentified.insert(FileId { device: 1, inode: 10 });
            },
            0,
        );
        // Partitions that are not of files.
        for other in [
            "numbers/0",
            "1:10:0000000a",
            "1:10:a:0",
            "1:10:0000000a:0#alerts",
            "1:x:0000000a:0",
        ] {
            check(other, |_| {}, 0);
        }
        // An interruption starts the time anew.
        let mut vanished = Vanished::new(DAY * 7);
        let mut look = |day: u32, is_complete: bool| {
            let present = Present {
                is_complete,
                ..present(&[])
            };
            vanished
                .look(vec!["1:10:0000000a:0".to_owned()], &present, start + DAY * day)
                .len()
        };
        assert_eq!(
            [
                look(0, true),
                look(6, false),
                look(7, true),
                look(13, true),
                look(14, true)
            ],
            [0, 0, 0, 0, 1]
        );
    }

    #[test]
    fn looks_are_rare() {
        let mut vanished = Vanished::new(DAY * 7);
        let start = Instant::now();
        assert!(vanished.is_due(start));
        vanished.look(Vec::new(), &present(&[]), start);
        assert!(!vanished.is_due(start + LOOK_EVERY_MAX / 2) && vanished.is_due(start + LOOK_EVERY_MAX));
    }
}
