//! What names an answer: the question, and what of which segments it was asked of.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use firn_model::mapping::Mapping;
use firn_model::metadata::Metadata;
use tantivy::DocId;
use tantivy::index::SegmentId;

use crate::segment::{AliveBits, Segment};

/// Everything that the answer of some rows depends on, apart from the rows.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// The query and the aggregations, printed.
    text: Arc<str>,
    /// Whose documents; empty: everybody's.
    tenant: Arc<str>,
    /// What names in it were resolved against; another one may resolve them otherwise.
    against: Against,
}

/// What names are resolved against.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Against {
    /// Those of fields.
    Mapping(Place<Mapping>),
    /// Those of indices, too.
    Metadata(Place<Metadata>),
}

impl Question {
    pub(crate) fn new(text: Arc<str>, tenant: Arc<str>, mapping: &Arc<Mapping>) -> Self {
        Self {
            text,
            tenant,
            against: Against::Mapping(Place::of(mapping)),
        }
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.against == other.against && self.tenant == other.tenant && self.text == other.text
    }
}

impl Eq for Question {}

impl Hash for Question {
    // Where it was resolved tells most of them apart, and is hashed faster than a text.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.against.hash(state);
        self.tenant.hash(state);
        match &self.against {
            Against::Mapping(_) => self.text.len().hash(state),
            Against::Metadata(_) => self.text.hash(state),
        }
    }
}

/// Tells something shared from all others by where it is. It need not live on: its place is not used
/// again as long as this is kept.
struct Place<T>(Weak<T>);

impl<T> Place<T> {
    fn of(shared: &Arc<T>) -> Self {
        Self(Arc::downgrade(shared))
    }
}

impl<T> fmt::Debug for Place<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:p}", self.0.as_ptr())
    }
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<T> PartialEq for Place<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl<T> Eq for Place<T> {}

impl<T> Hash for Place<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

/// Which part of a segment a question was asked of. Two windows that cover the same part are the
/// same question to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Coverage {
    /// All of it.
    All,
    /// These rows.
    Rows(DocId, DocId),
    /// What has these instants, inclusive, as the column stores them.
    Instants(u64, u64),
}

/// A part of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    segment: SegmentId,
    coverage: Coverage,
    /// Which documents are alive; `None`: all.
    alive: Option<Place<AliveBits>>,
}

impl Part {
    pub(crate) fn new(segment: &Segment, coverage: Coverage) -> Self {
        Self {
            segment: segment.reader.segment_id(),
            coverage,
            alive: segment.alive.as_ref().map(Place::of),
        }
    }

    #[cfg(test)]
    pub(super) fn of_id(segment: SegmentId, coverage: Coverage) -> Self {
        Self {
            segment,
            coverage,
            alive: None,
        }
    }
}

/// How far an answer has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It is a segment's, to be merged.
    Segment {
        /// The segment was all that its shard had to say, so `terms` were cut.
        whole_shard: bool,
    },
    /// It is the request's.
    Finished { typed_keys: bool, buckets_max: usize },
    /// It is all that the client gets.
    Response,
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    stage: Stage,
    parts: Vec<Part>,
    /// By shard; never empty.
    questions: Vec<Question>,
}

impl Name {
    /// Of what one segment answers.
    pub(crate) fn of_segment(question: &Question, part: Part, whole_shard: bool) -> Self {
        Self {
            stage: Stage::Segment { whole_shard },
            parts: vec![part],
            questions: vec![question.clone()],
        }
    }

    /// Of what a request is answered that asks these questions of these parts; `None`: it asks none.
    pub(crate) fn of_request(
        questions: Vec<Question>,
        parts: Vec<Part>,
        typed_keys: bool,
        buckets_max: usize,
    ) -> Option<Self> {
        let stage = Stage::Finished {
            typed_keys,
            buckets_max,
        };
        (!questions.is_empty()).then_some(Self {
            stage,
            parts,
            questions,
        })
    }

    /// Of a request that is known by its text alone.
    pub(crate) fn of_text(text: Arc<str>, tenant: Arc<str>, metadata: &Arc<Metadata>) -> Self {
        Self {
            stage: Stage::Response,
            parts: Vec::new(),
            questions: vec![Question {
                text,
                tenant,
                against: Against::Metadata(Place::of(metadata)),
            }],
        }
    }

    /// Whose memory the answer is.
    pub(super) fn tenant(&self) -> &Arc<str> {
        &self.questions[0].tenant
    }

    /// The segments that it is about.
    pub(super) fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.parts.iter().map(|part| part.segment)
    }

    /// Rough bytes of the name itself. Texts are shared by the questions of a request.
    pub(super) fn size_bytes(&self) -> usize {
        let own = self.parts.len() * size_of::<Part>() + self.questions.len() * size_of::<Question>();
        own + self.questions[0].text.len()
    }
}
