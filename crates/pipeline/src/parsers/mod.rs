//! Parsers: one file per format. Each reads one record and pushes its fields into a [`FieldSink`](crate::event::FieldSink).

pub mod cef;
mod error;
pub mod leef;
#[cfg(test)]
mod testing;

pub use error::ParseError;
