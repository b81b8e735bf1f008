//! A phrase with slop in one document, as Lucene's `SloppyPhraseMatcher` finds and counts it.
//!
//! Each place of the phrase is put to an occurrence of its word; so many moves as those are farther from each other than the
//! places are is the length of the match, which is `slop` at most. The place that is left behind goes on to the next
//! occurrence, again and again, so that each goes once through those of its word. Places of the same word never share an
//! occurrence, and stand in the order of the phrase: in another one they are no closer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use firn_model::Result;
use tantivy::postings::Postings;

use super::super::guard::LastingPace;
use super::Word;

/// What a place of a phrase takes here, in the queue as well.
pub(super) const PLACE_BYTES: usize = 64;

/// Finds words that are near their places.
pub(super) struct Near {
    slop: u32,
    /// In the order of the phrase.
    places: Vec<Place>,
    /// Positions of the words in the document at hand, one word after the other.
    positions: Vec<u32>,
    /// Where those of each word are.
    of_words: Vec<Range<usize>>,
    /// Places, the one that is left behind first and of several the first in the phrase, each with where it stood when it
    /// came here: it may have gone on since.
    queue: BinaryHeap<Reverse<(u32, usize)>>,
    /// Where the place stands that is farthest on.
    end: u32,
}

/// A place of the phrase.
struct Place {
    /// How far it is before the end of the phrase.
    shift: u32,
    /// Its word among the scorer's.
    word: usize,
    /// How many places of the same word are before it.
    before: usize,
    /// The next place of the same word.
    next: Option<usize>,
    /// Its occurrence among the positions of all words.
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

    /// How often words, all on the same document, are the phrase there: a match counts the less the longer it is. Without
    /// `counting` it is the first one alone that counts.
    pub(super) fn count(&mut self, words: &mut [Word], counting: bool, pace: &mut LastingPace) -> Result<f32> {
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

    /// Puts all places to the first occurrences; false: some word is not there as often as in the phrase.
    fn start(&mut self, words: &mut [Word], pace: &mut LastingPace) -> Result<bool> {
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

    /// The length of the next match. As long as a place that goes on stays behind all others it is the same match, which
    /// becomes shorter.
    fn next_match(&mut self, pace: &mut LastingPace) -> Result<Option<u32>> {
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
        // No other match has a place for this one.
        self.queue.clear();
        Ok(Some(length).filter(|length| *length <= self.slop))
    }

    /// Puts a place to the next occurrence of its word, and each other whose occurrence is taken by that; false: there are no
    /// more.
    fn go_on(&mut self, mut number: usize, pace: &mut LastingPace) -> Result<bool> {
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

    /// Where the place stands that is left behind, of those in the queue.
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

    /// Takes that place out of the queue.
    fn take_first(&mut self) -> Option<(u32, usize)> {
        self.first()?;
        self.queue.pop().map(|Reverse(first)| first)
    }
}

impl Place {
    /// Where it stands, moved to the end of the phrase.
    fn stands(&self, positions: &[u32]) -> u32 {
        positions[self.at].saturating_add(self.shift)
    }
}
