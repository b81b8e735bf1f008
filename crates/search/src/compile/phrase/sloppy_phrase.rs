//! Matcher of a phrase with slop in one document; finds and counts matches like Lucene's `SloppyPhraseMatcher`.
//!
//! Each place of the phrase is assigned an occurrence of its word. The length of a match is the number of moves by
//! which the occurrences are farther apart than the places; it is at most `slop`. The rearmost place repeatedly
//! advances to its next occurrence, so that each place visits the occurrences of its word once. Places of the same
//! word never share an occurrence and keep the order of the phrase: another order brings them no closer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use firn_model::Result;
use tantivy::postings::Postings;

use super::Word;
use crate::compile::limits::OwnedPace;

/// Bytes of a place of a phrase in this matcher, including its queue entry.
pub(super) const PLACE_BYTES: usize = 64;

/// Matcher of words that are near their places.
pub(super) struct Near {
    slop: u32,
    /// In the order of the phrase.
    places: Vec<Place>,
    /// Positions of the words in the current document, one word after the other.
    positions: Vec<u32>,
    /// Range of each word in `positions`.
    of_words: Vec<Range<usize>>,
    /// Queue of places, the rearmost first, ties in the order of the phrase. Each entry has the position of its
    /// place at insertion: the place may have advanced since.
    queue: BinaryHeap<Reverse<(u32, usize)>>,
    /// Position of the foremost place.
    end: u32,
}

/// A place of the phrase.
struct Place {
    /// Distance to the end of the phrase.
    shift: u32,
    /// Number of its word in the scorer.
    word: usize,
    /// Number of earlier places with the same word.
    before: usize,
    /// The next place of the same word.
    next: Option<usize>,
    /// Index of its occurrence in the positions of all words.
    at: usize,
}

impl Near {
    pub(super) fn new(places: &[(u32, usize)], words: &[Word], slop: u32) -> Self {
        let last = places.last().map_or(0, |(place, _)| *place);
        let mut opened = vec![0; words.len()];
        for (index, word) in words.iter().enumerate() {
            opened[word.number] = index;
        }
        let mut own: Vec<Place> = Vec::with_capacity(places.len());
        let mut latest: Vec<Option<usize>> = vec![None; words.len()];
        for (number, &(place, word)) in places.iter().enumerate() {
            let before = latest[word].replace(number);
            if let Some(before) = before {
                own[before].next = Some(number);
            }
            own.push(Place {
                shift: last - place,
                word: opened[word],
                before: before.map_or(0, |before| own[before].before + 1),
                next: None,
                at: 0,
            });
        }
        Self {
            slop,
            places: own,
            positions: Vec::new(),
            of_words: vec![0..0; words.len()],
            queue: BinaryHeap::with_capacity(places.len()),
            end: 0,
        }
    }

    /// Counts the matches of the phrase in a document that has all words: the longer a match, the less it counts.
    /// Without `counting`, it stops after the first match.
    pub(super) fn count(&mut self, words: &mut [Word], counting: bool, pace: &mut OwnedPace) -> Result<f32> {
        let mut count = 0.0;
        if !self.start(words, pace)? {
            return Ok(count);
        }
        while let Some(length) = self.next_match(pace)? {
            count += 1.0 / (1.0 + length as f32);
            if !counting {
                break;
            }
        }
        Ok(count)
    }

    /// Sets all places to their first occurrences; returns false if some word occurs less often than in the phrase.
    fn start(&mut self, words: &mut [Word], pace: &mut OwnedPace) -> Result<bool> {
        let is_enough = |word: &Word| word.postings.term_freq() as usize >= word.places.len();
        if !words.iter().all(is_enough) {
            return Ok(false);
        }
        self.positions.clear();
        for (word, own) in words.iter_mut().zip(&mut self.of_words) {
            let start = self.positions.len();
            word.postings.append_positions_with_offset(0, &mut self.positions);
            *own = start..self.positions.len();
            if own.len() < word.places.len() {
                return Ok(false);
            }
        }
        pace.step(self.places.len())?;
        for place in &mut self.places {
            place.at = self.of_words[place.word].start + place.before;
        }
        self.queue.clear();
        let stands = |(number, place): (usize, &Place)| Reverse((place.stands(&self.positions), number));
        self.queue.extend(self.places.iter().enumerate().map(stands));
        let all = self.queue.iter().map(|Reverse((position, _))| *position);
        self.end = all.max().unwrap_or(0);
        Ok(true)
    }

    /// Returns the length of the next match. While the advanced place is still the rearmost, it is the same match,
    /// and becomes shorter.
    fn next_match(&mut self, pace: &mut OwnedPace) -> Result<Option<u32>> {
        let Some((mut from, mut number)) = self.take_first() else {
            return Ok(None);
        };
        let mut length = self.end - from;
        let mut next = self.first();
        while self.go_on(number, pace)? {
            let position = self.places[number].stands(&self.positions);
            if next.is_none_or(|next| position <= next) {
                length = length.min(self.end - position);
                continue;
            }
            self.queue.push(Reverse((position, number)));
            if length <= self.slop {
                return Ok(Some(length));
            }
            (from, number) = match self.take_first() {
                Some(first) => first,
                None => return Ok(None),
            };
            length = self.end - from;
            next = self.first();
        }
        // There is no further match: this place has no more occurrences.
        self.queue.clear();
        Ok(Some(length).filter(|length| *length <= self.slop))
    }

    /// Advances a place to the next occurrence of its word, and also each later place whose occurrence is taken by
    /// that; returns false if there are no more occurrences.
    fn go_on(&mut self, mut number: usize, pace: &mut OwnedPace) -> Result<bool> {
        loop {
            pace.step(1)?;
            let place = &mut self.places[number];
            place.at += 1;
            let (at, next) = (place.at, place.next);
            if at >= self.of_words[place.word].end {
                return Ok(false);
            }
            self.end = self.end.max(place.stands(&self.positions));
            match next {
                Some(next) if self.places[next].at == at => number = next,
                _ => return Ok(true),
            }
        }
    }

    /// Returns the position of the rearmost place in the queue.
    fn first(&mut self) -> Option<u32> {
        while let Some(mut first) = self.queue.peek_mut() {
            let Reverse((position, number)) = *first;
            let stands = self.places[number].stands(&self.positions);
            if stands == position {
                return Some(position);
            }
            *first = Reverse((stands, number));
        }
        None
    }

    /// Removes the rearmost place from the queue.
    fn take_first(&mut self) -> Option<(u32, usize)> {
        self.first()?;
        self.queue.pop().map(|Reverse(first)| first)
    }
}

impl Place {
    /// Returns its position, shifted to the end of the phrase.
    fn stands(&self, positions: &[u32]) -> u32 {
        positions[self.at].saturating_add(self.shift)
    }
}
