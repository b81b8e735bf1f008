//! `firn bench`: benchmarks that compare servers on the user's machine.

// A program for a terminal prints its output on purpose. Logs go through tracing.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod alerts;
mod chart;
mod core;
mod detect;
mod discover;
mod events;
mod frozen;
mod layout;
mod load;
mod markdown_table;
mod page;
mod pipeline;
mod reading;
mod report;
mod start;
mod storage;
mod writing;

/// Arguments of `firn bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// Send events to a server that this command starts, and measure the time to the mail of an alert
    Alerts(alerts::AlertsArgs),
    /// Load the same events into one or two servers, run the same queries on both, and compare the cost
    Core(Box<core::CoreArgs>),
    /// Store the same events in several layouts, run the same queries on all of them, and compare the times
    Layout(Box<layout::LayoutArgs>),
    /// Send small requests of many clients at once to one or two servers, and compare rates and times
    Load(Box<load::LoadArgs>),
    /// Measure the stages of Discover, and the same operations on another server
    Discover(Box<discover::DiscoverArgs>),
    /// Measure the CPU time of evaluating detection rules on recorded Windows events
    Detect(detect::DetectArgs),
    /// Query the same events hot, cold and frozen on a remote object store, and count the fetched bytes
    Frozen(Box<frozen::FrozenArgs>),
    /// Measure the CPU time of parsing, mapping and lookups of the event pipeline, without indexing
    Pipeline(pipeline::PipelineArgs),
    /// Search by a leading wildcard during ingest of CEF events, on several data paths, and compare the times
    Storage(storage::StorageArgs),
    /// Measure the time from the start of firn on existing data to its first response
    Start(start::StartArgs),
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> anyhow::Result<std::process::ExitCode> {
    match &args.command {
        BenchCommand::Alerts(args) => alerts::run(args),
        BenchCommand::Core(args) => core::run(args),
        BenchCommand::Layout(args) => layout::run(args),
        BenchCommand::Load(args) => load::run(args),
        BenchCommand::Discover(args) => discover::run(args),
        BenchCommand::Detect(args) => detect::run(args),
        BenchCommand::Frozen(args) => frozen::run(args),
        BenchCommand::Pipeline(args) => pipeline::run(args),
        BenchCommand::Storage(args) => storage::run(args),
        BenchCommand::Start(args) => start::run(args),
    }
}
