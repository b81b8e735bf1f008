//! `rare_terms` aggregation: the buckets of `terms` without the frequent ones.

use firn_model::{Error, Result};
use firn_query::aggs::{Partial, RareTerms, RareTermsPartial, Terms};
use tantivy::DocId;

use super::super::compile::Compiler;
use super::collector::{Collector, DocumentOrder, Level, Scope};
use super::source::Source;
use super::terms::TermsPlan;
use crate::compile::field::Numeric;
use crate::run::memory::Memory;

/// `rare_terms`, compiled.
pub(super) struct RareTermsPlan {
    terms: TermsPlan,
    max_doc_count: u64,
}

impl RareTermsPlan {
    pub(super) fn compile(compiler: &Compiler, name: &str, part: &RareTerms) -> Result<Self> {
        if matches!(
            Source::compile(compiler, &part.field)?.numeric(),
            Numeric::Float { .. } | Numeric::Scaled(_)
        ) {
            return Err(Error::illegal_argument(
                "RareTerms aggregation does not support floating point fields.",
            ));
        }
        let terms = Terms {
            missing: part.missing.clone(),
            include: part.include.clone(),
            exclude: part.exclude.clone(),
            format: part.format.clone(),
            ..Terms::all_of(&part.field)
        };
        Ok(Self {
            terms: TermsPlan::compile(compiler, name, &terms)?,
            max_doc_count: part.max_doc_count,
        })
    }

    pub(super) fn open(&self, scope: Scope, sub: Level) -> Result<Box<dyn Collector>> {
        let memory = scope.memory.clone();
        // Rare values are known only after all are counted, so nothing may be cut before.
        let scope = Scope {
            manner: DocumentOrder {
                whole_shard: false,
                ..scope.manner
            },
            ..scope
        };
        Ok(Box::new(RareTermsCollector {
            terms: self.terms.open(scope, sub)?,
            max_doc_count: self.max_doc_count,
            memory,
        }))
    }
}

struct RareTermsCollector {
    terms: Box<dyn Collector>,
    max_doc_count: u64,
    memory: Memory,
}

/// Bytes of a frequent value in a result.
const FREQUENT_BYTES: usize = 16;

impl Collector for RareTermsCollector {
    fn collect(&mut self, docs: &[DocId], buckets: &[u32]) -> Result<()> {
        self.terms.collect(docs, buckets)
    }

    fn finish(self: Box<Self>, bucket_count: usize) -> Result<Vec<Partial>> {
        let mut partials = Vec::with_capacity(bucket_count);
        for partial in self.terms.finish(bucket_count)? {
            let Partial::Terms(terms) = partial else {
                return Err(Error::internal("[rare_terms] got no [terms] result"));
            };
            let rare = RareTermsPartial::new(terms.buckets, terms.format, self.max_doc_count);
            self.memory.take(rare.frequent.len() * FREQUENT_BYTES)?;
            partials.push(Partial::RareTerms(rare));
        }
        Ok(partials)
    }
}
