//! Queues of indices with due lifecycle work, one for each lane.
//!
//! Finding due indices never waits for a free worker, so slow work delays only its lane. The queues are FIFO: an index
//! that fails repeatedly goes to the end each time, and does not delay the others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{Lane, WaitEnd};

/// Waiting indices of both lanes. An index waits at most once in a lane, so their number is bounded by that of the
/// indices.
#[derive(Debug)]
pub struct WorkQueue {
    light: Waiting,
    heavy: Waiting,
}

#[derive(Debug)]
struct Waiting {
    lane: Lane,
    names: VecDeque<String>,
    /// Occasion of each waiting index.
    occasions: HashMap<String, WaitEnd>,
    /// Its reference count shows the number of turns in progress.
    place: Arc<()>,
    places: usize,
}

/// Turn of an index; it occupies a worker until it is dropped.
#[derive(Debug)]
pub struct QueuedIndex {
    /// The index.
    pub index: String,
    /// Lane of the work.
    pub lane: Lane,
    /// Reason for the check.
    pub occasion: WaitEnd,
    _place: Arc<()>,
}

impl WorkQueue {
    /// Creates empty queues; the arguments are the concurrent turns of each lane.
    pub fn new(light: usize, heavy: usize) -> Self {
        Self {
            light: Waiting::new(Lane::Light, light),
            heavy: Waiting::new(Lane::Heavy, heavy),
        }
    }

    /// Appends an index to the queue; an index that already waits keeps its place.
    pub fn come(&mut self, index: String, lane: Lane, occasion: WaitEnd) {
        match lane {
            Lane::Light => self.light.come(index, occasion),
            Lane::Heavy => self.heavy.come(index, occasion),
        }
    }

    /// Returns the next turn of a lane with a free worker.
    pub fn next_turn(&mut self) -> Option<QueuedIndex> {
        self.light.next_turn().or_else(|| self.heavy.next_turn())
    }
}

impl Waiting {
    fn new(lane: Lane, places: usize) -> Self {
        Self {
            lane,
            names: VecDeque::new(),
            occasions: HashMap::new(),
            place: Arc::default(),
            places,
        }
    }

    fn come(&mut self, index: String, occasion: WaitEnd) {
        match self.occasions.get_mut(&index) {
            // An index that waits because of a poll keeps that occasion.
            Some(known) if *known == WaitEnd::Between => *known = occasion,
            Some(_) => {}
            None => {
                self.names.push_back(index.clone());
                self.occasions.insert(index, occasion);
            }
        }
    }

    fn next_turn(&mut self) -> Option<QueuedIndex> {
        if Arc::strong_count(&self.place) > self.places {
            return None;
        }
        let index = self.names.pop_front()?;
        let occasion = self.occasions.remove(&index).unwrap_or(WaitEnd::Between);
        Some(QueuedIndex {
            index,
            lane: self.lane,
            occasion,
            _place: Arc::clone(&self.place),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(turns: &[QueuedIndex]) -> Vec<&str> {
        turns.iter().map(|turn| turn.index.as_str()).collect()
    }

    #[test]
    fn slow_work_in_one_lane_does_not_delay_the_other() {
        let mut turns = WorkQueue::new(2, 1);
        for name in ["a", "b", "c"] {
            turns.come(name.to_owned(), Lane::Heavy, WaitEnd::Between);
            turns.come(format!("light-{name}"), Lane::Light, WaitEnd::Between);
        }
        let mut taken: Vec<QueuedIndex> = std::iter::from_fn(|| turns.next_turn()).collect();
        assert_eq!(names(&taken), ["light-a", "light-b", "a"]);
        assert!(turns.next_turn().is_none());
        taken.remove(0);
        assert_eq!(turns.next_turn().unwrap().index, "light-c");
    }

    #[test]
    fn an_index_that_is_always_due_does_not_starve_the_others() {
        let mut turns = WorkQueue::new(1, 2);
        let mut seen = Vec::new();
        for _ in 0..3 {
            // In the order of their names, as due indices are found.
            for name in ["a", "b", "y", "z"] {
                turns.come(name.to_owned(), Lane::Heavy, WaitEnd::Between);
            }
            let taken: Vec<QueuedIndex> = std::iter::from_fn(|| turns.next_turn()).collect();
            seen.extend(names(&taken).into_iter().map(str::to_owned));
        }
        assert_eq!(seen, ["a", "b", "y", "z", "a", "b"]);
    }

    #[test]
    fn a_look_that_had_to_wait_is_still_taken() {
        let mut turns = WorkQueue::new(1, 1);
        turns.come("a".to_owned(), Lane::Heavy, WaitEnd::Poll);
        turns.come("a".to_owned(), Lane::Heavy, WaitEnd::Between);
        assert_eq!(turns.next_turn().unwrap().occasion, WaitEnd::Poll);
        assert!(turns.next_turn().is_none(), "it waited once");
    }
}
