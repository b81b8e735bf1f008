//! Compiler from a parsed query to a weight that runs on the segments of one shard.

pub(crate) mod field;
pub(crate) mod limits;
pub(crate) mod phrase;
pub(crate) mod query;
pub(crate) mod scored_term;
pub(crate) mod slice;
pub(crate) mod statistics;
pub(crate) mod string_scan;
pub(crate) mod text;
pub(crate) mod weight;

use std::sync::Arc;

use firn_model::Result;
use firn_model::mapping::Mapping;
use firn_query::query::Query;
use firn_segment::schema;
use firn_segment::segment::ShardSnapshot;
use tantivy::query::EnableScoring;
use tantivy::schema::Field;

use super::TenantRestriction;
use crate::ShardSearch;
use crate::compile::limits::Guard;
use crate::compile::query::text::Kind;
use crate::compile::statistics::{FieldStatistics, Statistics};
use crate::compile::weight::Compiled;
use crate::highlight::highlight_terms::HighlightTerms;
use crate::run::preemption::in_turn;

/// The inputs of a compilation on one shard.
#[derive(Clone, Copy)]
pub(super) struct Compiler<'a> {
    pub(super) snapshot: &'a ShardSnapshot,
    pub(super) mapping: &'a Mapping,
    /// `index.query.default_field`.
    pub(super) default_fields: &'a [String],
    /// The tenant whose documents are searched; `None`: documents of all tenants.
    pub(super) tenant: Option<&'a TenantRestriction>,
    pub(super) now_ms: i64,
    /// Bounds the size of the compiled query and the time of compilation.
    pub(super) guard: &'a Guard,
    /// Statistics for scores; `None`: the query only selects documents.
    pub(super) statistics: Option<&'a Statistics>,
    /// Records the terms that the query looks for; `None`: not needed.
    pub(super) marks: Option<&'a HighlightTerms>,
}

impl<'a> Compiler<'a> {
    /// Returns a compiler for queries without scores: only which documents match.
    pub(crate) fn of_shard(shard: &'a ShardSearch, now_ms: i64, guard: &'a Guard) -> Self {
        Self {
            snapshot: &shard.snapshot,
            mapping: &shard.mapping,
            default_fields: &shard.default_fields,
            tenant: shard.tenant.as_ref(),
            now_ms,
            guard,
            statistics: None,
            marks: None,
        }
    }
}

impl Compiler<'_> {
    /// Returns the same compiler without scores, for filters.
    pub(super) fn filter(self) -> Self {
        Self {
            statistics: None,
            ..self
        }
    }

    /// Returns whether the query computes scores.
    pub(super) fn scoring(&self) -> bool {
        self.statistics.is_some()
    }

    /// Returns the setting that makes Tantivy's weights skip scores.
    pub(super) fn unscored(&self) -> EnableScoring<'static> {
        EnableScoring::disabled_from_schema(&schema::fields().schema)
    }

    /// Returns the statistics for scoring the terms of a path; `None`: the query computes no
    /// scores.
    pub(super) fn field_statistics(
        &self,
        field: Field,
        path: &str,
    ) -> Result<Option<(&Statistics, Arc<FieldStatistics>)>> {
        let Some(statistics) = self.statistics else {
            return Ok(None);
        };
        let of_path = statistics.field(&self.guard.stop, field, path)?;
        Ok(Some((statistics, of_path)))
    }

    /// Resolves a path on this shard.
    pub(super) fn resolve(&self, path: &str) -> field::Target {
        field::resolve(self.mapping, path)
    }

    /// Compiles a query.
    pub(super) fn compile(&self, query: &Query) -> Result<Compiled> {
        self.guard.take_clauses(1)?;
        let stop = &self.guard.stop;
        stop.turn()?;
        Ok(in_turn(self.compile_part(query)?, stop))
    }

    fn compile_part(&self, query: &Query) -> Result<Compiled> {
        let scoring = self.scoring();
        match query {
            Query::MatchAll(all) => Ok(Compiled::All.constant(all.boost, scoring)),
            Query::MatchNone => Ok(Compiled::None),
            Query::Term(term) => query::term::compile(self, term),
            Query::Terms(terms) => query::terms::compile(self, terms),
            Query::Range(range) => query::range::compile(self, range),
            Query::Exists(exists) => query::exists::compile(self, exists),
            Query::Ids(ids) => query::ids::compile(self, ids),
            Query::Match(part) => query::text::compile(self, part, Kind::Terms),
            Query::MatchPhrase(part) => query::text::compile(self, part, Kind::Phrase),
            Query::MatchPhrasePrefix(part) => query::text::compile(self, part, Kind::PhrasePrefix),
            Query::MatchBoolPrefix(part) => query::text::compile(self, part, Kind::BoolPrefix),
            Query::MultiMatch(part) => query::multi_match::compile(self, part),
            Query::Bool(part) => query::bool_query::compile(self, part),
            Query::DisMax(part) => query::dis_max::compile(self, part),
            Query::Boosting(part) => query::boosting::compile(self, part),
            Query::ConstantScore(part) => Ok(self.filter().compile(&part.filter)?.constant(part.boost, scoring)),
            Query::QueryString(part) => query::query_string::compile(self, part),
            Query::SimpleQueryString(part) => query::query_string::compile_simple(self, part),
            Query::Kql(part) => self.compile(&part.lower(self.mapping)?),
            Query::Prefix(part) => query::prefix::compile(self, part),
            Query::Wildcard(part) => query::wildcard::compile(self, part),
            Query::Regexp(part) => query::regexp::compile(self, part),
            Query::Fuzzy(part) => query::fuzzy::compile(self, part),
            Query::Named(part) => self.compile(&part.query),
        }
    }
}
