//! `highlight`: fragments of a hit's fields with what the query found marked in them.
//!
//! A field's values are read from the source and analyzed again; the tokens that the query looks
//! for ([`finder`]) are grouped into passages ([`unified`]) or fragments ([`plain`]), as Lucene's
//! highlighters of these names do it.

mod boundaries;
mod finder;
mod plain;
mod text;
mod unified;

use std::sync::Arc;

use firn_engine::query::Query;
use firn_engine::search::{BoundaryScanner, Highlight, HighlightOptions, Highlighter};
use firn_model::mapping::{Analyzer, FieldType, Mapping};
use firn_model::names::matches_pattern;
use firn_model::{Error, Result};
use serde_json::{Map, Value};
use tantivy::DocId;

use self::finder::Finder;
use self::text::FieldText;
use super::ShardSearch;
use super::compile::Compiler;
use super::fetch::{source_path, walk};
use super::field::{self, Field, Target, scalar_text};
use super::guard::{Guard, Stop};
use super::marks::{Mark, Marks};
use crate::schema::Class;

/// What is highlighted, resolved against the mapping of a shard.
pub(super) struct HighlightPlan {
    fields: Vec<FieldPlan>,
    index: Arc<str>,
    /// `index.highlight.max_analyzed_offset`.
    analyzed_max: u64,
}

struct FieldPlan {
    /// The name in the answer.
    name: String,
    /// Where the values are in the source: the parent's path for a multi-field.
    path: String,
    analyzer: Analyzer,
    /// `normalizer: lowercase`; as in Elasticsearch the normalized value is shown.
    lowercase: bool,
    /// Longer values are not indexed.
    ignore_above: Option<u32>,
    options: HighlightOptions,
    finder: Finder,
}

impl HighlightPlan {
    /// Resolves fields, and what `query` looks for in them.
    pub(super) fn compile(
        shard: &ShardSearch,
        highlight: &Highlight,
        query: &Query,
        now_ms: i64,
        stop: &Stop,
    ) -> Result<Self> {
        let of_query = marks_of(shard, query, now_ms, stop)?;
        let mut fields: Vec<FieldPlan> = Vec::new();
        for asked in &highlight.fields {
            let own;
            let marks = match &asked.options.query {
                Some(query) => {
                    own = marks_of(shard, query, now_ms, stop)?;
                    &own
                }
                None => &of_query,
            };
            for name in names(&shard.mapping, &asked.pattern) {
                let Target::Field(field) = field::resolve(&shard.mapping, &name) else {
                    continue;
                };
                let Some(plan) = FieldPlan::new(&shard.mapping, name, &field, &asked.options, marks)? else {
                    continue;
                };
                match fields.iter_mut().find(|other| other.name == plan.name) {
                    Some(other) => *other = plan,
                    None => fields.push(plan),
                }
            }
        }
        Ok(Self {
            fields,
            index: Arc::clone(&shard.snapshot.index),
            analyzed_max: shard.max_analyzed_offset,
        })
    }

    /// The fragments of a document; fields without any are left out.
    pub(super) fn read(&self, doc: DocId, source: &Value, out: &mut Map<String, Value>) -> Result<()> {
        for field in &self.fields {
            let values = field.values(source);
            if values.iter().all(String::is_empty) {
                continue;
            }
            self.check_length(doc, field, &values)?;
            let text = FieldText::new(&values, field.analyzer, field.options.max_analyzed_offset);
            let fragments = match field.options.highlighter {
                Highlighter::Plain => plain::fragments(&text, &field.finder, &field.options),
                Highlighter::Unified | Highlighter::Fvh => unified::fragments(&text, &field.finder, &field.options),
            };
            if !fragments.is_empty() {
                out.insert(field.name.clone(), fragments.into());
            }
        }
        Ok(())
    }

    /// Long texts cost time for every hit; who wants them cut instead says so.
    fn check_length(&self, doc: DocId, field: &FieldPlan, values: &[String]) -> Result<()> {
        // A separator stands between two values.
        let separators = values.len().saturating_sub(1);
        let length = separators + values.iter().map(|value| value.chars().count()).sum::<usize>();
        let max = self.analyzed_max;
        let tolerant = field.options.max_analyzed_offset.is_some_and(|offset| offset <= max);
        if tolerant || length as u64 <= max {
            return Ok(());
        }
        Err(Error::illegal_argument(format!(
            "The length [{}] of field [{}] in doc[{doc}]/index[{}] exceeds the [index.highlight.max_analyzed_offset] \
             limit [{max}]. To avoid this error, set the query parameter [max_analyzed_offset] to a value less than \
             index setting [{max}] and this will tolerate long field values by truncating them.",
            length, field.name, self.index
        )))
    }
}

/// What a query looks for on a shard.
fn marks_of(shard: &ShardSearch, query: &Query, now_ms: i64, stop: &Stop) -> Result<Vec<(String, Mark)>> {
    let guard = Guard::new(stop);
    let marks = Marks::default();
    let compiler = Compiler {
        marks: Some(&marks),
        ..shard.compiler(now_ms, &guard)
    };
    compiler.compile(query)?;
    Ok(marks.into_inner())
}

/// The fields that a pattern names.
fn names(mapping: &Mapping, pattern: &str) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.to_owned()];
    }
    let leaves = mapping.leaves().into_iter().map(|(path, _)| path);
    leaves.filter(|path| matches_pattern(pattern, path)).collect()
}

impl FieldPlan {
    /// `None`: fields of its type are not highlighted.
    fn new(
        mapping: &Mapping,
        name: String,
        field: &Field,
        options: &HighlightOptions,
        marks: &[(String, Mark)],
    ) -> Result<Option<Self>> {
        let Some(own) = &field.mapping else {
            return Ok(None);
        };
        let analyzer = match (field.field_type, field.class) {
            (FieldType::Text | FieldType::MatchOnlyText, Class::Text(analyzer)) => analyzer,
            (FieldType::Keyword | FieldType::Wildcard, _) => Analyzer::Keyword,
            _ => return Ok(None),
        };
        if options.highlighter == Highlighter::Fvh {
            return Err(Error::illegal_argument(format!(
                "the field [{name}] should be indexed with term vector with position offsets to be used with fast \
                 vector highlighter"
            )));
        }
        if options.boundary_scanner == BoundaryScanner::Chars && options.highlighter == Highlighter::Unified {
            return Err(Error::illegal_argument("Invalid boundary scanner type: CHARS"));
        }
        let wanted = marks
            .iter()
            .filter(|(path, _)| !options.require_field_match || *path == field.path)
            .map(|(_, mark)| mark.clone());
        Ok(Some(Self {
            path: source_path(mapping, field.path.clone()),
            name,
            analyzer,
            lowercase: own.lowercase,
            ignore_above: own.ignore_above,
            options: options.clone(),
            finder: Finder::new(wanted),
        }))
    }

    /// The field's values in a document.
    fn values(&self, source: &Value) -> Vec<String> {
        let mut values = Vec::new();
        walk(source, &self.path, &mut |value| {
            let text = scalar_text(value);
            let short = |text: &String| {
                self.ignore_above
                    .is_none_or(|limit| text.chars().count() <= limit as usize)
            };
            let text = text.filter(short);
            values.extend(text.map(|text| if self.lowercase { text.to_lowercase() } else { text }));
        });
        values
    }
}
