//! `term` query: documents with an exact value.

use std::ops::RangeInclusive;
use std::sync::Arc;

use firn_model::dates::Zone;
use firn_model::mapping::{Analyzer, FieldType};
use firn_model::{Error, Result};
use firn_query::query::Term;
use firn_segment::columns::column::{NumColumn, NumRange, Number, failed};
use firn_segment::columns::{column, paths};
use firn_segment::schema;
use firn_segment::schema::Class;
use serde_json::Value;
use tantivy::SegmentReader;
use tantivy::query::{Bm25Weight, Query as _, TermQuery, Weight};
use tantivy::schema::{Field as TantivyField, IndexRecordOption};

use super::super::field::{Field, Meta, Numeric, Parsed, Target, parse_ip_or_block, scalar_text};
use super::super::scored_term::ScoredTerm;
use super::super::statistics::OfField;
use super::super::text;
use super::super::weight::{ColumnWeight, Compiled, TermsWeight, Test};
use super::{ids, match_phrase, pattern, range, term_pattern};
use crate::compile::Compiler;
use crate::highlight::highlight_terms::HighlightTerm;
use crate::run::preemption::{LOOKUP_STEPS, in_turn, look_up};

/// The place of a field's terms.
pub(crate) struct TermsOf<'a> {
    pub(crate) field: tantivy::schema::Field,
    pub(crate) option: IndexRecordOption,
    pub(crate) path: &'a str,
}

pub(crate) fn compile(compiler: &Compiler, term: &Term) -> Result<Compiled> {
    let compiled = match compiler.resolve(&term.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => on_meta(compiler, meta, &term.value)?,
        Target::Field(field) => on_field(compiler, &field, &term.value, term.case_insensitive)?,
    };
    Ok(compiled.boost(term.boost, compiler.scoring()))
}

/// Compiles `term` on a metadata field.
pub(crate) fn on_meta(compiler: &Compiler, meta: Meta, value: &Value) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let Some(text) = scalar_text(value) else {
        return Ok(Compiled::None);
    };
    Ok(match meta {
        Meta::Id => ids::by_ids(compiler, &[text])?.constant(1.0, scoring),
        Meta::Index if firn_model::names::matches_pattern(&text, &compiler.snapshot.index) => {
            Compiled::All.constant(1.0, scoring)
        }
        Meta::Index => Compiled::None,
        Meta::SeqNo | Meta::Version => {
            let Parsed::Number(number) = Numeric::Integer.parse_exact(value) else {
                return Ok(Compiled::None);
            };
            range::on_meta_column(meta, equal_to(number)).constant(1.0, scoring)
        }
        Meta::Ignored => terms_weight(
            compiler,
            schema::fields().kw,
            IndexRecordOption::Basic,
            schema::IGNORED,
            &text,
        )?,
        Meta::Routing => return Err(Error::not_implemented("searching on [_routing]")),
    })
}

/// Compiles `term` on a field with its own values.
pub(crate) fn on_field(compiler: &Compiler, field: &Field, value: &Value, case_insensitive: bool) -> Result<Compiled> {
    let Some(text) = scalar_text(value) else {
        return Ok(Compiled::None);
    };
    let scoring = compiler.scoring();
    match field.field_type {
        FieldType::ConstantKeyword => {
            let constant = field.mapping.as_ref().and_then(|mapping| mapping.constant.as_deref());
            let hit = constant
                .is_some_and(|constant| constant == text || case_insensitive && constant.eq_ignore_ascii_case(&text));
            Ok(if hit {
                Compiled::All.constant(1.0, scoring)
            } else {
                Compiled::None
            })
        }
        FieldType::Ip => match parse_ip_or_block(&text) {
            Some((first, last)) if first == last => whole_value(compiler, field, &schema::encode_ip(first)),
            Some((first, last)) => {
                let bounds = (schema::encode_ip(first), schema::encode_ip(last));
                Ok(
                    range::on_strings(compiler, field, Some((bounds.0, true)), Some((bounds.1, true)))?
                        .constant(1.0, scoring),
                )
            }
            None => misfit(compiler, field, &text),
        },
        FieldType::GeoPoint => Err(Error::new(
            firn_model::ErrorKind::QueryShard,
            format!(
                "Geometry fields do not support exact searching, use dedicated geometry queries instead: [{}]",
                field.path
            ),
        )),
        _ => match field.numeric() {
            Some(numeric) => on_number(compiler, field, &numeric, value, &text),
            None if case_insensitive => {
                Ok(pattern::on_field(compiler, field, &term_pattern::ignoring_case(&text))?.constant(1.0, scoring))
            }
            None => whole_value(compiler, field, &normalized(field, &text)),
        },
    }
}

/// Applies the field's normalizer to a value.
pub(crate) fn normalized(field: &Field, text: &str) -> String {
    match &field.mapping {
        Some(mapping) if mapping.lowercase => text.to_lowercase(),
        _ => text.to_owned(),
    }
}

fn on_number(compiler: &Compiler, field: &Field, numeric: &Numeric, value: &Value, text: &str) -> Result<Compiled> {
    if field.class != Class::Number {
        return Ok(Compiled::None);
    }
    let scoring = compiler.scoring();
    if let Some(format) = numeric.date_format() {
        let zone = Zone::utc();
        let lower = Numeric::parse_date_nanos(format, value, compiler.now_ms, false, &zone);
        let upper = Numeric::parse_date_nanos(format, value, compiler.now_ms, true, &zone);
        let (Ok(lower), Ok(upper)) = (lower, upper) else {
            return misfit(compiler, field, text);
        };
        let range = range::date_range(numeric, Some((lower, true)), Some((upper, true)));
        return Ok(on_column(field.path.clone(), range).constant(1.0, scoring));
    }
    match numeric.parse_exact(value) {
        Parsed::Number(number) => Ok(on_column(field.path.clone(), equal_to(number)).constant(1.0, scoring)),
        Parsed::Never => Ok(Compiled::None),
        Parsed::NotANumber => misfit(compiler, field, text),
    }
}

fn equal_to(number: Number) -> NumRange {
    NumRange {
        lower: Some((number, true)),
        upper: Some((number, true)),
    }
}

/// Compiles to the documents with a number in a range.
pub(crate) fn on_column(path: String, range: NumRange) -> Compiled {
    let numbers = path.clone();
    let find = move |reader: &SegmentReader| {
        let column = NumColumn::open(reader, &path).map_err(column::into_tantivy)?;
        Ok(column.and_then(|column| {
            let raw = column.raw_range(&range)?;
            Some((column.column, Test::Range(raw)))
        }))
    };
    Compiled::Some(Box::new(ColumnWeight::of_numbers(&numbers, Box::new(find))))
}

/// Compiles a search for a value that the field's type cannot hold. Events with such values are indexed as text
/// under the same path, so the query matches the words of the value as a phrase there. (Elasticsearch fails
/// instead; it would have rejected those events, too.)
pub(crate) fn misfit(compiler: &Compiler, field: &Field, value: &str) -> Result<Compiled> {
    let tokens = text::tokens(Analyzer::Standard, value, compiler.guard)?;
    match_phrase::phrase(compiler, Analyzer::Standard, &field.path, &tokens, 0)
}

/// Compiles to the documents that have `value` as a whole term or column value of a string class.
pub(crate) fn whole_value(compiler: &Compiler, field: &Field, value: &str) -> Result<Compiled> {
    if let Some((terms, option)) = paths::term_field(field.class) {
        return terms_weight(compiler, terms, option, &field.path, value);
    }
    if field.class != Class::KeywordColumn {
        return Ok(Compiled::None);
    }
    compiler.mark(&field.path, || HighlightTerm::Term(value.to_owned()));
    let (path, value) = (field.path.clone(), value.to_owned());
    let weight = ColumnWeight::new(Box::new(move |reader| {
        let Some(strings) = column::open_strings(reader, Class::KeywordColumn, &path).map_err(column::into_tantivy)?
        else {
            return Ok(None);
        };
        let ordinal = strings.dictionary().term_ord(value.as_bytes())?;
        let test = |ordinal: u64| -> RangeInclusive<u64> { ordinal..=ordinal };
        Ok(ordinal.map(|ordinal| (strings.ords().clone(), Test::Range(test(ordinal)))))
    }));
    Ok(Compiled::Some(Box::new(weight)).constant(1.0, compiler.scoring()))
}

/// Compiles to the documents with one term.
pub(crate) fn terms_weight(
    compiler: &Compiler,
    field: TantivyField,
    option: IndexRecordOption,
    path: &str,
    value: &str,
) -> Result<Compiled> {
    let terms = TermsOf { field, option, path };
    scored(compiler, &terms, value, None)
}

/// Compiles to the documents with one term; `doc_freq` replaces its document frequency for the score.
pub(crate) fn scored(compiler: &Compiler, terms: &TermsOf<'_>, value: &str, doc_freq: Option<u64>) -> Result<Compiled> {
    compiler.mark(terms.path, || HighlightTerm::Term(value.to_owned()));
    let key = paths::term(terms.field, terms.path, value);
    let query = TermQuery::new(key.clone(), terms.option);
    // A text may have very many terms, and each is looked up again when it is opened.
    let stop = &compiler.guard.stop;
    let of_one = |weight: Box<dyn Weight>| Ok(in_turn(Compiled::Some(weight), stop));
    let Some((statistics, of_path)) = compiler.field_statistics(terms.field, terms.path)? else {
        return of_one(query.weight(compiler.unscored()).map_err(failed)?);
    };
    compiler.guard.step(LOOKUP_STEPS * compiler.snapshot.segments.len())?;
    let of_term = OfField::new(statistics, &of_path, doc_freq, std::slice::from_ref(&key), stop)?;
    let Some(norms) = &of_path.norms else {
        return of_one(query.weight(of_term.enable()).map_err(failed)?);
    };
    let bm25 = Bm25Weight::for_terms(&of_term, std::slice::from_ref(&key)).map_err(failed)?;
    of_one(Box::new(ScoredTerm {
        term: key,
        bm25,
        norms: Arc::clone(norms),
    }))
}

/// Compiles to the documents with any of some terms. Not scored.
pub(crate) fn any_term<'t>(
    compiler: &Compiler,
    field: TantivyField,
    path: &str,
    values: impl Iterator<Item = &'t str>,
) -> Compiled {
    let mut keys: Vec<_> = values.map(|value| paths::term(field, path, value)).collect();
    if keys.is_empty() {
        return Compiled::None;
    }
    keys.sort_unstable();
    let stop = compiler.guard.stop.clone();
    Compiled::Some(Box::new(TermsWeight {
        field,
        find: Box::new(move |reader, found| look_up(reader.inverted_index(field)?.as_ref(), &keys, &stop, found)),
    }))
}
