//! Searching segments made by the mapper: `check` cases, and a property that the answer does not
//! depend on how documents fell into segments.

mod aggregations;
mod buckets;
mod combinations;
mod extremes;
mod groups;
mod highlight;
mod hits;
mod hours;
mod many_values;
mod meaning;
mod metrics;
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
