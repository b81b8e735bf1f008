//! `firn bench storage`: searches by a leading wildcard over the last events while CEF lines come in, on several data paths.
//!
//! Follows a published comparison of storage below a search cluster: 1,600 CEF events a second arrive while 225 searches a second
//! of a short wildcard run over a window of 16 million events, and `took` of every search is recorded.

mod intake;
mod measure;
mod report;
mod searches;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use self::report::Report;
use self::subject::Subject;

/// Arguments of `firn bench storage`.
#[derive(Debug, clap::Args)]
pub(crate) struct StorageArgs {
    /// A data path to measure: a firn is started in a new folder below it; may be repeated
    #[arg(long = "path", value_name = "NAME=DIR", required = true)]
    paths: Vec<String>,
    /// A running OpenSearch or Elasticsearch, which gets the same load by bulk requests through an ingest pipeline
    #[arg(long, value_name = "URL")]
    peer_url: Option<String>,
    /// Events stored before the measurement; each search covers the same number
    #[arg(long, default_value_t = 16_000_000)]
    events: u64,
    /// CEF events per second
    #[arg(long, default_value_t = 1_600)]
    rate: u32,
    /// Searches per second
    #[arg(long, default_value_t = 225)]
    searches: u32,
    /// Duration of the measurement with searches, in seconds; a phase without searches, a quarter as long, precedes it
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Seed of the events and searches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write all figures, with `took` of every search, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &StorageArgs) -> anyhow::Result<ExitCode> {
    if args.rate == 0 || args.searches == 0 || args.seconds == 0 {
        bail!("--rate, --searches and --seconds must be at least 1");
    }
    let mut report = Report::new(args);
    for path in &args.paths {
        let (name, folder) = path
            .split_once('=')
            .with_context(|| format!("[{path}] is no data path: write NAME=DIR"))?;
        let subject = Subject::start(name, folder.as_ref())?;
        report.add(measure::run(args, &subject).with_context(|| name.to_owned())?);
    }
    if let Some(url) = &args.peer_url {
        let subject = Subject::peer(url)?;
        report.add(measure::run(args, &subject).with_context(|| url.clone())?);
    }
    print!("{}", report.markdown());
    if let Some(file) = &args.html {
        std::fs::write(file, report.html()).with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &args.json {
        std::fs::write(file, report.json().to_string()).with_context(|| file.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
