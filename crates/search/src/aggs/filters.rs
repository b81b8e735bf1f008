//! `filters` aggregation: a bucket per query, and optionally one for the other documents.

use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{Filters, ListedPartial, Partial};
use firn_segment::columns::column::failed;
use tantivy::DocId;
use tantivy::query::{Scorer, Weight};

use super::super::compile::Compiler;
use super::buckets::Buckets;
use super::collector::{Collector, Level, Scope};
use super::ranges::listed;

/// `filters`, compiled.
pub(super) struct FiltersPlan {
    weights: Vec<Arc<dyn Weight>>,
    has_other: bool,
}

impl FiltersPlan {
    pub(super) fn compile(compiler: &Compiler, filters: &Filters) -> Result<Self> {
        let filter = compiler.filter();
        let weights = filters.filters.iter();
        Ok(Self {
            weights: weights
                .map(|(_, query)| Ok(Arc::from(filter.compile(query)?.into_weight())))
                .collect::<Result<_>>()?,
            has_other: filters.other.is_some(),
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let scorers = self.weights.iter();
        let scorers: Vec<_> = scorers
            .map(|weight| weight.scorer(&scope.segment.reader, 1.0).map_err(failed))
            .collect::<Result<_>>()?;
        let count = scorers.len() + usize::from(self.has_other);
        Ok(Box::new(FiltersCollector {
            scorers,
            has_other: self.has_other,
            count,
            buckets: Buckets::new(Some(count as u64), sub, scope.memory),
        }))
    }
}

struct FiltersCollector {
    scorers: Vec<Box<dyn Scorer>>,
    has_other: bool,
    count: usize,
    buckets: Buckets,
}

/// Returns whether a document matches. Call it in ascending order of documents.
pub(super) fn matches(scorer: &mut dyn Scorer, doc: DocId) -> bool {
    let at = scorer.doc();
    let at = if at < doc { scorer.seek(doc) } else { at };
    at == doc
}

impl Collector for FiltersCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        for (&doc, &parent) in docs.iter().zip(buckets) {
            let mut found = false;
            for (filter, scorer) in self.scorers.iter_mut().enumerate() {
                if matches(scorer.as_mut(), doc) {
                    self.buckets.push(doc, parent, filter as u64);
                    found = true;
                }
            }
            if !found && self.has_other {
                self.buckets.push(doc, parent, self.scorers.len() as u64);
            }
        }
        self.buckets.flush()
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        listed(self.buckets, &ListedPartial::default(), self.count, bucket_count)
    }
}
