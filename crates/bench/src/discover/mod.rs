//! `firn bench discover`: the time of the four stages of Discover over HTTP, for a large and a middle tenant over one
//! day to four weeks, and of the same four operations on another server.
//!
//! The events are those of `firn bench layout` ([`crate::layout`]), loaded before with `--load-only`; an option for
//! each side names the index expression with the events.

mod asking;
mod figures;
mod peer;
mod report;
mod stages;
mod tail;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use self::asking::QuestionRunner;
pub(super) use self::asking::stage_result;
use self::report::{Report, Tenant};
use self::stages::Size;
use super::core::{Side, command_line};
use super::layout::volumes::{Source, Volume};
use firn_tools::client::Credentials;
use firn_tools::process::Hardware;

/// Arguments of `firn bench discover`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscoverArgs {
    /// URL of the firn server
    #[arg(long, value_name = "URL")]
    url: String,
    /// Index expression of the events there
    #[arg(long, value_name = "INDEX", default_value = "bench-layout-own")]
    index: String,
    /// URL of an Elasticsearch or OpenSearch server for the same operations
    #[arg(long, value_name = "URL")]
    vs: Option<String>,
    /// Index expression of the events there
    #[arg(long, value_name = "INDEX", default_value = "bench-layout-daily-*")]
    vs_index: String,
    #[command(flatten)]
    credentials: Credentials,
    /// Number of loaded events
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
    /// Number of their tenants
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(3..=10_000))]
    tenants: u16,
    /// Number of weeks that they cover
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=520))]
    weeks: u32,
    /// Seed of the events
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fields whose distinct values are counted
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=200))]
    fields: u16,
    /// Repetitions of each query, each with other time bounds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    repeats: u16,
    /// Events that are written for the live tail; 0 skips this part
    #[arg(long, default_value_t = 30)]
    tail_events: usize,
    /// Warm-up rounds over all queries that are not measured
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=100))]
    warm_up_rounds: u16,
    /// Write all results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables to this file as well as to the terminal
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Runs the queries and writes the report.
pub(super) fn run(args: &DiscoverArgs) -> anyhow::Result<ExitCode> {
    let firn = Side::connect(&args.url, &args.credentials, None, None)?;
    ensure!(
        firn.server.version.starts_with("firn "),
        "{} is not firn; only firn has the Discover API",
        args.url
    );
    let peer = match &args.vs {
        Some(url) => Some(Side::connect(url, &args.credentials, None, None)?),
        None => None,
    };
    let source = Source {
        seed: args.seed,
        events: args.events,
        tenants: usize::from(args.tenants),
        weeks: args.weeks,
    };
    eprintln!("counting the events of each tenant");
    let volumes = source.volumes()?;
    let chosen = [
        (Size::Large, volumes.first().context("there are no tenants")?),
        (Size::Middle, &volumes[volumes.len() / 2]),
    ];
    let asker = QuestionRunner {
        firn: &firn,
        index: &args.index,
        peer: peer.as_ref(),
        peer_index: &args.vs_index,
        repeats: usize::from(args.repeats),
        warm_up_rounds: usize::from(args.warm_up_rounds),
        seed: args.seed,
        fields: asking::fields(&firn, &args.index, usize::from(args.fields))?,
    };
    let rows = asker.run(&source, chosen)?;
    let tail = match args.tail_events {
        0 => None,
        events => Some(tail::run(&firn, events).context("the live tail")?),
    };
    let QuestionRunner { fields, .. } = asker;
    let report = Report {
        command: command_line(),
        time: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        hardware: Hardware::read(),
        server: firn.server,
        peer: peer.map(|peer| peer.server),
        source,
        tenants: chosen.map(|(size, volume)| tenant(size, volume)).to_vec(),
        fields,
        figures: figures::figures(&rows, tail),
        rows,
        tail,
    };
    let markdown = report.markdown();
    print!("{markdown}");
    let write = |path: &Option<PathBuf>, bytes: &[u8]| match path {
        Some(path) => std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display())),
        None => Ok(()),
    };
    write(&args.markdown, markdown.as_bytes())?;
    write(&args.json, &serde_json::to_vec_pretty(&report)?)?;
    Ok(ExitCode::SUCCESS)
}

fn tenant(size: Size, volume: &Volume) -> Tenant {
    Tenant {
        size,
        name: volume.tenant.clone(),
        events: volume.events,
    }
}
