//! Parsers: one file per format. Each reads one record and pushes its fields into a [`FieldSink`](crate::event::FieldSink).

pub mod access_log;
pub mod cef;
pub mod csv;
pub mod dissect;
mod error;
pub mod framing;
pub mod grok;
pub mod json;
pub mod key_value;
pub mod leef;
pub mod syslog;
#[cfg(test)]
mod testing;
pub mod windows_xml;

pub use error::ParseError;
