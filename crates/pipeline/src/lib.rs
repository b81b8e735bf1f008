//! Event pipeline: from the bytes of a source to an enriched event with common fields (ECS).
//!
//! A parser reads one record (a CEF line, a JSON object, an access-log line) and pushes its fields, one at a time, into a
//! [`FieldSink`](event::FieldSink). There is no tree and no list between the two: the sink of a mapping looks the name up
//! and puts the value into the slot of its ECS field, the sink of an ingest processor puts it into a document. Values
//! borrow from the record wherever the record holds them as they are.
//!
//! This crate opens no socket of a search engine, serves no HTTP and knows neither Tantivy nor the engine that stores the
//! events.

pub mod aggregation;
mod clock;
pub mod definition;
pub mod event;
pub mod mapping;
mod murmur3;
pub mod parsed_rules;
pub mod parsers;
pub mod processors;
pub mod rule_budget;
pub mod rule_history;
pub mod run_mark;
pub mod runner;
pub mod sources;
pub mod tables;
