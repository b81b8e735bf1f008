//! Interface between firn's API layer and the engines that store the events.
//!
//! `api` parses a request into types of `firn_query` and of this crate, and hands it to an [`Engine`]; `embedded` (and later
//! `remote`) implement it. Here are the trait, the request context, and the nouns of requests and answers.
//!
//! This crate never opens a file or a socket and knows neither HTTP nor Tantivy.

pub mod admin;
pub mod capabilities;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod context;
pub mod cost;
pub mod disclosure;
pub mod document;
pub mod fair_semaphore;
pub mod fields;
pub mod mounts;
pub mod origin;
pub mod progress;
pub mod quarantine;
pub mod recovery;
mod request_cost;
pub mod scope;
pub mod snapshot;
pub mod task;
pub mod tenant_usage;
pub mod terms_enum;
pub mod tiers;
mod traits;

pub use capabilities::{Capabilities, Capability, Knowledge};
pub use fair_semaphore::{FairPermit, FairSemaphore};
pub use firn_model::{Error, ErrorKind, Result};
pub use progress::Progress;
pub use request_cost::{Work, WorkDone};
pub use scope::Scope;
pub use task::{BackgroundTask, RequestContext};
pub use tenant_usage::{StoredByTier, TenantUsage};
pub use traits::Engine;
