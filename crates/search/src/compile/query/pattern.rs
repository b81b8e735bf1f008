//! Patterns over the terms of a field: wildcards, prefixes, regular expressions.
//!
//! Each pattern becomes an anchored regular expression of bounded size and a literal prefix of every match. The
//! terms with this prefix are read in order and tested; the test is linear in the length of the term for every
//! pattern. A wildcard without a literal prefix first searches the values of the column for its longest literal
//! piece.

use std::sync::Arc;

use firn_model::mapping::FieldType;
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::Rewrite;
use firn_segment::columns::column::{failed, into_tantivy};
use firn_segment::columns::{column, paths};
use firn_segment::schema::Class;
use firn_segment::splits::dry_run::or_later;
use tantivy::SegmentReader;

use super::super::field::Field;
use super::super::string_scan::Texts;
use super::super::weight::{ColumnWeight, Compiled, TermsWeight, Test};
use super::expand;
use super::matcher::Matcher;
use super::nearest_terms::Nearest;
use super::term::TermsOf;
use super::term_pattern::Pattern;
use crate::compile::Compiler;
use crate::compile::limits::{Stop, Walk};
use crate::highlight::highlight_terms::HighlightTerm;
use crate::tenancy::tenant_terms::OwnTerms;

/// Shorter pieces occur in too many values to help.
const PIECE_BYTES_MIN: usize = 2;
/// For more terms than this, reading all terms is faster than single lookups.
const LOOKUPS_MAX: usize = 1024;
/// Compiles to the documents with a matching term of a field, scored by `rewrite`.
pub(crate) fn rewritten(compiler: &Compiler, field: &Field, pattern: &Pattern, rewrite: Rewrite) -> Result<Compiled> {
    let Some((terms, option)) = paths::term_field(field.class) else {
        return Ok(on_field(compiler, field, pattern)?.constant(1.0, compiler.scoring()));
    };
    if rewrite == Rewrite::Constant || field.field_type == FieldType::ConstantKeyword {
        return Ok(on_field(compiler, field, pattern)?.constant(1.0, compiler.scoring()));
    }
    let matcher = pattern.compile(&compiler.guard.stop)?;
    mark(compiler, field, &pattern.prefix, &matcher);
    let start = paths::key_prefix(terms, &field.path);
    let from = [start.as_slice(), pattern.prefix.as_bytes()].concat();
    let walk = compiler.guard.stop.walk();
    let mut found = Nearest::new(expand::limit(rewrite));
    for segment in &compiler.snapshot.segments {
        let own = OwnTerms::new(segment, compiler.tenant)?;
        if own.has_none() {
            continue;
        }
        let index = segment.reader.inverted_index(terms).map_err(failed)?;
        let mut stream = index
            .terms()
            .range()
            .ge(&from)
            .lt(paths::end_of(&from))
            .into_stream()
            .map_err(|error| failed(error.into()))?;
        while stream.advance() && stream.key().starts_with(&from) {
            walk.step()?;
            let value = &stream.key()[start.len()..];
            let counts = || own.contain(&index, stream.value(), &|| walk.step());
            // All terms are equally near and ascend, so later ones are rejected too.
            if matcher.is_match(value) && !found.add(value, 1.0, counts)? {
                break;
            }
        }
    }
    let terms = TermsOf {
        field: terms,
        option,
        path: &field.path,
    };
    // The pattern is already marked; do not mark its terms.
    expand::scored(&compiler.unmarked(), &terms, found, rewrite)
}

/// A pattern without a literal prefix, but with a literal piece.
struct Inside {
    piece: String,
    class: Class,
    path: String,
}

impl Inside {
    /// `None`: it is better to read the terms one by one.
    fn of(field: &Field, pattern: &Pattern) -> Option<Self> {
        (pattern.prefix.is_empty() && pattern.piece.len() >= PIECE_BYTES_MIN).then(|| Self {
            piece: pattern.piece.clone(),
            class: field.class,
            path: field.path.clone(),
        })
    }

    /// Returns the keys of the matching terms, found in the values of the column; `None`: there are too many of
    /// them, or there is no column.
    fn keys(
        &self,
        reader: &SegmentReader,
        start: &[u8],
        matcher: &Matcher,
        walk: &Walk,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(texts) = Texts::of(reader, self.class, &self.path, &mut || walk.step())? else {
            return Ok(None);
        };
        let mut keys = Vec::new();
        texts.containing(self.piece.as_bytes(), |value| {
            walk.step()?;
            if keys.len() <= LOOKUPS_MAX && matcher.is_match(value) {
                keys.push([start, value].concat());
            }
            Ok(())
        })?;
        Ok((keys.len() <= LOOKUPS_MAX).then_some(keys))
    }
}

/// Compiles to the documents with a matching term of a field.
pub(crate) fn on_field(compiler: &Compiler, field: &Field, pattern: &Pattern) -> Result<Compiled> {
    let matcher = pattern.compile(&compiler.guard.stop)?;
    let prefix = pattern.prefix.clone();
    mark(compiler, field, &prefix, &matcher);
    if let Some(mapping) = &field.mapping
        && mapping.field_type == FieldType::ConstantKeyword
    {
        let constant = mapping.constant.as_deref();
        let hit = constant.is_some_and(|text| text.starts_with(&prefix) && matcher.is_match(text.as_bytes()));
        return Ok(if hit {
            Compiled::All.constant(1.0, compiler.scoring())
        } else {
            Compiled::None
        });
    }
    let stop = compiler.guard.stop.clone();
    if let Some((terms, _)) = paths::term_field(field.class) {
        let start = paths::key_prefix(terms, &field.path);
        let inside = Inside::of(field, pattern);
        return Ok(Compiled::Some(Box::new(TermsWeight {
            field: terms,
            find: Box::new(move |reader, found| {
                let walk = stop.walk();
                let index = reader.inverted_index(terms)?;
                let keys = match &inside {
                    Some(inside) => inside.keys(reader, &start, &matcher, &walk).map_err(into_tantivy)?,
                    None => None,
                };
                if let Some(keys) = keys {
                    for key in keys {
                        if let Some(info) = or_later(index.terms().get(&key), None)? {
                            found(&info)?;
                        }
                    }
                    return Ok(());
                }
                let from = [start.as_slice(), prefix.as_bytes()].concat();
                let mut stream = index.terms().range().ge(&from).lt(paths::end_of(&from)).into_stream()?;
                while stream.advance() && stream.key().starts_with(&from) {
                    walk.step().map_err(into_tantivy)?;
                    if matcher.is_match(&stream.key()[start.len()..]) {
                        found(stream.value())?;
                    }
                }
                Ok(())
            }),
        })));
    }
    if field.class != Class::KeywordColumn {
        return Ok(Compiled::None);
    }
    let path = field.path.clone();
    Ok(Compiled::Some(Box::new(ColumnWeight::new(Box::new(move |reader| {
        let Some(strings) = column::open_strings(reader, Class::KeywordColumn, &path).map_err(into_tantivy)? else {
            return Ok(None);
        };
        let mut stream = strings.dictionary().range().ge(prefix.as_bytes()).into_stream()?;
        let mut ordinals = Ordinals::new(&stop);
        while stream.advance() && stream.key().starts_with(prefix.as_bytes()) {
            ordinals.step().map_err(into_tantivy)?;
            if matcher.is_match(stream.key()) {
                ordinals.push(stream.term_ord()).map_err(into_tantivy)?;
            }
        }
        Ok(ordinals.test().map(|test| (strings.ords().clone(), test)))
    })))))
}

/// Marks the pattern.
fn mark(compiler: &Compiler, field: &Field, prefix: &str, matcher: &Arc<Matcher>) {
    compiler.mark(&field.path, || {
        let (prefix, matcher) = (prefix.to_owned(), Arc::clone(matcher));
        HighlightTerm::Test(Arc::new(move |term| {
            term.starts_with(&prefix) && matcher.is_match(term.as_bytes())
        }))
    });
}

/// Ordinals found in the dictionary of a column. There may be as many as the column has values, so they are counted
/// as memory of the search.
pub(crate) struct Ordinals {
    stop: Stop,
    walk: Walk,
    found: Vec<u64>,
}

impl Ordinals {
    /// Ordinals for which memory is reserved at once.
    const STEP: usize = 4096;

    pub(crate) fn new(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            walk: stop.walk(),
            found: Vec::new(),
        }
    }

    /// Checks for cancellation. Call it for every value of the dictionary.
    pub(crate) fn step(&self) -> Result<()> {
        self.walk.step()
    }

    pub(crate) fn push(&mut self, ordinal: u64) -> Result<()> {
        if self.found.len().is_multiple_of(Self::STEP) {
            self.stop.take(Self::STEP * size_of::<u64>())?;
        }
        self.found.push(ordinal);
        Ok(())
    }

    /// Returns the test for them; `None`: there are none.
    pub(crate) fn test(self) -> Option<Test> {
        (!self.found.is_empty()).then(|| Test::Set(self.found.into()))
    }
}

/// Rejects a pattern on numbers and other fields without strings.
pub(crate) fn check_strings(field: &Field, query: &str) -> Result<()> {
    let (types, takes_ip) = match query {
        "prefix" | "wildcard" => ("keyword, text and wildcard", true),
        _ => ("keyword and text", false),
    };
    let is_other = match field.field_type {
        FieldType::GeoPoint => true,
        FieldType::Ip => !takes_ip,
        _ => field.numeric().is_some(),
    };
    if is_other {
        return Err(Error::new(
            ErrorKind::QueryShard,
            format!(
                "Can only use {query} queries on {types} fields - not on [{}] which is of type [{}]",
                field.path,
                field.type_name()
            ),
        ));
    }
    Ok(())
}

/// Returns the result of a term query on a field that has no terms.
pub(crate) fn not_indexed(field: &Field) -> Result<Compiled> {
    match field.class {
        Class::KeywordColumn => Err(Error::new(
            ErrorKind::QueryShard,
            format!(
                "failed to create query: Cannot search on field [{}] since it is not indexed.",
                field.path
            ),
        )),
        _ => Ok(Compiled::None),
    }
}
