//! Handlers of all endpoints, one file or folder per family.
//!
//! A handler gets the shared [`crate::state::edge::Edge`] and one [`call::Call`], and returns a
//! [`crate::wire::reply::Reply`]. Imports [`crate::state`] and [`crate::wire`].

pub(crate) mod admin;
pub(crate) mod alert_channels;
pub(crate) mod alerts;
pub(crate) mod aliases;
pub(crate) mod analyze;
pub(crate) mod async_search;
pub mod bulk;
pub(crate) mod by_query;
pub(crate) mod call;
pub(crate) mod cat;
pub(crate) mod cluster;
pub(crate) mod count;
pub(crate) mod data_stream_lifecycle;
pub(crate) mod data_streams;
pub(crate) mod detection_rules;
pub(crate) mod discover;
pub(crate) mod document;
pub(crate) mod document_params;
pub(crate) mod enrich;
pub(crate) mod event_pipelines;
pub(crate) mod field_caps;
pub(crate) mod ilm;
pub(crate) mod indices;
pub(crate) mod ingest;
pub(crate) mod mappings;
pub(crate) mod metrics;
pub(crate) mod mget;
pub(crate) mod msearch;
pub(crate) mod nodes;
pub(crate) mod placement;
pub(crate) mod point_in_time;
pub(crate) mod quarantine;
pub(crate) mod recovery;
pub(crate) mod resolve;
pub(crate) mod root;
pub(crate) mod rule_test;
pub(crate) mod saved_objects;
pub(crate) mod scroll;
pub(crate) mod search;
pub(crate) mod security;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod shared_point_in_time;
pub(crate) mod slm;
pub(crate) mod snapshots;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod templates;
pub(crate) mod tenant_deletion;
pub(crate) mod tenant_usage;
pub(crate) mod tenants;
pub(crate) mod terms_enum;
pub(crate) mod validate;
