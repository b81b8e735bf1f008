//! Segments on Tantivy: schema, analysis, columns, deletes, commit points, and segments as splits in object storage.
//!
//! **A segment is a Tantivy index of exactly one Tantivy segment in a separate folder**, with the same [`schema`] in every index of
//! firn, so new fields never need a new schema. firn, not Tantivy, records which documents of a segment are live and which segments
//! a shard has. This crate knows no query, no WAL and no repository.

pub mod analysis;
pub mod block_checksums;
pub mod catalog_version;
pub mod columns;
pub mod commit_point;
pub mod deletes;
pub mod directory;
pub mod distinct;
pub mod field_lengths;
pub mod frozen_segment;
pub mod path_lengths;
pub mod schema;
pub mod segment;
pub mod segment_cache;
pub mod segment_memo;
pub mod splits;
pub mod stored_documents;
pub mod tenant_file;
pub mod tenants;
pub mod varint;
pub mod zones;
