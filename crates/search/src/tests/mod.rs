//! Tests of searches over segments that the mapper built: `check` cases, and the property that answers do not
//! depend on the distribution of documents over segments.

mod aggregations;
mod best_scores;
mod buckets;
mod combinations;
mod distinct_counts;
mod extremes;
mod groups;
mod highlight;
mod hits;
mod hours;
mod many_values;
mod meaning;
mod metrics;
mod number_counts;
mod parts;
mod patterns;
mod products;
mod profile;
mod progress;
mod properties;
mod queries;
mod rounds;
mod samples;
mod scores;
mod split_formats;
mod splits;
mod support;
mod tenants;
mod text_queries;
mod totals;
mod zones;
