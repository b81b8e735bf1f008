//! Tests of phrases: comparison with Tantivy's phrases and, with slop, with Lucene's rule; cancellation.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use firn_engine::RequestContext;
use firn_model::ErrorKind;
use firn_query::Cancel;
use tantivy::query::{EnableScoring, PhraseQuery, Query as _};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, Searcher, TantivyDocument};

use super::*;
use crate::compile::limits::Deadline;
use crate::run::memory::Memory;

/// Texts in one segment.
struct Texts {
    field: Field,
    searcher: Searcher,
}

impl Texts {
    fn new(texts: &[String]) -> Self {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("whitespace")
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let field = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
        let mut writer = Index::builder()
            .schema(schema.build())
            .single_segment_index_writer::<TantivyDocument>(tantivy::directory::RamDirectory::default(), 15_000_000)
            .unwrap();
        for text in texts {
            let mut document = TantivyDocument::default();
            document.add_text(field, text);
            writer.add_document(document).unwrap();
        }
        let searcher = writer.finalize().unwrap().reader().unwrap().searcher();
        Self { field, searcher }
    }

    fn reader(&self) -> &SegmentReader {
        self.searcher.segment_reader(0)
    }

    /// Builds a phrase, with Tantivy's scores if requested.
    fn phrase(&self, words: &[(usize, &str)], slop: u32, scoring: bool, stop: &Stop) -> Phrase {
        let terms = words
            .iter()
            .map(|(place, word)| (*place as u32, Term::from_field_text(self.field, word)));
        let phrase = Phrase::new(terms, slop, stop);
        if !scoring {
            return phrase;
        }
        let all: Vec<_> = words
            .iter()
            .map(|(_, word)| Term::from_field_text(self.field, word))
            .collect();
        let norms = self.reader().get_fieldnorms_reader(self.field).unwrap();
        phrase.scored(Scores {
            bm25: Bm25Weight::for_terms(&self.searcher, &all).unwrap(),
            norms: Some(Arc::new(HashMap::from([(self.reader().segment_id(), norms)]))),
        })
    }

    fn of_tantivy(&self, words: &[(usize, &str)], scoring: bool) -> Box<dyn Weight> {
        let terms = words
            .iter()
            .map(|(place, word)| (*place, Term::from_field_text(self.field, word)))
            .collect();
        let scoring = match scoring {
            true => EnableScoring::enabled_from_searcher(&self.searcher),
            false => EnableScoring::disabled_from_searcher(&self.searcher),
        };
        PhraseQuery::new_with_offset(terms).weight(scoring).unwrap()
    }
}

fn unbounded() -> Stop {
    stop_of(&RequestContext::new(), None, u64::MAX)
}

fn stop_of(ctx: &RequestContext, timeout: Option<Duration>, bytes: u64) -> Stop {
    let deadline = Deadline::new(ctx, timeout, false);
    Stop::new(ctx, deadline, &Memory::new(bytes, None, Cancel::default()))
}

/// Returns all documents with their scores.
fn read(mut scorer: Box<dyn Scorer>) -> Vec<(DocId, Score)> {
    let mut all = Vec::new();
    while scorer.doc() != TERMINATED {
        all.push((scorer.doc(), scorer.score()));
        scorer.advance();
    }
    assert_eq!(scorer.advance(), TERMINATED);
    all
}

/// Returns all documents, found by one query per document.
fn found_one_by_one(mut scorer: Box<dyn Scorer>, step: DocId, max_doc: DocId) -> Vec<DocId> {
    let mut all = Vec::new();
    let mut doc = 0;
    while doc < max_doc {
        match scorer.seek_danger(doc) {
            SeekDangerResult::Found => {
                assert_eq!(scorer.doc(), doc);
                all.push(doc);
            }
            SeekDangerResult::SeekLowerBound(next) => assert!(next > doc),
        }
        doc += step;
    }
    all
}

/// A small random generator with a seed, so that a failure can be reproduced.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn finds_and_scores_as_tantivy_does() {
    const WORDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    for seed in 1..=12u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kinds = 1 + numbers.below(WORDS.len() as u64);
        let texts: Vec<String> = (0..40)
            .map(|_| {
                // Some texts are long enough for the comparison with bits.
                let length = match numbers.below(8) {
                    0 => 300 + numbers.below(900),
                    _ => numbers.below(14),
                };
                let run = 1 + numbers.below(40);
                let mut words = Vec::new();
                while (words.len() as u64) < length {
                    let word = WORDS[numbers.below(kinds) as usize];
                    (0..1 + numbers.below(run)).for_each(|_| words.push(word));
                }
                words.join(" ")
            })
            .collect();
        let texts = Texts::new(&texts);
        for _ in 0..15 {
            let length = match numbers.below(4) {
                0 => 2 + numbers.below(90),
                _ => 2 + numbers.below(3),
            };
            let run = 1 + numbers.below(30);
            let mut words: Vec<(usize, &str)> = Vec::new();
            let mut place = 0;
            while (words.len() as u64) < length {
                let word = WORDS[numbers.below(kinds) as usize];
                for _ in 0..1 + numbers.below(run) {
                    words.push((place, word));
                    place += 1 + usize::from(numbers.below(9) == 0);
                }
            }
            for scoring in [false, true] {
                let what = format!("seed {seed}: {words:?}, scoring {scoring}");
                let phrase = texts.phrase(&words, 0, scoring, &unbounded());
                let open = || phrase.scorer(texts.reader(), 1.5).unwrap();
                let wanted = read(texts.of_tantivy(&words, scoring).scorer(texts.reader(), 1.5).unwrap());
                assert_eq!(read(open()), wanted, "{what}");
                for step in [1, 3] {
                    let wanted: Vec<_> = wanted
                        .iter()
                        .map(|(doc, _)| *doc)
                        .filter(|doc| doc % step == 0)
                        .collect();
                    assert_eq!(found_one_by_one(open(), step, 40), wanted, "{what} by steps of {step}");
                }
            }
        }
    }
}

/// Returns the shortest length of a match over all assignments of words to distinct occurrences; `None`: there is
/// none.
fn shortest(text: &[&str], words: &[(usize, &str)]) -> Option<u64> {
    fn place(text: &[&str], words: &[(usize, &str)], taken: &mut Vec<usize>) -> Option<u64> {
        let Some((_, word)) = words.get(taken.len()) else {
            let starts = || {
                words
                    .iter()
                    .zip(&*taken)
                    .map(|((place, _), at)| *at as i64 - *place as i64)
            };
            return Some(starts().max()?.abs_diff(starts().min()?));
        };
        let mut shortest = None;
        for at in (0..text.len()).filter(|at| text[*at] == *word) {
            if !taken.contains(&at) {
                taken.push(at);
                let length = place(text, words, taken);
                shortest = shortest.into_iter().chain(length).min();
                taken.pop();
            }
        }
        shortest
    }
    place(text, words, &mut Vec::new())
}

#[test]
fn finds_what_is_no_longer_than_the_slop() {
    const WORDS: [&str; 4] = ["a", "b", "c", "d"];
    let mut found = 0;
    for seed in 1..=30u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kinds = 2 + numbers.below(WORDS.len() as u64 - 1);
        let texts: Vec<Vec<&str>> = (0..40)
            .map(|_| {
                let length = 1 + numbers.below(11);
                (0..length).map(|_| WORDS[numbers.below(kinds) as usize]).collect()
            })
            .collect();
        let index = Texts::new(&texts.iter().map(|text| text.join(" ")).collect::<Vec<_>>());
        for _ in 0..20 {
            let mut place = 0;
            let words: Vec<(usize, &str)> = (0..2 + numbers.below(4))
                .map(|_| {
                    let word = (place, WORDS[numbers.below(kinds) as usize]);
                    place += 1 + usize::from(numbers.below(5) == 0);
                    word
                })
                .collect();
            let slop = 1 + numbers.below(7) as u32;
            let is_near =
                |doc: &DocId| shortest(&texts[*doc as usize], &words).is_some_and(|length| length <= u64::from(slop));
            let wanted: Vec<DocId> = (0..40).filter(is_near).collect();
            found += wanted.len();
            for scoring in [false, true] {
                let what = format!("seed {seed}: {words:?}~{slop}, scoring {scoring}");
                let phrase = index.phrase(&words, slop, scoring, &unbounded());
                let open = || phrase.scorer(index.reader(), 1.5).unwrap();
                let all = read(open());
                assert_eq!(all.iter().map(|(doc, _)| *doc).collect::<Vec<_>>(), wanted, "{what}");
                assert!(all.iter().all(|(_, score)| *score > 0.0), "{what}: {all:?}");
                for step in [1, 3] {
                    let wanted: Vec<DocId> = wanted.iter().copied().filter(|doc| doc % step == 0).collect();
                    assert_eq!(found_one_by_one(open(), step, 40), wanted, "{what} by steps of {step}");
                }
            }
        }
    }
    assert!(found > 3000, "{found}");
}

/// Lucene sums 1 / (1 + length) over the matches.
#[test]
fn counts_matches_as_lucene_does() {
    let check = |text: &str, words: &str, slop: u32, wanted: f64| {
        let texts = Texts::new(&[text.to_owned()]);
        let words: Vec<(usize, &str)> = words.split(' ').enumerate().collect();
        let what = format!("{words:?}~{slop} in {text:?}");
        let phrase = texts.phrase(&words, slop, true, &unbounded());
        let unscored = texts.phrase(&words, slop, false, &unbounded());
        let found = read(phrase.scorer(texts.reader(), 1.0).unwrap());
        let is_found = !read(unscored.scorer(texts.reader(), 1.0).unwrap()).is_empty();
        assert_eq!(is_found, wanted > 0.0, "{what}");
        let Some((_, score)) = found.first() else {
            assert!(wanted == 0.0, "{what}");
            return;
        };
        // The text has the mean length, so the score is the weight times count / (count + 1.2).
        let norms = texts.reader().get_fieldnorms_reader(texts.field).unwrap();
        let bm25 = &phrase.scores.as_ref().unwrap().bm25;
        let weight = f64::from(bm25.score(norms.fieldnorm_id(0), 1)) * 2.2;
        let wanted = weight * wanted / (wanted + 1.2);
        let off = (f64::from(*score) / wanted - 1.0).abs();
        assert!(off < 1e-5, "{what}: {score} is not {wanted}");
    };
    check("a b", "a b", 2, 1.0);
    check("b a", "a b", 1, 0.0);
    check("b a", "a b", 2, 1.0 / 3.0);
    check("a x b", "a b", 1, 0.5);
    check("a x x b", "a b", 1, 0.0);
    check("a b c", "a b c", 1, 1.0);
    check("a x b x c", "a b c", 1, 0.0);
    check("a x b x c", "a b c", 2, 1.0 / 3.0);
    check("a x x b x x c", "a b c", 3, 0.0);
    check("a x x b x x c", "a b c", 4, 0.2);
    check("c b a", "a b c", 3, 0.0);
    check("c b a", "a b c", 4, 0.2);
    check("a c b", "a b c", 2, 1.0 / 3.0);
    // Of the rearmost occurrences the nearest one counts.
    check("a a b", "a b", 1, 1.0);
    check("a b a b", "a b", 1, 2.0);
    check("a b c a b c", "a b c", 1, 2.0);
    check("a b c a b c", "a b c", 3, 2.25);
    // Each place needs a separate occurrence.
    check("a b", "a b a", 5, 0.0);
    check("a b a", "a b a", 1, 1.0);
    check("a x a", "a a", 1, 0.5);
    check("a a a", "a a", 1, 2.0);
    check("a", "a a", 9, 0.0);
    check("b a a", "a b a", 1, 0.0);
    check("b a a", "a b a", 2, 1.0 / 3.0);
}

/// Returns "a" `count` times.
fn long(count: usize) -> Vec<(usize, &'static str)> {
    (0..count).map(|place| (place, "a")).collect()
}

#[test]
fn many_equal_words_take_one_list_and_little_time() {
    let texts = Texts::new(&["a ".repeat(300_000)]);
    let stop = stop_of(&RequestContext::new(), None, 16 << 20);
    for scoring in [false, true] {
        let started = Instant::now();
        let phrase = texts.phrase(&long(2000), 0, scoring, &stop);
        assert_eq!(read(phrase.scorer(texts.reader(), 1.0).unwrap()).len(), 1);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
    assert!(stop.take(16 << 20).is_ok(), "all memory is released");
}

#[test]
fn stops_inside_a_document() {
    let texts = Texts::new(&["a b ".repeat(150_000)]);
    let half = |place: usize| (place, if place.is_multiple_of(2) { "a" } else { "b" });
    let words: Vec<_> = (0..60_000).map(half).collect();
    for slop in [0, 3, 1_000_000] {
        let ctx = RequestContext::new();
        let stop = stop_of(&ctx, Some(Duration::from_millis(200)), u64::MAX);
        let started = Instant::now();
        let phrase = texts.phrase(&words, slop, true, &stop);
        let error = phrase
            .scorer(texts.reader(), 1.0)
            .err()
            .map(firn_segment::columns::column::failed);
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Timeout), "{slop}");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());

        let ctx = RequestContext::new();
        ctx.cancel.cancel();
        let phrase = texts.phrase(&words, slop, true, &stop_of(&ctx, None, u64::MAX));
        let error = phrase
            .scorer(texts.reader(), 1.0)
            .err()
            .map(firn_segment::columns::column::failed);
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Cancelled), "{slop}");
    }
}

#[test]
fn positions_of_a_long_document_are_counted_as_memory() {
    let texts = Texts::new(&["a ".repeat(300_000)]);
    let stop = stop_of(&RequestContext::new(), None, 1 << 20);
    let phrase = texts.phrase(&long(2), 0, false, &stop);
    let error = phrase
        .scorer(texts.reader(), 1.0)
        .err()
        .map(firn_segment::columns::column::failed);
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::CircuitBreaking));
}

/// Tantivy stores the same findings repeatedly and takes gigabytes for this. Here, memory is bounded by the
/// positions.
#[test]
fn a_wide_slop_takes_little() {
    let texts = Texts::new(&["a ".repeat(1000) + &"b ".repeat(1000)]);
    let words: Vec<_> = (0..8).map(|place| (place, if place < 4 { "a" } else { "b" })).collect();
    for slop in [1500, 8, 0] {
        let stop = stop_of(&RequestContext::new(), None, 1 << 20);
        let phrase = texts.phrase(&words, slop, true, &stop);
        let started = Instant::now();
        let scorer = phrase.scorer(texts.reader(), 1.0).unwrap();
        assert_eq!(scorer.doc(), 0, "{slop}");
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        drop(scorer);
        assert!(stop.take(1 << 20).is_ok(), "all memory is released");
    }
}
