//! Elasticsearch's formats on HTTP: media types, parameters, bodies, errors and replies.
//!
//! Lowest layer of the crate. It knows neither the engine's state nor any endpoint.

pub(crate) mod blocking;
pub(crate) mod body;
pub(crate) mod error;
pub(crate) mod filter_path;
pub(crate) mod form_urlencoded;
pub(crate) mod json_body;
pub(crate) mod json_fields;
pub(crate) mod media_type;
pub(crate) mod params;
pub(crate) mod peer;
pub(crate) mod preference;
pub(crate) mod pretty;
pub(crate) mod reply;
pub(crate) mod streaming;
