//! The `unified` highlighter, the default: passages of whole sentences (or words, or values) around matches. It
//! selects the best passages by a separate score and shows them in the order of the text.
//!
//! Follows Lucene's `FieldHighlighter` and `PassageScorer`, and the limits of Elasticsearch on sentences
//! (`BoundedBreakIteratorScanner`).

use std::cell::OnceCell;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use firn_model::Result;
use firn_query::search::{BoundaryScanner, HighlightOptions};

use super::boundaries;
use super::finder::{Finder, Match};
use super::text::{self, FieldText};
use crate::compile::limits::Pace;

/// Lucene's BM25 of passages: saturation, length normalization, and the pivot length at which both are neutral.
const K1: f64 = 1.2;
const B: f64 = 0.75;
const PIVOT: f64 = 87.0;

/// Returns the formatted passages of a text; empty if there are no matches.
pub(super) fn fragments(
    field: &FieldText,
    finder: &Finder,
    options: &HighlightOptions,
    pace: &Pace,
) -> Result<Vec<String>> {
    let matches = finder.matches(field, pace)?;
    let _tags = super::lend_tags(matches.len(), options, pace)?;
    let mut passages = best(field, &matches, finder.counts(), options, pace)?;
    if passages.is_empty() {
        passages.extend(start_of(field, options.no_match_size));
    }
    if options.by_score {
        passages.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    let shown = passages.iter().map(|passage| passage.print(field, &matches, options));
    Ok(shown.filter(|shown| !shown.is_empty()).collect())
}

/// A part of the text, and the matches in it.
struct Passage {
    start: usize,
    end: usize,
    matches: Range<usize>,
    score: f64,
}

/// Returns the best passages with matches, at most as many as requested, in the order of the text.
fn best(
    field: &FieldText,
    matches: &[Match],
    counted: bool,
    options: &HighlightOptions,
    pace: &Pace,
) -> Result<Vec<Passage>> {
    let most = match options.number_of_fragments {
        0 => field.values.len(),
        number => number,
    };
    let scorer = Scorer::new(field, matches, counted);
    let mut best: BinaryHeap<Reverse<Passage>> = BinaryHeap::new();
    let mut keep = |mut passage: Passage| {
        passage.score = scorer.score(&passage, matches);
        best.push(Reverse(passage));
        if best.len() > most {
            best.pop();
        }
    };
    let mut current: Option<Passage> = None;
    let mut breaks: Option<Breaks> = None;
    for (number, found) in matches.iter().enumerate() {
        pace.step(1)?;
        if let Some(passage) = &mut current
            && found.start < passage.end
        {
            passage.matches.end = number + 1;
            continue;
        }
        if let Some(passage) = current.take() {
            keep(passage);
        }
        let before = field.values.partition_point(|value| value.end <= found.start);
        let Some(value) = field.values.get(before).filter(|value| value.contains(&found.start)) else {
            continue;
        };
        let breaks = match &mut breaks {
            Some(breaks) if breaks.value == *value => breaks,
            other => {
                pace.step((value.end - value.start) / 4)?;
                other.insert(Breaks::new(field, value.clone(), options))
            }
        };
        let (start, end) = breaks.around(found.start);
        current = Some(Passage {
            start,
            end,
            matches: number..number + 1,
            score: 0.0,
        });
    }
    if let Some(passage) = current {
        keep(passage);
    }
    let mut passages: Vec<Passage> = best.into_iter().map(|Reverse(passage)| passage).collect();
    passages.sort_by_key(|passage| passage.start);
    Ok(passages)
}

/// Returns the first words of the first value.
fn start_of(field: &FieldText, size: usize) -> Option<Passage> {
    if size == 0 {
        return None;
    }
    let value = field.values.iter().find(|value| !value.is_empty())?;
    let mut end = value.end;
    if value.start + size < end {
        let words = boundaries::words(&field.chars, value.start, value.end);
        end = words
            .into_iter()
            .find(|&end| end > value.start + size)
            .unwrap_or(value.end);
    }
    Some(Passage {
        start: value.start,
        end,
        matches: 0..0,
        score: 0.0,
    })
}

/// Boundaries of passages in one value; call it with ascending places.
struct Breaks<'a> {
    field: &'a FieldText,
    value: Range<usize>,
    /// Ends of sentences, words, or of the value.
    ends: Vec<usize>,
    /// Longer passages are cut at words; `None`: no limit.
    length_max: Option<usize>,
    words: OnceCell<Vec<usize>>,
    /// The sentences around the last place.
    window: Range<usize>,
    /// The part of them in the last passage.
    inner: Range<usize>,
}

impl<'a> Breaks<'a> {
    fn new(field: &'a FieldText, value: Range<usize>, options: &HighlightOptions) -> Self {
        let whole = options.number_of_fragments == 0;
        let by_word = options.boundary_scanner == BoundaryScanner::Word;
        let ends = match (whole, by_word) {
            (true, _) => vec![value.end],
            (_, true) => boundaries::words(&field.chars, value.start, value.end),
            _ => boundaries::sentences(&field.chars, value.start, value.end),
        };
        Self {
            field,
            ends,
            length_max: (!whole && !by_word && options.fragment_size > 0).then_some(options.fragment_size),
            words: OnceCell::new(),
            window: 0..0,
            inner: 0..0,
            value,
        }
    }

    /// Returns the passage around a place.
    fn around(&mut self, place: usize) -> (usize, usize) {
        let Some(length_max) = self.length_max else {
            return (self.before(&self.ends, place + 1), self.after(&self.ends, place));
        };
        if self.window.start < place + 1 && place + 1 < self.window.end {
            // The rest of sentences that were too long for one passage.
            self.inner = self.inner.end..self.window.end;
        } else {
            let start = self.before(&self.ends, place + 1);
            let mut end = self.after(&self.ends, place);
            while end - start < length_max && end < self.value.end {
                let next = self.after(&self.ends, end);
                if next - start > length_max {
                    break;
                }
                end = next;
            }
            self.window = start..end;
            self.inner = start..end;
        }
        if self.inner.end - self.inner.start > length_max {
            self.shorten(place + 1, length_max);
        }
        (self.inner.start, self.inner.end)
    }

    /// Cuts the passage at words: as much text before the place as fits, and the rest of the limit after it.
    fn shorten(&mut self, place: usize, length_max: usize) {
        let words = self
            .words
            .get_or_init(|| boundaries::words(&self.field.chars, self.value.start, self.value.end));
        let mut inner = self.inner.clone();
        if place > inner.start + length_max {
            inner.start = inner.start.max(self.before(words, place - length_max));
        }
        let remaining = length_max.saturating_sub(place - inner.start);
        if place + remaining < self.window.end {
            inner.end = self.window.end.min(self.after(words, place + remaining));
        }
        self.inner = inner;
    }

    /// Returns the last break before a place.
    fn before(&self, ends: &[usize], place: usize) -> usize {
        let count = ends.partition_point(|&end| end < place);
        count.checked_sub(1).map_or(self.value.start, |last| ends[last])
    }

    /// Returns the first break after a place.
    fn after(&self, ends: &[usize], place: usize) -> usize {
        let count = ends.partition_point(|&end| end <= place);
        ends.get(count).copied().unwrap_or(self.value.end)
    }
}

/// Scorer of passages: many and rare terms, short passages and those near the start score higher.
struct Scorer {
    length: f64,
    /// Matches per term in the whole text; empty: one each.
    counts: HashMap<usize, usize>,
}

impl Scorer {
    fn new(field: &FieldText, matches: &[Match], counted: bool) -> Self {
        let mut counts = HashMap::new();
        if counted {
            for found in matches {
                *counts.entry(found.term).or_default() += 1;
            }
        }
        Self {
            length: field.len() as f64,
            counts,
        }
    }

    fn score(&self, passage: &Passage, matches: &[Match]) -> f64 {
        let mut inside: Vec<usize> = matches[passage.matches.clone()]
            .iter()
            .map(|found| found.term)
            .collect();
        inside.sort_unstable();
        let length = (passage.end - passage.start) as f64;
        let norm = K1 * ((1.0 - B) + B * (length / PIVOT));
        let documents = 1.0 + self.length / PIVOT;
        let mut score = 0.0;
        for group in inside.chunk_by(|a, b| a == b) {
            let count = self.counts.get(&group[0]).copied().unwrap_or(1) as f64;
            let weight = (K1 + 1.0) * (1.0 + (documents + 0.5) / (count + 0.5)).ln();
            let frequency = group.len() as f64;
            score += frequency / (frequency + norm) * weight;
        }
        score * (1.0 + 1.0 / (PIVOT + passage.start as f64).ln())
    }
}

impl Passage {
    fn print(&self, field: &FieldText, matches: &[Match], options: &HighlightOptions) -> String {
        let mut out = String::new();
        let mut at = self.start;
        for found in &matches[self.matches.clone()] {
            if found.start > at {
                text::push(&mut out, &field.chars[at..found.start], options.html);
            }
            if found.end > at {
                out.push_str(&options.pre_tag);
                text::push(&mut out, &field.chars[at.max(found.start)..found.end], options.html);
                out.push_str(&options.post_tag);
                at = found.end;
            }
        }
        text::push(&mut out, &field.chars[at..at.max(self.end)], options.html);
        out.trim_matches(|character| character <= ' ' || character == '\u{2029}')
            .to_owned()
    }
}

impl Ord for Passage {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.start.cmp(&other.start))
    }
}

impl PartialOrd for Passage {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Passage {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Passage {}
