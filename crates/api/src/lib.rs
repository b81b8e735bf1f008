//! Elasticsearch 8 REST edge over an [`firn_engine::Engine`].
//!
//! It parses HTTP requests into the engine's types and writes the engine's results in Elasticsearch's shapes. What firn
//! lacks is refused by name and never answered with a 200.
//!
//! Four layers, each a folder; imports go down only:
//!
//! - `edge`: connections, the table of all endpoints (`edge/router.rs`), dispatch;
//! - `endpoints`: handlers, one file or folder per family of endpoints;
//! - `state`: what outlives a request, and the configuration;
//! - `wire`: formats; `wire/error.rs` alone builds statuses and error bodies.
//!
//! The edge is a tower service directly on hyper: Elasticsearch's rules for paths, parameters, bodies and errors leave
//! nothing for a web framework to do (see `edge/router.rs`).
//!
//! Everything is bounded: connections, concurrent requests, bytes and time of heads and bodies, bytes of all bodies
//! together, depth of JSON. When a client goes away, the future of its request is dropped, which cancels the work in
//! the engine.
//!
//! This crate opens no files and no sockets; the caller passes in the listener.

mod edge;
mod endpoints;
mod state;
mod wire;

pub use edge::dispatch::{Api, router};
pub use edge::server::serve;
pub use edge::worker::{WorkerMetrics, serve_worker};
pub use endpoints::bulk;
pub use endpoints::nodes::is_node_role;
pub use endpoints::tenants::set_cache_quotas;
pub use state::config::{
    ApiConfig, AsyncSearchLimits, DiscoverLimits, ExtraMetrics, FillRandom, Security, VersionInfo,
};
pub use state::console_assets::{Asset, Assets};
pub use state::request_record::{Caller, Recorder, RequestRecord, StageTiming};
pub use state::tls::Tls;
pub use wire::error::error_type;
pub use wire::streaming::ResponseBody;
