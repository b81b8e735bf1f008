//! Parts of the search request around its queries and aggregations.

use firn_model::names::IndicesOptions;

use super::{Accept, Visitor, accept_fields, accept_variants};
use crate::search::{
    BoundaryScanner, Collapse, FieldSpec, Highlight, HighlightBudget, HighlightField, HighlightOptions, Highlighter,
    HitShape, IndexTarget, InnerHits, NumericType, PointInTime, SearchRequest, Slice, SortBy, SortKey, SortMissing,
    SortMode, TrackTotalHits,
};
use crate::source::SourceFilter;

impl Accept for SearchRequest {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self {
            target,
            query,
            post_filter,
            from,
            size,
            sort,
            search_after,
            shape,
            collapse,
            aggs,
            typed_keys,
            indices_boost,
            profile,
            track_total_hits,
            track_scores,
            min_score,
            timeout,
            request_cache,
            terminate_after,
            routing,
            only_shards,
            allow_partial_results,
            point_in_time,
            scroll,
            slice,
            concurrent_shards_max,
        } = self;
        target.accept(visitor);
        query.accept(visitor);
        post_filter.accept(visitor);
        from.accept(visitor);
        size.accept(visitor);
        sort.accept(visitor);
        search_after.accept(visitor);
        shape.accept(visitor);
        collapse.accept(visitor);
        aggs.accept(visitor);
        typed_keys.accept(visitor);
        visitor.number(indices_boost.len() as u64);
        for (name, boost) in indices_boost {
            visitor.index_name(name);
            boost.accept(visitor);
        }
        profile.accept(visitor);
        track_total_hits.accept(visitor);
        track_scores.accept(visitor);
        min_score.accept(visitor);
        timeout.accept(visitor);
        request_cache.accept(visitor);
        terminate_after.accept(visitor);
        routing.accept(visitor);
        only_shards.accept(visitor);
        allow_partial_results.accept(visitor);
        point_in_time.accept(visitor);
        scroll.accept(visitor);
        slice.accept(visitor);
        concurrent_shards_max.accept(visitor);
    }
}

impl Accept for IndexTarget {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self { expression, options } = self;
        visitor.number(expression.len() as u64);
        for name in expression {
            visitor.index_name(name);
        }
        options.accept(visitor);
    }
}

accept_fields!(IndicesOptions {
    ignore_unavailable,
    allow_no_indices,
    expand_open,
    expand_closed,
    expand_hidden
});
accept_variants!(TrackTotalHits {
    Exact,
    UpTo(count),
    No,
});
accept_fields!(PointInTime { id, keep_alive });
accept_fields!(Slice { field, id, max });

accept_fields!(SortKey {
    by,
    descending,
    missing,
    mode,
    unmapped_type,
    numeric_type,
    format
});
accept_variants!(SortBy {
    Score,
    Doc,
    ShardDoc,
    Field(path),
});
accept_variants!(SortMissing {
    Last,
    First,
    Value(value),
});
accept_variants!(SortMode {
    Min,
    Max,
    Sum,
    Avg,
    Median,
});
accept_variants!(NumericType {
    Long,
    Double,
    Date,
    DateNanos,
});

accept_fields!(Collapse { field, inner_hits });
accept_fields!(InnerHits {
    name,
    from,
    size,
    sort,
    track_scores,
    collapse,
    shape
});
accept_fields!(HitShape {
    source,
    fields,
    docvalue_fields,
    stored_fields,
    no_stored_fields,
    version,
    seq_no_primary_term,
    named_query_scores,
    highlight
});
accept_variants!(SourceFilter {
    All,
    None,
    Paths { includes, excludes },
});
accept_fields!(FieldSpec { field, format });

accept_fields!(Highlight { fields, budget });
accept_fields!(HighlightBudget { field_chars, spent_max });
accept_fields!(HighlightField { pattern, options });
accept_fields!(HighlightOptions {
    highlighter,
    pre_tag,
    post_tag,
    fragment_size,
    number_of_fragments,
    by_score,
    require_field_match,
    no_match_size,
    query,
    boundary_scanner,
    html,
    simple_fragmenter,
    max_analyzed_offset
});
accept_variants!(Highlighter { Unified, Plain, Fvh });
accept_variants!(BoundaryScanner { Sentence, Word, Chars });
