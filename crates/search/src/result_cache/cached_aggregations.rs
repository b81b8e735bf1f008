//! Response cache of whole requests.
//!
//! If all segments would return their cached partial results, and no document was added or deleted since, the
//! earlier answer is still valid: it needs no merge and no finishing.

use std::sync::Arc;

use firn_model::Result;
use firn_query::search::{SearchRequest, bytes_of_value};
use firn_segment::splits::dry_run::catch;
use serde_json::Value;

use crate::result_cache::{Answer, CacheKey, Found, Part, ShardCache};
use crate::run::matching_docs::DocRange;
use crate::run::prepared_shard::{PreparedShard, Task};

/// Cache key of a request's answer.
pub(crate) struct CachedAggregations<'a> {
    name: CacheKey,
    /// The cache of the first shard, which accounts for the memory.
    cache: &'a ShardCache,
}

impl<'a> CachedAggregations<'a> {
    /// Creates a key; `None`: the answer depends on more than the parts of segments that the tasks read.
    pub(crate) fn of(
        ready: &'a [PreparedShard],
        tasks: &[Task],
        request: &SearchRequest,
        buckets_max: usize,
    ) -> Result<Option<Self>> {
        let is_plain = request.size == 0 && request.min_score.is_none() && request.terminate_after == 0;
        if !is_plain || request.aggs.0.is_empty() || request.profile {
            return Ok(None);
        }
        let mut questions = Vec::with_capacity(ready.len());
        for shard in ready {
            match &shard.plan().repeatable {
                Some(repeatable) if !shard.plan().aggs.wants_zeros() => questions.push(repeatable.question().clone()),
                _ => return Ok(None),
            }
        }
        let mut parts = Vec::with_capacity(tasks.len());
        for task in tasks {
            // The search itself reports missing or unreadable data.
            let Ok(reach) = catch(|| ready[task.shard].plan().selection.reach(&task.segment)) else {
                return Ok(None);
            };
            match (reach.coverage(), reach) {
                (Some(coverage), _) => parts.push(Part::new(&task.segment, coverage)),
                (None, DocRange::Nothing) => {}
                (None, _) => return Ok(None),
            }
        }
        let cache = ready.first().and_then(|shard| shard.plan().repeatable.as_ref());
        let name = CacheKey::of_request(questions, parts, request.typed_keys, buckets_max);
        Ok(name.zip(cache).map(|(name, repeatable)| Self {
            name,
            cache: repeatable.cache(),
        }))
    }

    /// Returns the cached answer; counts a cache hit for each shard.
    pub(crate) fn get(&self, ready: &[PreparedShard]) -> Option<(u64, Arc<Value>)> {
        let answer = self.cache.peek(&self.name)?;
        let Found::Finished(aggregations) = &answer.found else {
            return None;
        };
        for repeatable in ready.iter().filter_map(|shard| shard.plan().repeatable.as_ref()) {
            repeatable.cache().count_hit();
        }
        Some((answer.total, Arc::clone(aggregations)))
    }

    /// Caches a complete answer.
    pub(crate) fn put(self, tasks: &[Task], total: u64, aggregations: &Arc<Value>) {
        for task in tasks {
            self.cache.watch(&task.segment);
        }
        let answer = Answer {
            total,
            bytes: bytes_of_value(aggregations),
            found: Found::Finished(Arc::clone(aggregations)),
        };
        self.cache.put(self.name, answer);
    }
}
