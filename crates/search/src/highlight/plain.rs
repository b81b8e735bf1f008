//! The `plain` highlighter: splits each value at tokens into fragments of about the requested size; those with the
//! most distinct terms come first.
//!
//! Follows Lucene's `Highlighter` with its `SimpleSpanFragmenter` and `SimpleFragmenter`.

use std::collections::HashSet;
use std::ops::Range;

use firn_model::Result;
use firn_query::search::HighlightOptions;

use super::finder::Finder;
use super::text::{self, FieldText, Token};
use crate::compile::limits::Pace;

struct Fragment {
    text: String,
    terms: HashSet<usize>,
}

/// Returns the formatted fragments of a text; empty if there are no matches.
pub(super) fn fragments(
    field: &FieldText,
    finder: &Finder,
    options: &HighlightOptions,
    pace: &Pace,
) -> Result<Vec<String>> {
    let found = finder.find(field, pace)?;
    let _tags = super::lend_tags(found.iter().flatten().count(), options, pace)?;
    let mut all: Vec<Fragment> = Vec::new();
    for value in &field.values {
        pace.step(1 + (value.end - value.start) / 4)?;
        let first = field.tokens.partition_point(|token| token.start < value.start);
        let last = field
            .tokens
            .partition_point(|token| token.start < value.end)
            .min(found.len());
        let mut fragments = of_value(field, value.clone(), first.min(last)..last, &found, options);
        fragments.retain(|fragment| !fragment.terms.is_empty());
        // The best of each value; ties in the order of the text.
        fragments.sort_by_key(|fragment| std::cmp::Reverse(fragment.terms.len()));
        fragments.truncate(options.number_of_fragments.max(1));
        all.extend(fragments);
    }
    if all.is_empty() {
        return Ok(start_of(field, options).into_iter().collect());
    }
    if options.by_score {
        all.sort_by_key(|fragment| std::cmp::Reverse(fragment.terms.len()));
    }
    if options.number_of_fragments > 0 {
        all.truncate(options.number_of_fragments);
    }
    Ok(all.into_iter().map(|fragment| fragment.text).collect())
}

/// Returns all fragments of one value, whose tokens are those at `tokens`.
fn of_value(
    field: &FieldText,
    value: Range<usize>,
    tokens: Range<usize>,
    found: &[Option<usize>],
    options: &HighlightOptions,
) -> Vec<Fragment> {
    let empty = || Fragment {
        text: String::new(),
        terms: HashSet::new(),
    };
    let mut fragments = Vec::new();
    let mut current = empty();
    let mut at = value.start;
    let length = value.end - value.start;
    for place in tokens.clone() {
        let token = &field.tokens[place];
        let end = token.end - value.start;
        if place > tokens.start && is_new(end, fragments.len() + 1, length, options) {
            fragments.push(std::mem::replace(&mut current, empty()));
        }
        text::push(&mut current.text, &field.chars[at..token.start.max(at)], options.html);
        at = at.max(token.start);
        let chars = &field.chars[at..token.end.max(at)];
        match found[place] {
            Some(term) => {
                current.terms.insert(term);
                current.text.push_str(&options.pre_tag);
                text::push(&mut current.text, chars, options.html);
                current.text.push_str(&options.post_tag);
            }
            None => text::push(&mut current.text, chars, options.html),
        }
        at = at.max(token.end);
    }
    text::push(&mut current.text, &field.chars[at..value.end], options.html);
    fragments.push(current);
    fragments
}

/// Returns whether a fragment starts with the token that ends at `end`, in a value of `length`.
fn is_new(end: usize, number: usize, length: usize, options: &HighlightOptions) -> bool {
    let size = options.fragment_size;
    if options.number_of_fragments == 0 || size == 0 {
        return false;
    }
    end >= size * number && (options.simple_fragmenter || length.saturating_sub(end) >= size / 2)
}

/// Returns whole tokens from the start of the first value.
fn start_of(field: &FieldText, options: &HighlightOptions) -> Option<String> {
    let size = options.no_match_size;
    let value = field.values.iter().find(|value| !value.is_empty())?;
    if size == 0 {
        return None;
    }
    let fits = |token: &&Token| token.start < value.end && token.end - value.start <= size;
    let end = field
        .tokens
        .iter()
        .filter(|token| token.start >= value.start)
        .take_while(fits)
        .last()?
        .end;
    let mut out = String::new();
    text::push(&mut out, &field.chars[value.start..end], options.html);
    Some(out)
}
