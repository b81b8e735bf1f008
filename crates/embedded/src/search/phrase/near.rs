//! A phrase with slop in one document.
//!
//! Finds and counts what Tantivy's `PhraseScorer` does: one list of positions after the other, the rarest first, is put
//! together with what was found so far, and moves add up. Lucene's count differs (see the compatibility page).

use std::mem::swap;

use firn_model::Result;
use tantivy::postings::Postings;

use super::super::guard::LastingPace;
use super::{OCCURRENCES_UNCOUNTED, Word};

/// A position with its moves, twice while they are put in order.
const FOUND_BYTES: usize = 16;
/// So many positions are kept as Tantivy keeps them, which finds some again and again: where many words are near many, they
/// would become more with every word, by as much as there are moves. More are kept once each.
const FOUND_AGAIN_MAX: usize = 4096;

/// Finds words that are near their places.
pub(super) struct Near {
    slop: u32,
    /// How far each place is before the end of the phrase, with the word there among the scorer's; the rarest first.
    places: Vec<(u32, usize)>,
    /// Positions of those of the words that have several places, once they are read: no word is without.
    read: Vec<Vec<u32>>,
    left: Found,
    /// The next `left`, while it is made.
    next: Found,
    right: Vec<u32>,
}

/// Positions, mostly ascending, and the moves so far of each; none were made where those are missing.
#[derive(Default)]
struct Found {
    positions: Vec<u32>,
    moves: Vec<u32>,
    /// Positions for which memory is taken.
    room: usize,
    /// When there are so many, each is kept once.
    limit: usize,
}

impl Found {
    fn clear(&mut self) {
        self.positions.clear();
        self.moves.clear();
        self.limit = FOUND_AGAIN_MAX;
    }

    /// Adds a position, or fewer moves to the last one.
    fn push(&mut self, moves: u32, position: u32, pace: &mut LastingPace) -> Result<()> {
        pace.step(1)?;
        if let (Some(last), Some(fewest)) = (self.positions.last(), self.moves.last_mut())
            && *last == position
        {
            *fewest = moves.min(*fewest);
            return Ok(());
        }
        if self.positions.len() >= self.limit {
            self.keep_once(pace)?;
        }
        if self.positions.len() >= self.room {
            let more = self.room.max(OCCURRENCES_UNCOUNTED);
            pace.take(more * FOUND_BYTES)?;
            self.room += more;
        }
        self.positions.push(position);
        self.moves.push(moves);
        Ok(())
    }

    /// Keeps each position once, with the fewest moves, ascending.
    fn keep_once(&mut self, pace: &mut LastingPace) -> Result<()> {
        pace.step(self.positions.len())?;
        let mut found: Vec<(u32, u32)> = self.positions.drain(..).zip(self.moves.drain(..)).collect();
        found.sort_unstable();
        found.dedup_by_key(|(position, _)| *position);
        (self.positions, self.moves) = found.into_iter().unzip();
        self.limit = (2 * self.positions.len()).max(FOUND_AGAIN_MAX + 1);
        Ok(())
    }

    fn moves(&self, number: usize) -> u32 {
        self.moves.get(number).copied().unwrap_or(0)
    }
}

impl Near {
    pub(super) fn new(places: &[(u32, usize)], words: &[Word], slop: u32) -> Self {
        let last = places.last().map_or(0, |(place, _)| *place);
        let mut opened = vec![0; words.len()];
        for (index, word) in words.iter().enumerate() {
            opened[word.number] = index;
        }
        let shift = |&(place, number): &(u32, usize)| (last - place, opened[number]);
        let mut places: Vec<_> = places.iter().map(shift).collect();
        places.sort_by_key(|&(_, word)| words[word].postings.doc_freq());
        Self {
            slop,
            places,
            read: vec![Vec::new(); words.len()],
            left: Found::default(),
            next: Found::default(),
            right: Vec::new(),
        }
    }

    /// How often words, all on the same document, are the phrase there; without `counting`, whether they are.
    pub(super) fn count(&mut self, words: &mut [Word], counting: bool, pace: &mut LastingPace) -> Result<u32> {
        self.read.iter_mut().for_each(Vec::clear);
        self.left.clear();
        let last = self.places.len() - 1;
        for number in 0..=last {
            self.read_place(number, words, pace)?;
            if number == 0 {
                swap(&mut self.left.positions, &mut self.right);
            } else if number < last {
                self.join(pace)?;
                if self.left.positions.is_empty() {
                    return Ok(0);
                }
            }
        }
        match (counting, last) {
            (true, 1) => self.count_pairs(pace),
            (true, _) => self.join(pace),
            (false, _) => Ok(u32::from(self.are_near())),
        }
    }

    /// Reads the positions of a place's word to `right`, moved to the end of the phrase.
    fn read_place(&mut self, number: usize, words: &mut [Word], pace: &mut LastingPace) -> Result<()> {
        let (shift, at) = self.places[number];
        let word = &mut words[at];
        if word.places.len() == 1 {
            word.postings.positions_with_offset(shift, &mut self.right);
            return Ok(());
        }
        let read = &mut self.read[at];
        if read.is_empty() {
            word.postings.positions(read);
        }
        pace.step(1 + read.len() / super::OCCURRENCES_PER_STEP)?;
        self.right.clear();
        self.right.extend(read.iter().map(|position| position + shift));
        Ok(())
    }

    /// Puts `right` together with what was found so far, and says how often they met. Of two that meet, both go on: which
    /// one fits better is for the next to tell.
    fn join(&mut self, pace: &mut LastingPace) -> Result<u32> {
        let Self {
            slop,
            left,
            next,
            right,
            ..
        } = self;
        next.clear();
        let mut count = 0;
        let (mut at_left, mut at_right) = (0, 0);
        while at_left < left.positions.len() && at_right < right.len() {
            pace.step(1)?;
            let (from, to, before) = (left.positions[at_left], right[at_right], left.moves(at_left));
            let moves = before.saturating_add(from.abs_diff(to));
            if moves > *slop {
                match from < to {
                    true => at_left += 1,
                    false => at_right += 1,
                }
                continue;
            }
            let (smaller, larger, rest) = match from < to {
                true => (from, to, &left.positions[at_left + 1..]),
                false => (to, from, &right[at_right + 1..]),
            };
            next.push(moves, smaller, pace)?;
            let mut fewest = moves;
            for &closer in rest.iter().take_while(|&&closer| closer <= larger) {
                fewest = before.saturating_add(larger - closer);
                next.push(fewest, closer, pace)?;
            }
            next.push(fewest, larger, pace)?;
            count += 1;
            at_left += 1;
            at_right += 1;
        }
        if at_left >= left.positions.len() {
            let last = left.positions.len().saturating_sub(1);
            if let Some(&from) = left.positions.last() {
                for &to in &right[at_right..] {
                    pace.step(1)?;
                    let moves = left.moves(last).saturating_add(from.abs_diff(to));
                    if moves <= *slop {
                        next.push(moves, to, pace)?;
                    }
                }
            }
        } else if let Some(&to) = right.last() {
            for number in at_left..left.positions.len() {
                pace.step(1)?;
                let from = left.positions[number];
                let moves = left.moves(number).saturating_add(from.abs_diff(to));
                if moves <= *slop {
                    next.push(moves, from, pace)?;
                }
            }
        }
        // Some were, so that all are to be.
        if next.limit > FOUND_AGAIN_MAX {
            next.keep_once(pace)?;
        }
        swap(left, next);
        Ok(count)
    }

    /// How often two words are near each other; none counts twice.
    fn count_pairs(&self, pace: &mut LastingPace) -> Result<u32> {
        let (left, right) = (&self.left.positions, &self.right);
        let mut count = 0;
        let (mut at_left, mut at_right) = (0, 0);
        while at_left < left.len() && at_right < right.len() {
            pace.step(1)?;
            let (from, to) = (left[at_left], right[at_right]);
            if from.abs_diff(to) <= self.slop {
                // The last one before `to` is the nearest.
                while left.get(at_left + 1).is_some_and(|&closer| closer <= to) {
                    at_left += 1;
                }
                count += 1;
                at_left += 1;
                at_right += 1;
            } else if from < to {
                at_left += 1;
            } else {
                at_right += 1;
            }
        }
        Ok(count)
    }

    /// Whether the last word is near anything found so far.
    fn are_near(&self) -> bool {
        let (left, right) = (&self.left.positions, &self.right);
        let (mut at_left, mut at_right) = (0, 0);
        while at_left < left.len() && at_right < right.len() {
            let (from, to) = (left[at_left], right[at_right]);
            if from.abs_diff(to) <= self.slop {
                return true;
            }
            at_left += usize::from(from < to);
            at_right += usize::from(to < from);
        }
        false
    }
}
