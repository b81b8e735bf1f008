//! Inputs of a compilation on one shard.

use std::sync::Arc;

use firn_model::Result;
use firn_model::mapping::Mapping;
use firn_segment::schema;
use firn_segment::segment::ShardSnapshot;
use tantivy::query::EnableScoring;
use tantivy::schema::Field;

use super::field;
use super::limits::Guard;
use super::statistics::{FieldStatistics, Statistics};
use crate::highlight::highlight_terms::{HighlightTerm, HighlightTerms};
use crate::{ShardSearch, TenantRestriction};

/// See the module. `compile.rs` adds the compilation of a query.
#[derive(Clone, Copy)]
pub(crate) struct Compiler<'a> {
    pub(crate) snapshot: &'a ShardSnapshot,
    pub(crate) mapping: &'a Mapping,
    /// `index.query.default_field`.
    pub(crate) default_fields: &'a [String],
    /// The tenant whose documents are searched; `None`: documents of all tenants.
    pub(crate) tenant: Option<&'a TenantRestriction>,
    pub(crate) now_ms: i64,
    /// Bounds the size of the compiled query and the time of compilation.
    pub(crate) guard: &'a Guard,
    /// Statistics for scores; `None`: the query only selects documents.
    pub(crate) statistics: Option<&'a Statistics>,
    /// Records the terms that the query looks for; `None`: not needed.
    pub(crate) marks: Option<&'a HighlightTerms>,
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
    pub(crate) fn filter(self) -> Self {
        Self {
            statistics: None,
            ..self
        }
    }

    /// Returns whether the query computes scores.
    pub(crate) fn scoring(&self) -> bool {
        self.statistics.is_some()
    }

    /// Returns the setting that makes Tantivy's weights skip scores.
    pub(crate) fn unscored(&self) -> EnableScoring<'static> {
        EnableScoring::disabled_from_schema(&schema::fields().schema)
    }

    /// Returns the statistics for scoring the terms of a path; `None`: the query computes no
    /// scores.
    pub(crate) fn field_statistics(
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
    pub(crate) fn resolve(&self, path: &str) -> field::Target {
        field::resolve(self.mapping, path)
    }

    /// Records a mark, if the compiler has a [`HighlightTerms`].
    pub(crate) fn mark(&self, path: &str, mark: impl FnOnce() -> HighlightTerm) {
        if let Some(marks) = self.marks
            && !path.starts_with('_')
        {
            marks.push(path, mark());
        }
    }

    /// Returns a compiler that records no marks, for clauses that documents must not match.
    pub(crate) fn unmarked(self) -> Self {
        Self { marks: None, ..self }
    }
}
