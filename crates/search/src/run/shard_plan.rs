//! Compiled search of one shard, the same for all of its segments.

use std::sync::atomic::AtomicU64;

use firn_segment::segment::Segment;
use tantivy::Score;
use tantivy::query::Weight;

use super::collapse::GroupField;
use super::matching_docs::Selection;
use super::profile::ShardTimes;
use crate::After;
use crate::aggs::Plan;
use crate::pruning::segment_pruning;
use crate::result_cache::cached_segments::Repeatable;
use crate::sort::ShardKey;

/// Inclusive bounds of `@timestamp`, ms.
pub(crate) type TimeBounds = Option<(i64, i64)>;

/// See the module.
pub(crate) struct ShardPlan {
    /// The matching documents.
    pub(crate) selection: Selection,
    /// The score of every hit, if it is the same for all.
    pub(crate) constant_score: Option<Score>,
    /// The search needs scores, and they differ.
    pub(crate) scoring: bool,
    /// Sort keys, most significant first; never empty.
    pub(crate) keys: Vec<ShardKey>,
    /// The position after which hits start.
    pub(crate) after: Option<After>,
    /// Aggregations.
    pub(crate) aggs: Plan,
    /// All visible documents, for aggregations that read past the query.
    pub(crate) everything: Selection,
    /// Cache key for the partial aggregation results of segments, or, without aggregations, for their hit counts;
    /// `None`: they are not cached.
    pub(crate) repeatable: Option<Repeatable>,
    /// The field of `collapse`: one hit for each of its values.
    pub(crate) collapse: Option<GroupField>,
    /// The `post_filter`: hits must match it in addition to the query, aggregations ignore it.
    pub(crate) post_filter: Option<Box<dyn Weight>>,
    /// The measurements of `profile`, if requested.
    pub(crate) times: Option<ShardTimes>,
    /// The shard has only one segment to search.
    pub(crate) single_segment: bool,
    /// Documents collected so far, for `terminate_after`.
    pub(crate) collected: AtomicU64,
}

impl ShardPlan {
    /// Returns whether the first hits can be found without reading all matches in index order.
    pub(crate) fn may_read_newest_first(&self) -> bool {
        let by_time = self.keys.first().is_some_and(ShardKey::is_timestamp);
        by_time && !self.scoring && self.collapse.is_none() && self.post_filter.is_none()
    }

    /// Returns whether documents whose scores are too low for the first hits need not be read.
    pub(crate) fn may_read_best_first(&self) -> bool {
        let by_score = self.keys.first().is_some_and(ShardKey::is_best_score);
        by_score && self.scoring && self.collapse.is_none() && self.post_filter.is_none()
    }

    /// Returns whether a segment must be searched, if every match is within these time bounds.
    pub(crate) fn must_search(&self, segment: &Segment, bounds: TimeBounds) -> bool {
        let tenant = self.selection.tenant();
        let in_time = segment_pruning::overlaps(segment_pruning::time_range_of(segment, tenant), bounds);
        let may_match = !self.selection.is_none() && !segment_pruning::lacks(segment, tenant) && in_time;
        segment.max_doc > segment.deleted_count && (may_match || self.aggs.wants_zeros())
    }
}
