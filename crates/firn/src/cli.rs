//! The command line.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use firn_tools::{generate, ingest, layout};

use crate::settings::{SettingsError, markdown};
use crate::{catalog, demo, detect, keystore, pipeline, serve};

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
    /// Run the server
    Serve(serve::ServeArgs),
    /// Run a server with sample data
    Demo(demo::DemoArgs),
    /// Send NDJSON events to a server
    Ingest(ingest::IngestArgs),
    /// Write events of a fictional company
    Generate(generate::GenerateArgs),
    /// Compare servers
    Bench(firn_bench::BenchArgs),
    /// Run event pipelines, and map records to common fields
    Pipeline(pipeline::PipelineArgs),
    /// Evaluate detection rules on events
    Detect(detect::DetectArgs),
    /// Manage secrets that settings files should not contain
    Keystore(keystore::KeystoreArgs),
    /// Rebuild the catalog of a data folder
    Catalog(catalog::CatalogArgs),
    /// Recommend an index layout
    Layout(layout::LayoutArgs),
    /// List the settings of the server
    Settings(SettingsArgs),
}

#[derive(clap::Args)]
struct SettingsArgs {
    /// Print the reference page (docs/operate/settings.md)
    #[arg(long)]
    markdown: bool,
}

/// Runs the command of the command line.
pub(crate) fn main() -> ExitCode {
    let started = Instant::now();
    // A panic that becomes an error is not printed beside that error.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !firn_embedded::is_panic_reported() {
            print(panic);
        }
    }));
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args, started),
        Command::Demo(args) => demo::run(&args, started),
        Command::Ingest(args) => ingest::run(&args),
        Command::Generate(args) => generate::run(args).map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => firn_bench::run(&args),
        Command::Pipeline(args) => pipeline::run(&args),
        Command::Detect(args) => detect::run(&args),
        Command::Keystore(args) => keystore::run(&args),
        Command::Catalog(args) => catalog::run(&args),
        Command::Layout(args) => layout::run(&args),
        Command::Settings(args) => {
            let text = if args.markdown {
                markdown::markdown()
            } else {
                markdown::help()
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
