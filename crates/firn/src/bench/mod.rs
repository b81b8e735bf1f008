//! `firn bench`: figures side by side, made on the machine of whoever doubts them.

mod chart;
mod core;
mod discover;
mod events;
mod frozen;
mod grid;
mod layout;
mod page;
mod reading;
mod report;
mod start;
mod writing;

/// Arguments of `firn bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// Load the same events into one or two servers, ask both the same questions, and compare what it costs
    Core(Box<core::CoreArgs>),
    /// Lay the same events out in several ways, ask all of them the same questions, and compare the times
    Layout(Box<layout::LayoutArgs>),
    /// Measure the stages of Discover, and the same operations on another server
    Discover(Box<discover::DiscoverArgs>),
    /// Ask the same events hot, cold and frozen on an object store far away, and count what is fetched
    Frozen(Box<frozen::FrozenArgs>),
    /// Measure the time from starting firn on existing data to its first answer
    Start(start::StartArgs),
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<std::process::ExitCode> {
    match &args.command {
        BenchCommand::Core(args) => core::run(args),
        BenchCommand::Layout(args) => layout::run(args),
        BenchCommand::Discover(args) => discover::run(args),
        BenchCommand::Frozen(args) => frozen::run(args),
        BenchCommand::Start(args) => start::run(args),
    }
}
