//! Cache key of a result: the request, and the parts of segments that it covers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use firn_engine::Scope;
use firn_model::mapping::Mapping;
use firn_model::metadata::Metadata;
use firn_segment::segment::{AliveBits, Segment};
use tantivy::DocId;
use tantivy::index::SegmentId;

/// All inputs of a result except the rows.
#[derive(Debug, Clone)]
pub struct CachedRequest {
    /// Key of the query and the aggregations, or of the request ([`firn_query::search::cache_key`]).
    key: Arc<[u8]>,
    /// The tenant whose documents count; empty: all documents.
    tenant: Arc<str>,
    /// The metadata against which names were resolved; another version may resolve them differently.
    against: Against,
}

/// Metadata for the resolution of names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Against {
    /// Names of fields.
    Mapping(Place<Mapping>),
    /// Names of indices too.
    Metadata(Place<Metadata>),
}

impl CachedRequest {
    pub(crate) fn new(key: Arc<[u8]>, tenant: Arc<str>, mapping: &Arc<Mapping>) -> Self {
        Self {
            key,
            tenant,
            against: Against::Mapping(Place::of(mapping)),
        }
    }
}

impl PartialEq for CachedRequest {
    fn eq(&self, other: &Self) -> bool {
        self.against == other.against && self.tenant == other.tenant && self.key == other.key
    }
}

impl Eq for CachedRequest {}

impl Hash for CachedRequest {
    // The metadata differs for most questions, and is hashed faster than a key.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.against.hash(state);
        self.tenant.hash(state);
        match &self.against {
            Against::Mapping(_) => self.key.len().hash(state),
            Against::Metadata(_) => self.key.hash(state),
        }
    }
}

/// Identity of a shared object by its address. The object need not live: its address is not reused as long as this
/// exists.
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

/// The part of a segment that a question covers. Two windows with the same part are the same question for the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// The whole segment.
    All,
    /// These rows.
    Rows(DocId, DocId),
    /// The documents with these timestamps, inclusive, as the column stores them.
    Instants(u64, u64),
}

/// A part of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    segment: SegmentId,
    coverage: Coverage,
    /// Live documents; `None`: all.
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

/// Stage of a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Result of a segment, to be merged.
    Segment {
        /// The segment was the only one of its shard, so `terms` were cut.
        whole_shard: bool,
    },
    /// Result of the request.
    Finished { typed_keys: bool, buckets_max: usize },
    /// The whole response to a caller with this scope.
    Response { scope: Scope, buckets_max: usize },
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    stage: Stage,
    parts: Vec<Part>,
    /// By shard; never empty.
    questions: Vec<CachedRequest>,
}

impl CacheKey {
    /// Returns the key of a segment's result.
    pub(crate) fn of_segment(question: &CachedRequest, part: Part, whole_shard: bool) -> Self {
        Self {
            stage: Stage::Segment { whole_shard },
            parts: vec![part],
            questions: vec![question.clone()],
        }
    }

    /// Returns the key of the result of a request with these questions and parts; `None`: there are no questions.
    pub(crate) fn of_request(
        questions: Vec<CachedRequest>,
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

    /// Returns the key of the response to a request with this key, sent by a caller with this scope.
    pub fn of_response(key: Arc<[u8]>, scope: &Scope, buckets_max: usize, metadata: &Arc<Metadata>) -> Self {
        let scope = scope.clone();
        Self {
            parts: Vec::new(),
            questions: vec![CachedRequest {
                key,
                tenant: scope.tenant_id().map_or("", |tenant| tenant.as_str()).into(),
                against: Against::Metadata(Place::of(metadata)),
            }],
            stage: Stage::Response { scope, buckets_max },
        }
    }

    /// Returns the tenant whose memory share the result counts for.
    pub(super) fn tenant(&self) -> &Arc<str> {
        &self.questions[0].tenant
    }

    /// Returns the segments that the key names.
    pub(super) fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.parts.iter().map(|part| part.segment)
    }

    /// Returns the approximate bytes of the key. Questions of a request share their key.
    pub(super) fn size_bytes(&self) -> usize {
        let own = self.parts.len() * size_of::<Part>() + self.questions.len() * size_of::<CachedRequest>();
        own + self.questions[0].key.len()
    }
}
