//! Tools beside the server: generation and ingest of events, an HTTP client, and the layout advisor.
//!
//! They speak to a running server through its HTTP API and know nothing of its inside.

// A program for a terminal prints its output on purpose. Logs go through tracing.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod client;
pub mod generate;
pub mod ingest;
pub mod layout;
pub mod process;
pub mod rule_files;
