//! State of the edge that outlives a request, and its configuration.
//!
//! Handlers reach all of it through [`edge::Edge`]. Imports only [`crate::wire`].

pub(crate) mod accounts;
pub(crate) mod async_search_store;
pub(crate) mod auth;
pub(crate) mod by_query_progress;
pub(crate) mod config;
pub(crate) mod console_assets;
pub(crate) mod disclosure;
pub(crate) mod discover_store;
pub(crate) mod edge;
pub(crate) mod enrich_tables;
pub(crate) mod host;
pub(crate) mod ingest;
pub(crate) mod metrics;
pub(crate) mod partial_results;
pub(crate) mod partition_claims;
pub(crate) mod quotas;
pub(crate) mod request_record;
pub(crate) mod retained;
pub(crate) mod rule_definitions;
pub(crate) mod tasks;
pub(crate) mod tls;
