//! `filter` aggregation: one bucket of the documents that match a query.

use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::Partial;
use firn_query::query::Query;
use firn_segment::columns::column::{failed, is_run};
use firn_segment::columns::presence;
use tantivy::DocId;
use tantivy::columnar::ColumnIndex;
use tantivy::query::{Scorer, Weight};

use super::super::compile::Compiler;
use super::collector::{Collector, Level, Scope};
use super::filters::matches;
use super::single::Single;
use crate::compile::query::exists::Values;
use crate::compile::weight::Compiled;

/// `filter`, compiled.
pub(super) enum FilterPlan {
    Query(Arc<dyn Weight>),
    /// An `exists` filter, which the field's column answers for many documents together.
    Exists(Values),
}

impl FilterPlan {
    pub(super) fn compile(compiler: &Compiler, query: &Query) -> Result<Self> {
        if let Query::Exists(exists) = query
            && let Some(values) = Values::of(compiler, exists)
        {
            return Ok(Self::Exists(values));
        }
        let compiled: Compiled = compiler.filter().compile(query)?;
        Ok(Self::Query(Arc::from(compiled.into_weight())))
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let reader = &scope.segment.reader;
        let single = Single::new(sub, scope.memory);
        Ok(match self {
            Self::Query(weight) => Box::new(FilterCollector {
                scorer: weight.scorer(reader, 1.0).map_err(failed)?,
                single,
            }),
            Self::Exists(values) => {
                let index = values.index(reader)?;
                Box::new(ExistsCollector {
                    index: index.unwrap_or(ColumnIndex::Empty {
                        num_docs: reader.max_doc(),
                    }),
                    single,
                    positions: Vec::new(),
                    rows: Vec::new(),
                    found: Vec::new(),
                })
            }
        })
    }
}

struct FilterCollector {
    scorer: Box<dyn Scorer>,
    single: Single,
}

impl Collector for FilterCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let scorer = self.scorer.as_mut();
        self.single.collect(docs, buckets, |doc| matches(scorer, doc))
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.single.finish(bucket_count)
    }
}

struct ExistsCollector {
    /// The index of the documents that have a value.
    index: ColumnIndex,
    single: Single,
    positions: Vec<u32>,
    rows: Vec<u32>,
    found: Vec<DocId>,
}

impl Collector for ExistsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        let (Some(&first), Some(&last), Some(&bucket)) = (docs.first(), docs.last(), buckets.first()) else {
            return Ok(());
        };
        if self.single.counts_only()
            && is_run(docs, first)
            && buckets.iter().all(|other| *other == bucket)
            && let Some(count) = presence::count_in_run(&self.index, first..last + 1)
        {
            return self.single.add(bucket, count.into());
        }
        presence::find_rows(&self.index, docs, &mut self.positions, &mut self.rows, &mut self.found);
        self.single.collect_at(docs, buckets, &self.positions)
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        self.single.finish(bucket_count)
    }
}
