//! Whose turn it is: indices that need something wait in the lane of what they need.
//!
//! Nobody waits for a place where others are looked for, so whatever hangs holds up its own lane at most. First
//! come, first served: one that fails again and again goes to the end each time, and keeps nobody from a turn.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{Lane, Occasion};

/// Those that wait, in both lanes. An index waits once in a lane, so there are no more than indices.
#[derive(Debug)]
pub struct Turns {
    light: Waiting,
    heavy: Waiting,
}

#[derive(Debug)]
struct Waiting {
    lane: Lane,
    names: VecDeque<String>,
    /// What each of them came for.
    occasions: HashMap<String, Occasion>,
    /// As many copies are out as turns are being taken.
    place: Arc<()>,
    places: usize,
}

/// An index's turn, and its place until this is dropped.
#[derive(Debug)]
pub struct Turn {
    /// Whose.
    pub index: String,
    /// What it may do.
    pub lane: Lane,
    /// Why it came.
    pub occasion: Occasion,
    _place: Arc<()>,
}

impl Turns {
    /// Nobody waits yet; so many take turns at a time in each lane.
    pub fn new(light: usize, heavy: usize) -> Self {
        Self {
            light: Waiting::new(Lane::Light, light),
            heavy: Waiting::new(Lane::Heavy, heavy),
        }
    }

    /// An index comes, behind all that wait; one that waits already keeps its place.
    pub fn come(&mut self, index: String, lane: Lane, occasion: Occasion) {
        match lane {
            Lane::Light => self.light.come(index, occasion),
            Lane::Heavy => self.heavy.come(index, occasion),
        }
    }

    /// Whoever is first in a lane with a free place.
    pub fn next_turn(&mut self) -> Option<Turn> {
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

    fn come(&mut self, index: String, occasion: Occasion) {
        match self.occasions.get_mut(&index) {
            // Whoever came to look again still does, though that was a while ago.
            Some(known) if *known == Occasion::Between => *known = occasion,
            Some(_) => {}
            None => {
                self.names.push_back(index.clone());
                self.occasions.insert(index, occasion);
            }
        }
    }

    fn next_turn(&mut self) -> Option<Turn> {
        if Arc::strong_count(&self.place) > self.places {
            return None;
        }
        let index = self.names.pop_front()?;
        let occasion = self.occasions.remove(&index).unwrap_or(Occasion::Between);
        Some(Turn {
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

    fn names(turns: &[Turn]) -> Vec<&str> {
        turns.iter().map(|turn| turn.index.as_str()).collect()
    }

    #[test]
    fn what_hangs_in_one_lane_holds_up_nobody_in_the_other() {
        let mut turns = Turns::new(2, 1);
        for name in ["a", "b", "c"] {
            turns.come(name.to_owned(), Lane::Heavy, Occasion::Between);
            turns.come(format!("light-{name}"), Lane::Light, Occasion::Between);
        }
        let mut taken: Vec<Turn> = std::iter::from_fn(|| turns.next_turn()).collect();
        assert_eq!(names(&taken), ["light-a", "light-b", "a"]);
        assert!(turns.next_turn().is_none());
        taken.remove(0);
        assert_eq!(turns.next_turn().unwrap().index, "light-c");
    }

    #[test]
    fn who_comes_again_and_again_keeps_nobody_from_a_turn() {
        let mut turns = Turns::new(1, 2);
        let mut seen = Vec::new();
        for _ in 0..3 {
            // In the order of their names, as those that are due are found.
            for name in ["a", "b", "y", "z"] {
                turns.come(name.to_owned(), Lane::Heavy, Occasion::Between);
            }
            let taken: Vec<Turn> = std::iter::from_fn(|| turns.next_turn()).collect();
            seen.extend(names(&taken).into_iter().map(str::to_owned));
        }
        assert_eq!(seen, ["a", "b", "y", "z", "a", "b"]);
    }

    #[test]
    fn a_look_that_had_to_wait_is_still_taken() {
        let mut turns = Turns::new(1, 1);
        turns.come("a".to_owned(), Lane::Heavy, Occasion::Poll);
        turns.come("a".to_owned(), Lane::Heavy, Occasion::Between);
        assert_eq!(turns.next_turn().unwrap().occasion, Occasion::Poll);
        assert!(turns.next_turn().is_none(), "it waited once");
    }
}
