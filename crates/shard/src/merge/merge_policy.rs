//! Merge policy: which segments the next merge reads.

use std::collections::BTreeMap;

use super::DELETED_PERCENT_MAX;
use crate::config::ShardConfig;
use crate::live_segments::LiveSegment;
use crate::state::State;

/// Segments with up to this many documents count as one size: one refresh per second creates those.
const SMALL_DOCS: u32 = 2_000;
/// Maximum number of segments in one merge.
const MERGE_WIDTH_MAX: usize = 32;

/// Returns the segments of the next merge, with at most `docs_max` documents in total; empty: no merge is due.
pub(super) fn choose(state: &State, config: &ShardConfig, docs_max: u32) -> Vec<u64> {
    let free = || {
        state
            .segments
            .iter()
            .filter(|segment| !state.merging.contains(&segment.generation()))
            .filter(|segment| segment.open.damage().is_none())
    };
    // Segments without live documents are removed at once; that costs nothing.
    let empty: Vec<u64> = free()
        .filter(|segment| segment.live_docs() == 0)
        .map(LiveSegment::generation)
        .collect();
    if !empty.is_empty() {
        return empty;
    }
    // Segments of one tenant are not merged with shared segments.
    let mut groups: BTreeMap<Option<&str>, Vec<&LiveSegment>> = BTreeMap::new();
    for segment in free() {
        groups
            .entry(segment.open.meta.own_tenant.as_deref())
            .or_default()
            .push(segment);
    }
    for (_, group) in groups {
        let chosen = choose_similar(&group, config, docs_max.min(config.merged_docs_max));
        if !chosen.is_empty() {
            return chosen;
        }
    }
    free()
        .filter(|segment| segment.live_docs() <= docs_max)
        .find(|segment| {
            u64::from(segment.deletes.count()) * 100 > u64::from(segment.open.meta.docs) * DELETED_PERCENT_MAX
        })
        .map(|segment| vec![segment.generation()])
        .unwrap_or_default()
}

/// Returns segments of similar size, if there are enough.
fn choose_similar(group: &[&LiveSegment], config: &ShardConfig, docs_max: u32) -> Vec<u64> {
    let mut tiers: BTreeMap<u32, Vec<&LiveSegment>> = BTreeMap::new();
    for segment in group {
        let large = segment.live_docs() > docs_max / 2 || segment.open.meta.size_bytes > config.merged_bytes_max / 2;
        if !large {
            let units = segment.live_docs().max(SMALL_DOCS) / SMALL_DOCS;
            tiers
                .entry(units.ilog(config.merge_factor.max(2) as u32))
                .or_default()
                .push(segment);
        }
    }
    let mut below: Vec<&LiveSegment> = Vec::new();
    for (_, tier) in tiers {
        if tier.len() >= config.merge_factor.max(2) {
            // Smaller segments are included: they would be merged soon anyway.
            let mut chosen = below;
            chosen.extend(tier);
            return within_limits(chosen, config, docs_max);
        }
        below.extend(tier);
    }
    Vec::new()
}

fn within_limits(mut segments: Vec<&LiveSegment>, config: &ShardConfig, docs_max: u32) -> Vec<u64> {
    segments.sort_by_key(|segment| segment.live_docs());
    let (mut docs, mut bytes) = (0u64, 0u64);
    let mut chosen = Vec::new();
    for segment in segments.into_iter().take(MERGE_WIDTH_MAX) {
        docs += u64::from(segment.live_docs());
        bytes += segment.open.meta.size_bytes;
        if docs > u64::from(docs_max) || bytes > config.merged_bytes_max {
            break;
        }
        chosen.push(segment.generation());
    }
    if chosen.len() < 2 { Vec::new() } else { chosen }
}

/// Returns the smallest segments, as many as must become one; a single one if rewriting it has a benefit.
pub(super) fn choose_forced(state: &State, max_segments: usize) -> Vec<u64> {
    let mut segments: Vec<&LiveSegment> = state
        .segments
        .iter()
        .filter(|segment| segment.open.damage().is_none())
        .collect();
    segments.sort_by_key(|segment| segment.live_docs());
    if segments.len() > max_segments {
        let count = segments.len() - max_segments + 1;
        return segments[..count].iter().map(|segment| segment.generation()).collect();
    }
    match &segments[..] {
        [only] if only.deletes.count() > 0 || only.open.is_unclustered() => vec![only.generation()],
        _ => Vec::new(),
    }
}
