//! Term statistics of a shard, for scoring.

use std::sync::{Arc, LazyLock};

use firn_model::Result;
use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::Field;
use tantivy::{Index, Searcher, Term};

use super::column::failed;
use super::paths;
use crate::schema;
use crate::segment::Segment;

/// Scoring asks Tantivy for a searcher, of which it reads only the schema; segments of a shard
/// are indices of their own, so there is none over them. This one is empty.
static EMPTY: LazyLock<Option<Searcher>> = LazyLock::new(|| {
    let index = Index::create_in_ram(schema::fields().schema.clone());
    index.reader().ok().map(|reader| reader.searcher())
});

/// Statistics over all segments of a shard, deleted documents included (as in Lucene).
pub(super) struct Statistics {
    segments: Vec<Arc<Segment>>,
    doc_count: u64,
}

impl Statistics {
    /// Over `segments`.
    pub(super) fn new(segments: &[Arc<Segment>]) -> Self {
        Self {
            segments: segments.to_vec(),
            doc_count: segments.iter().map(|segment| u64::from(segment.max_doc)).sum(),
        }
    }

    /// What makes a weight score with these statistics.
    pub(super) fn enable(&self) -> EnableScoring<'_> {
        enable(self)
    }

    /// How many documents hold a term.
    pub(super) fn doc_freq_of(&self, field: Field, path: &str, value: &str) -> Result<u64> {
        self.doc_freq(&paths::term(field, path, value)).map_err(failed)
    }
}

fn enable(statistics: &(impl Bm25StatisticsProvider + Sync)) -> EnableScoring<'_> {
    match &*EMPTY {
        Some(searcher) => EnableScoring::enabled_from_statistics_provider(statistics, searcher),
        None => EnableScoring::disabled_from_schema(&schema::fields().schema),
    }
}

/// The same statistics, only that every term is as frequent as this: terms that stand for one
/// another are to score alike.
pub(super) struct Blended<'a> {
    pub(super) statistics: &'a Statistics,
    pub(super) doc_freq: u64,
}

impl Blended<'_> {
    /// What makes a weight score with these statistics.
    pub(super) fn enable(&self) -> EnableScoring<'_> {
        enable(self)
    }
}

impl Bm25StatisticsProvider for Blended<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.statistics.total_num_tokens(field)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.statistics.total_num_docs()
    }

    fn doc_freq(&self, _: &Term) -> tantivy::Result<u64> {
        Ok(self.doc_freq)
    }
}

impl Bm25StatisticsProvider for Statistics {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let fields = schema::fields();
        // Whole values have no length: an average of 1 makes their score the inverse document
        // frequency, as in Elasticsearch for keyword fields.
        if field == fields.kw || field == fields.kw_terms || field == fields.id {
            return Ok(self.doc_count);
        }
        let mut total = 0;
        for segment in &self.segments {
            total += segment.reader.inverted_index(field)?.total_num_tokens();
        }
        // Zero would make lengths infinite.
        Ok(total.max(1))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.doc_count.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut total = 0;
        for segment in &self.segments {
            let index = segment.reader.inverted_index(term.field())?;
            total += u64::from(index.doc_freq(term)?);
        }
        Ok(total)
    }
}
