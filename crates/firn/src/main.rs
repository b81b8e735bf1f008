//! firn: an event search server that speaks the Elasticsearch API.
//!
//! This crate is the program around the library crates: the command line, settings, environment, clock and signals. It
//! selects the engine, connects it to the HTTP API, and contains the tools `ingest`, `generate`, `demo`, `bench` and
//! `layout`.

// A program for a terminal prints its output on purpose. Logs go through tracing.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod alert_delivery;
mod allocator;
mod catalog;
mod cli;
mod clock;
mod console;
mod demo;
mod detect;
mod event_pipelines;
mod file_modes;
mod geoip;
mod keystore;
mod lifecycle;
mod logging;
mod metrics;
mod pipeline;
mod records;
mod repositories;
mod rule_budget;
mod scheduling;
mod security;
mod serve;
mod settings;
mod settings_args;
mod shared_cache;
mod tls;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
