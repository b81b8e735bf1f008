//! Core data model of firn: index names, mappings, settings, aliases, templates, data streams, document ids.
//!
//! Everything here is a value or a pure function. This crate opens no file and no socket, reads no clock and draws no
//! random number: time and identifiers come in as arguments.

pub mod dates;
pub mod error;
pub mod ids;
pub mod ilm;
pub mod json_depth;
pub mod lifecycle;
pub mod mapping;
pub mod metadata;
pub mod names;
pub mod period;
pub mod placement;
pub mod repository;
pub mod routing;
pub mod settings;
pub mod shared_map;
pub mod slm;
pub mod tenant;
pub mod tier;

pub use error::{Error, ErrorKind, Result};
