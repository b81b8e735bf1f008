//! Parsers: one file per format. Each reads one record and pushes its fields into a [`FieldSink`](crate::event::FieldSink).

mod error;

pub use error::ParseError;
