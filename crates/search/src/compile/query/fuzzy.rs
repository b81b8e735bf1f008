//! `fuzzy` query: terms within some edits of a word.
//!
//! A Levenshtein automaton of the word walks the terms of every segment of the shard and skips ranges that cannot
//! match. The nearest terms over all segments count, so the answer does not depend on the distribution of documents
//! over segments.

use std::sync::LazyLock;

use firn_model::mapping::FieldType;
use firn_model::{Error, Result};
use firn_query::query::{Fuzzy, FuzzyTerm};
use firn_segment::columns::column::failed;
use firn_segment::columns::paths;
use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder, SINK_STATE};
use tantivy_fst::Automaton;

use super::super::field::{Field, Target};
use super::super::weight::Compiled;
use super::nearest_terms::Nearest;
use super::term::TermsOf;
use super::{expand, pattern, term};
use crate::compile::Compiler;
use crate::compile::limits::Walk;
use crate::tenancy::tenant_terms::OwnTerms;

/// Longer words are rejected: an automaton takes about ten kilobytes per character. Terms of text are never longer.
const WORD_CHARS_MAX: usize = 255;

/// Approximate bytes of an automaton per character of its word.
const CHARACTER_BYTES: usize = 20 << 10;

/// Builders by edits (1 and 2), without and with transpositions. They are created once: the second takes
/// milliseconds.
static AUTOMATA: [LazyLock<LevenshteinAutomatonBuilder>; 4] = [
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, false)),
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, true)),
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(2, false)),
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(2, true)),
];

pub(crate) fn compile(compiler: &Compiler, part: &FuzzyTerm) -> Result<Compiled> {
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => {
            return Err(Error::not_implemented(format!(
                "fuzzy on the metadata field [{meta:?}]"
            )));
        }
        Target::Field(field) => {
            let edits = part.fuzziness.edits(part.value.chars().count());
            on_field(
                compiler,
                &field,
                &term::normalized(&field, &part.value),
                edits,
                &part.fuzzy,
            )?
        }
    };
    Ok(compiled.boost(part.boost, compiler.scoring()))
}

/// Compiles to the documents with a term near a word.
pub(crate) fn on_field(compiler: &Compiler, field: &Field, word: &str, edits: u8, fuzzy: &Fuzzy) -> Result<Compiled> {
    pattern::check_strings(field, "fuzzy")?;
    let length = word.chars().count();
    if length > WORD_CHARS_MAX {
        return Err(Error::illegal_argument(format!(
            "a fuzzy word may have at most [{WORD_CHARS_MAX}] characters, got [{length}]"
        )));
    }
    let same = word
        .chars()
        .take(fuzzy.prefix_length as usize)
        .map(char::len_utf8)
        .sum();
    let (same, rest) = word.split_at(same);
    let scoring = compiler.scoring();
    if edits == 0 {
        return term::whole_value(compiler, field, word);
    }
    let builder = &AUTOMATA[usize::from(edits.min(2) - 1) * 2 + usize::from(fuzzy.transpositions)];
    // The automaton is dropped after its terms are found.
    let _lent = compiler.guard.stop.lend((rest.chars().count() + 1) * CHARACTER_BYTES)?;
    let dfa = builder.build_dfa(rest);
    if field.field_type == FieldType::ConstantKeyword {
        let constant = field.mapping.as_ref().and_then(|mapping| mapping.constant.as_deref());
        let hit = constant
            .and_then(|constant| constant.strip_prefix(same))
            .is_some_and(|constant| matches!(dfa.eval(constant), Distance::Exact(_)));
        return Ok(match hit {
            true => Compiled::All.constant(1.0, scoring),
            false => Compiled::None,
        });
    }
    let Some((terms, option)) = paths::term_field(field.class) else {
        return pattern::not_indexed(field);
    };
    let key_start = paths::key_prefix(terms, &field.path);
    let start = [key_start.as_slice(), same.as_bytes()].concat();
    let mut end = start.clone();
    end.push(u8::MAX);
    let rewrite = fuzzy.rewrite;
    let mut nearest = Nearest::new(expand::limit(rewrite).min(fuzzy.max_expansions as usize));
    let walker = Walker {
        start: &start,
        dfa,
        walk: compiler.guard.stop.walk(),
    };
    for segment in &compiler.snapshot.segments {
        let own = OwnTerms::new(segment, compiler.tenant)?;
        if own.has_none() {
            continue;
        }
        let index = segment.reader.inverted_index(terms).map_err(failed)?;
        let stream = index.terms().search(&walker).ge(&start).lt(&end).into_stream();
        let mut stream = stream.map_err(|error| failed(error.into()))?;
        while stream.advance() {
            let value = &stream.key()[key_start.len()..];
            let near = similarity(&walker.dfa, &value[same.len()..], value, length);
            nearest.add(value, near, || {
                own.contain(&index, stream.value(), &|| walker.walk.step())
            })?;
        }
        // A stopped walk ends like one without further terms.
        compiler.guard.stop.check()?;
    }
    expand::scored(
        compiler,
        &TermsOf {
            field: terms,
            option,
            path: &field.path,
        },
        nearest,
        rewrite,
    )
}

/// Returns the similarity of a term, like Lucene: 1 for the word itself, less with every edit, and still less for
/// short words.
fn similarity(dfa: &DFA, rest: &[u8], term: &[u8], length: usize) -> f32 {
    let edits = match dfa.eval(rest) {
        Distance::Exact(0) => return 1.0,
        Distance::Exact(edits) | Distance::AtLeast(edits) => edits,
    };
    let characters = std::str::from_utf8(term).map_or(term.len(), |term| term.chars().count());
    1.0 - f32::from(edits) / characters.min(length).max(1) as f32
}

/// An automaton over the keys of a dictionary: the literal prefix, then words near the rest.
struct Walker<'a> {
    start: &'a [u8],
    dfa: DFA,
    walk: Walk,
}

/// Marks states within the prefix; the other states are those of the automaton, which has far fewer.
const IN_START: u32 = 1 << 31;

impl Automaton for &Walker<'_> {
    type State = u32;

    fn start(&self) -> u32 {
        IN_START
    }

    fn is_match(&self, state: &u32) -> bool {
        *state & IN_START == 0 && matches!(self.dfa.distance(*state), Distance::Exact(_))
    }

    fn can_match(&self, state: &u32) -> bool {
        *state != SINK_STATE
    }

    fn accept(&self, state: &u32, byte: u8) -> u32 {
        // Every term and every block passes here, so that a long walk can be stopped.
        if self.walk.step().is_err() {
            return SINK_STATE;
        }
        if *state & IN_START == 0 {
            return self.dfa.transition(*state, byte);
        }
        let position = (*state & !IN_START) as usize;
        match self.start.get(position) {
            Some(expected) if *expected == byte && position + 1 == self.start.len() => self.dfa.initial_state(),
            Some(expected) if *expected == byte => IN_START | (position as u32 + 1),
            _ => SINK_STATE,
        }
    }
}
