//! Statistics of a shard for scoring: the number of documents with a field, the length of its text, the document
//! frequency of terms. Deleted documents count, as in Lucene.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use firn_model::Result;
use firn_segment::columns::column;
use firn_segment::columns::column::failed;
use firn_segment::columns::paths;
use firn_segment::schema;
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::or_later;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::SegmentId;
use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::Field;
use tantivy::{Index, Searcher, Term};

use crate::compile::limits::Stop;
use crate::run::preemption::LOOKUP_STEPS;

/// Scoring needs a Tantivy searcher, and reads only its schema. Segments of a shard are separate indices, so no
/// searcher covers them. This one is empty.
static EMPTY: LazyLock<Option<Searcher>> = LazyLock::new(|| {
    let index = Index::create_in_ram(schema::fields().schema.clone());
    index.reader().ok().map(|reader| reader.searcher())
});

/// Statistics over all segments of a shard.
pub(crate) struct Statistics {
    segments: Vec<Arc<Segment>>,
    doc_count: u64,
    /// The paths computed so far.
    fields: RefCell<HashMap<(Field, String), Arc<FieldStatistics>>>,
}

/// Field lengths of one path, by segment.
pub(crate) type Norms = HashMap<SegmentId, FieldNormReader>;

/// Statistics of one path.
pub(crate) struct FieldStatistics {
    /// Documents that have the field.
    docs: u64,
    /// Number of terms in all of them.
    tokens: u64,
    /// Lengths by segment; `None`: all values have the same length.
    pub(crate) norms: Option<Arc<Norms>>,
}

impl Statistics {
    /// Creates statistics over `segments`.
    pub(crate) fn new(segments: &[Arc<Segment>]) -> Self {
        Self {
            segments: segments.to_vec(),
            doc_count: segments.iter().map(|segment| u64::from(segment.max_doc)).sum(),
            fields: RefCell::default(),
        }
    }

    /// Returns the statistics of a path; computes them on the first call.
    pub(crate) fn field(&self, stop: &Stop, field: Field, path: &str) -> Result<Arc<FieldStatistics>> {
        let key = (field, path.to_owned());
        if let Some(known) = self.fields.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let counted = Arc::new(self.count(stop, field, path)?);
        self.fields.borrow_mut().insert(key, Arc::clone(&counted));
        Ok(counted)
    }

    fn count(&self, stop: &Stop, field: Field, path: &str) -> Result<FieldStatistics> {
        let names = schema::fields();
        let is_whole = field == names.kw || field == names.kw_terms || field == names.id;
        if is_whole {
            let docs = match field == names.kw {
                true => self.docs_in_column(path)?,
                false => self.docs_by_name(path)?,
            };
            // Whole values have no length: with an average of 1, their score is the inverse document frequency, as
            // in Elasticsearch for keyword fields.
            return Ok(FieldStatistics {
                docs,
                tokens: docs,
                norms: None,
            });
        }
        let start = paths::key_prefix(field, path);
        let walk = stop.walk();
        let (mut docs, mut tokens, mut norms) = (0, 0, HashMap::new());
        for segment in &self.segments {
            let derived = &segment.derived;
            let found = derived
                .lengths
                .of(&segment.reader, field, &start, derived.split(), || walk.step());
            let Some(lengths) = or_later(found.map(Some), None)? else {
                continue;
            };
            docs += lengths.docs;
            tokens += lengths.tokens;
            norms.insert(segment.reader.segment_id(), lengths.norms.clone());
        }
        Ok(FieldStatistics {
            docs,
            tokens,
            norms: Some(Arc::new(norms)),
        })
    }

    /// Returns the number of documents with a value in the string column of a path.
    fn docs_in_column(&self, path: &str) -> Result<u64> {
        let mut docs = 0;
        for segment in &self.segments {
            docs += segment.derived.lengths.docs(path, || {
                if let Some(split) = segment.derived.split() {
                    return Ok(split.docs_in_column(path));
                }
                let strings = column::open_strings(&segment.reader, Class::Keyword, path)?;
                Ok(strings.map_or(0, |strings| {
                    column::docs_with_value(&strings.ords().index, segment.max_doc)
                }))
            })?;
        }
        Ok(docs)
    }

    /// Returns the number of documents that list a path among the fields without a column.
    fn docs_by_name(&self, path: &str) -> Result<u64> {
        self.doc_freq_of(schema::fields().kw_terms, schema::FIELD_NAMES, path)
    }

    /// Returns the number of documents with a term.
    pub(crate) fn doc_freq_of(&self, field: Field, path: &str, value: &str) -> Result<u64> {
        self.doc_freq(&paths::term(field, path, value)).map_err(failed)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut total = 0;
        for segment in &self.segments {
            let index = segment.reader.inverted_index(term.field())?;
            total += u64::from(or_later(index.doc_freq(term), 0)?);
        }
        Ok(total)
    }
}

/// Statistics of one path, in the form that Tantivy reads.
pub(crate) struct OfField<'a> {
    statistics: &'a Statistics,
    field: &'a FieldStatistics,
    /// The document frequency of every term, if set: terms that stand for one another must score alike.
    doc_freq: Option<u64>,
    /// The document frequencies of the given terms.
    known: HashMap<Term, u64>,
    /// Documents that have the field. A value that does not fit the field's type may be in more documents than list
    /// the field, and no term may be in more documents than there are.
    docs: u64,
}

impl<'a> OfField<'a> {
    pub(crate) fn new(
        statistics: &'a Statistics,
        field: &'a FieldStatistics,
        doc_freq: Option<u64>,
        terms: &[Term],
        stop: &Stop,
    ) -> Result<Self> {
        let mut docs = field.docs.max(doc_freq.unwrap_or_default()).max(1);
        let mut known = HashMap::with_capacity(terms.len());
        let pace = stop.pace();
        for term in terms {
            pace.step(LOOKUP_STEPS * statistics.segments.len())?;
            let found = statistics.doc_freq(term).map_err(failed)?;
            docs = docs.max(found);
            known.insert(term.clone(), found);
        }
        Ok(Self {
            statistics,
            field,
            doc_freq,
            known,
            docs: docs.min(statistics.doc_count.max(1)),
        })
    }

    /// Returns the setting that makes a weight score with these statistics.
    pub(crate) fn enable(&self) -> EnableScoring<'_> {
        match &*EMPTY {
            Some(searcher) => EnableScoring::enabled_from_statistics_provider(self, searcher),
            None => EnableScoring::disabled_from_schema(&schema::fields().schema),
        }
    }
}

impl Bm25StatisticsProvider for OfField<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        // Zero would make lengths infinite.
        Ok(match self.field.norms {
            None => self.docs,
            Some(_) => self.field.tokens.max(1),
        })
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.docs)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        match self.doc_freq.or_else(|| self.known.get(term).copied()) {
            Some(doc_freq) => Ok(doc_freq),
            None => self.statistics.doc_freq(term),
        }
    }
}
