//! Query language: query DSL, aggregations with their partial results, search requests, and the expression language.
//!
//! Each query and aggregation is parsed, printed and described by one file in [`query`] or [`aggs`]; partial results of
//! aggregations merge in any order. This crate knows no engine, no scope and no tenant, and opens nothing.

pub mod aggs;
mod cancel;
pub mod expression;
pub mod inventory;
pub mod json;
pub mod query;
pub mod search;
pub mod source;

pub use cancel::{Cancel, Watch};
