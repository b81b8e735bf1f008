//! firn: an event search server that speaks the Elasticsearch API.
//!
//! This crate is the outside of the program: the command line, settings, environment, clock and
//! signals. It picks the engine and wires it to the edge, and holds the tools that come along:
//! `ingest`, `generate`, `demo`, `bench` and `layout`.

// A program for a terminal: its output is for people, and goes there on purpose. Logs go
// through tracing.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod allocator;
mod bench;
mod catalog;
mod cli;
mod client;
mod console;
mod demo;
mod file_modes;
mod generate;
mod ingest;
mod keystore;
mod layout;
mod lifecycle;
mod logging;
mod metrics;
mod process;
mod records;
mod repositories;
mod scheduling;
mod security;
mod serve;
mod settings;
mod shared_cache;
mod tls;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
