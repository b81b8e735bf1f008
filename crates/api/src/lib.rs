//! Elasticsearch 8 REST edge over an [`firn_engine::Engine`].
//!
//! It parses HTTP requests into the engine's types and writes the engine's results in Elasticsearch's shapes. One file
//! per family of endpoints; `router.rs` lists them all, `error.rs` alone builds statuses and error bodies. What firn
//! lacks is refused by name and never answered with a 200.
//!
//! The edge is a tower service directly on hyper: Elasticsearch's rules for paths, parameters, bodies and errors leave
//! nothing for a web framework to do (see `router.rs`).
//!
//! Everything is bounded: connections, concurrent requests, bytes and time of heads and bodies, bytes of all bodies
//! together, depth of JSON. When a client goes away, the future of its request is dropped, which cancels the work in
//! the engine.
//!
//! This crate opens no files and no sockets; the caller passes in the listener.

mod accounts;
mod admin;
mod aliases;
mod analyze;
mod async_search;
mod auth;
mod blocking;
mod body;
pub mod bulk;
mod by_query;
mod call;
mod cat;
mod cluster;
mod config;
mod console;
mod count;
mod data_stream_lifecycle;
mod data_streams;
mod discover;
mod dispatch;
mod document;
mod edge;
mod error;
mod field_caps;
mod filter_path;
mod form_urlencoded;
mod ilm;
mod indices;
mod json_body;
mod json_fields;
mod mappings;
mod media_type;
mod metrics;
mod metrics_registry;
mod mget;
mod msearch;
mod nodes;
mod offload;
mod params;
mod peer;
mod placement;
mod point_in_time;
mod preference;
mod pretty;
mod quarantine;
mod quotas;
mod recording;
mod recovery;
mod reply;
mod request_record;
mod resolve;
mod retained;
mod root;
mod router;
mod saved_objects;
mod scroll;
mod search;
mod security;
mod server;
mod sessions;
mod settings;
mod shared_point_in_time;
mod slm;
mod snapshots;
mod stats;
mod streaming;
mod task_registry;
mod tasks;
mod templates;
mod tenant_deletion;
mod tenant_usage;
mod tenants;
mod terms_enum;
mod validate;

pub use config::{ApiConfig, AsyncSearchLimits, DiscoverLimits, ExtraMetrics, FillRandom, Security, VersionInfo};
pub use console::{Asset, Assets};
pub use dispatch::{Api, router};
pub use error::error_type;
pub use nodes::is_node_role;
pub use request_record::{Caller, Recorder, RequestRecord, StageTiming};
pub use server::{Tls, serve};
pub use streaming::ResponseBody;
pub use tenants::set_cache_quotas;
