//! `filter`: one bucket of the documents that match a query.

use std::sync::Arc;

use firn_engine::aggs::Partial;
use firn_engine::query::Query;
use firn_model::Result;
use tantivy::DocId;
use tantivy::query::{Scorer, Weight};

use super::super::column::failed;
use super::super::compile::Compiler;
use super::super::weight::Compiled;
use super::filters::matches;
use super::single::Single;
use super::{Collector, Level, Scope};

/// `filter`, resolved.
pub(super) struct FilterPlan(Arc<dyn Weight>);

impl FilterPlan {
    pub(super) fn compile(compiler: &Compiler, query: &Query) -> Result<Self> {
        let compiled: Compiled = compiler.filter().compile(query)?;
        Ok(Self(Arc::from(compiled.into_weight())))
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        Ok(Box::new(FilterCollector {
            scorer: self.0.scorer(&scope.segment.reader, 1.0).map_err(failed)?,
            single: Single::new(sub, scope.memory),
        }))
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
