//! `matched_queries`: the named queries that a hit matches.

use firn_model::Result;
use firn_query::query::Query;
use firn_segment::columns::column::failed;
use tantivy::query::{Scorer, Weight};
use tantivy::{DocId, DocSet, SegmentReader};

use crate::ShardSearch;
use crate::compile::Compiler;
use crate::compile::limits::{Guard, Stop};
use crate::compile::statistics::Statistics;
use crate::compile::weight::Compiled;

/// The named queries of a search on one shard.
pub(crate) struct NamedQueries {
    queries: Vec<(String, Box<dyn Weight>)>,
    with_scores: bool,
}

impl NamedQueries {
    /// Compiles the named queries; `None`: no query has a name. If several have the same name, the last one counts,
    /// as in Elasticsearch.
    pub(crate) fn compile(
        shard: &ShardSearch,
        queries: &[&Query],
        with_scores: bool,
        now_ms: i64,
        stop: &Stop,
    ) -> Result<Option<Self>> {
        let mut named: Vec<(&str, &Query)> = Vec::new();
        for (name, query) in queries.iter().flat_map(|query| query.named()) {
            named.retain(|(other, _)| *other != name);
            named.push((name, query));
        }
        if named.is_empty() {
            return Ok(None);
        }
        let guard = Guard::new(stop);
        let statistics = with_scores.then(|| Statistics::new(&shard.snapshot.segments));
        let compiler = Compiler {
            statistics: statistics.as_ref(),
            ..Compiler::of_shard(shard, now_ms, &guard)
        };
        let mut compiled = Vec::with_capacity(named.len());
        for (name, query) in named {
            match compiler.compile(query)? {
                Compiled::None => {}
                found => compiled.push((name.to_owned(), found.into_weight())),
            }
        }
        Ok(Some(Self {
            queries: compiled,
            with_scores,
        }))
    }

    /// Opens them on a segment.
    pub(crate) fn open(&self, reader: &SegmentReader) -> Result<Matched<'_>> {
        let mut scorers = Vec::with_capacity(self.queries.len());
        for (name, weight) in &self.queries {
            scorers.push((name.as_str(), weight.scorer(reader, 1.0).map_err(failed)?));
        }
        Ok(Matched {
            scorers,
            with_scores: self.with_scores,
        })
    }
}

/// The named queries on one segment; read documents in ascending order.
pub(crate) struct Matched<'a> {
    scorers: Vec<(&'a str, Box<dyn Scorer>)>,
    with_scores: bool,
}

impl Matched<'_> {
    /// Returns the names of the queries that `doc` matches, with scores if the request wants them.
    pub(crate) fn read(&mut self, doc: DocId) -> Vec<(String, Option<f32>)> {
        let mut matched = Vec::new();
        for (name, scorer) in &mut self.scorers {
            if scorer.doc() < doc {
                scorer.seek(doc);
            }
            if scorer.doc() == doc {
                let score = self.with_scores.then(|| scorer.score());
                matched.push(((*name).to_owned(), score));
            }
        }
        matched
    }
}
