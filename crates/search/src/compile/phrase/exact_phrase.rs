//! Matcher of a phrase without slop in one document.

use firn_model::Result;
use tantivy::postings::Postings;

use super::Word;
use crate::compile::limits::OwnedPace;

/// Fewest places of a word in a phrase for comparing its positions as bits.
const DENSE_PLACES_MIN: usize = 4;
/// Up to this number, positions are compared one by one.
const DENSE_POSITIONS_MIN: usize = 256;
/// Positions per word of bits from which bits are both smaller and faster.
const DENSE_TIMES: usize = 4;
/// Words of bits, or pairs of positions, that are compared in one step of a [`OwnedPace`].
const COMPARED_PER_STEP: usize = 32;

/// Finder of the starts of a phrase. A start is a position of some word, shifted by the distance of the word to the
/// end of the phrase.
pub(super) struct Exact {
    /// The last place of the phrase.
    last_place: u32,
    starts: Vec<u32>,
    /// Positions of the current word.
    positions: Vec<u32>,
    start_bits: Vec<u64>,
    position_bits: Vec<u64>,
}

impl Exact {
    pub(super) fn new(places: &[(u32, usize)]) -> Self {
        Self {
            last_place: places.last().map_or(0, |(place, _)| *place),
            starts: Vec::new(),
            positions: Vec::new(),
            start_bits: Vec::new(),
            position_bits: Vec::new(),
        }
    }

    /// Counts the occurrences of the phrase in a document that has all words; without `counting`, returns whether
    /// there is one.
    pub(super) fn count(&mut self, words: &mut [Word], counting: bool, pace: &mut OwnedPace) -> Result<u32> {
        let last = words.len() - 1;
        for (number, word) in words.iter_mut().enumerate() {
            match (number, &word.places[..]) {
                (0, [place]) => {
                    let shift = self.last_place - place;
                    word.postings.positions_with_offset(shift, &mut self.starts);
                }
                (_, [place]) => {
                    let shift = self.last_place - place;
                    word.postings.positions_with_offset(shift, &mut self.positions);
                    if number == last {
                        return Ok(match counting {
                            true => count_common(&self.starts, &self.positions),
                            false => u32::from(have_common(&self.starts, &self.positions)),
                        });
                    }
                    keep_common(&mut self.starts, &self.positions, 0);
                }
                (0, [first, others @ ..]) => {
                    word.postings.positions(&mut self.positions);
                    let shift = self.last_place - first;
                    self.starts.clear();
                    self.starts
                        .extend(self.positions.iter().map(|position| position + shift));
                    self.keep_at(others, pace)?;
                }
                (_, places) => {
                    word.postings.positions(&mut self.positions);
                    self.keep_at(places, pace)?;
                }
            }
            if self.starts.is_empty() {
                return Ok(0);
            }
        }
        Ok(self.starts.len() as u32)
    }

    /// Retains the starts at which the current word is in all of some places.
    fn keep_at(&mut self, places: &[u32], pace: &mut OwnedPace) -> Result<()> {
        let compared = self.starts.len() + self.positions.len();
        let bits = self.positions.last().map_or(0, |last| last + self.last_place + 1);
        let width = bits.div_ceil(u64::BITS) as usize;
        if places.len() >= DENSE_PLACES_MIN && compared > DENSE_POSITIONS_MIN && compared > DENSE_TIMES * width {
            return self.keep_bits(places, width, pace);
        }
        for place in places {
            pace.step(1 + (self.starts.len() + self.positions.len()) / COMPARED_PER_STEP)?;
            keep_common(&mut self.starts, &self.positions, self.last_place - place);
            if self.starts.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Does the same for dense positions, with a bit for each position.
    fn keep_bits(&mut self, places: &[u32], width: usize, pace: &mut OwnedPace) -> Result<()> {
        for (bits, positions) in [
            (&mut self.start_bits, &self.starts),
            (&mut self.position_bits, &self.positions),
        ] {
            bits.clear();
            bits.resize(width, 0);
            for position in positions {
                if let Some(word) = bits.get_mut((position / u64::BITS) as usize) {
                    *word |= 1 << (position % u64::BITS);
                }
            }
        }
        for place in places {
            pace.step(1 + width / COMPARED_PER_STEP)?;
            if !keep_common_bits(&mut self.start_bits, &self.position_bits, self.last_place - place) {
                self.starts.clear();
                return Ok(());
            }
        }
        self.starts.clear();
        for (number, &word) in self.start_bits.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                self.starts.push(number as u32 * u64::BITS + left.trailing_zeros());
                left &= left - 1;
            }
        }
        Ok(())
    }
}

/// Retains those of `starts` that are in `positions` shifted by `shift`; both ascend.
fn keep_common(starts: &mut Vec<u32>, positions: &[u32], shift: u32) {
    let (mut retained, mut left, mut right) = (0, 0, 0);
    while left < starts.len() && right < positions.len() {
        let (start, position) = (starts[left], positions[right] + shift);
        if start == position {
            starts[retained] = start;
            retained += 1;
        }
        left += usize::from(start <= position);
        right += usize::from(position <= start);
    }
    starts.truncate(retained);
}

fn count_common(starts: &[u32], positions: &[u32]) -> u32 {
    let (mut count, mut left, mut right) = (0, 0, 0);
    while left < starts.len() && right < positions.len() {
        let (start, position) = (starts[left], positions[right]);
        count += u32::from(start == position);
        left += usize::from(start <= position);
        right += usize::from(position <= start);
    }
    count
}

fn have_common(starts: &[u32], positions: &[u32]) -> bool {
    let (mut left, mut right) = (0, 0);
    while left < starts.len() && right < positions.len() {
        let (start, position) = (starts[left], positions[right]);
        if start == position {
            return true;
        }
        left += usize::from(start < position);
        right += usize::from(position < start);
    }
    false
}

/// Retains the bits that `positions`, shifted up by `shift`, has too; returns whether any remain.
fn keep_common_bits(starts: &mut [u64], positions: &[u64], shift: u32) -> bool {
    let (whole, part) = ((shift / u64::BITS) as usize, shift % u64::BITS);
    if whole >= starts.len() {
        return false;
    }
    let (before, after) = starts.split_at_mut(whole);
    before.fill(0);
    let mut any = 0;
    let mut carried = 0;
    for (start, &position) in after.iter_mut().zip(positions) {
        *start &= (position << part) | carried;
        any |= *start;
        carried = position.checked_shr(u64::BITS - part).unwrap_or(0);
    }
    any != 0
}
