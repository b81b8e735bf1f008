//! The command line.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::ingest;
use crate::settings::{self, SettingsError};

/// `EX_CONFIG` of sysexits.h.
const EXIT_CONFIG: u8 = 78;

#[derive(Parser)]
#[command(
    name = "firn",
    version,
    about = "An event search server that speaks the Elasticsearch API",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send NDJSON events to a server
    Ingest(ingest::IngestArgs),
    /// List the settings of the server
    Settings(SettingsArgs),
}

#[derive(clap::Args)]
struct SettingsArgs {
    /// Print the reference page (docs/operate/settings.md)
    #[arg(long)]
    markdown: bool,
}

/// Runs the command that the process was called with.
pub(crate) fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Ingest(args) => ingest::run(&args),
        Command::Settings(args) => {
            let text = if args.markdown {
                settings::markdown::markdown()
            } else {
                settings::markdown::help()
            };
            // `firn settings | head` closes the pipe early, which is no error.
            let _ = std::io::stdout().write_all(text.as_bytes());
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("firn: {error:#}");
        if error.is::<SettingsError>() {
            ExitCode::from(EXIT_CONFIG)
        } else {
            ExitCode::FAILURE
        }
    })
}
