//! `firn layout`: recommends an index layout from the current layout and its measured costs.
//!
//! `advise` reads the volumes of a server ([`gather`]), measures some searches ([`measure`]), and decides ([`advice`]
//! and [`cost`], which send no requests). It changes nothing: it prints the recommendation with its reasons and the
//! requests that would apply it.

mod advice;
mod cost;
mod gather;
mod measure;
mod print;

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use self::advice::{Advice, Facts};
use self::gather::{MeasuredIndices, Volumes};
use self::measure::{Measured, Questions};
use crate::client::{Client, Credentials};

/// Arguments of `firn layout`.
#[derive(Debug, clap::Args)]
pub struct LayoutArgs {
    #[command(subcommand)]
    command: LayoutCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LayoutCommand {
    /// Recommend period, shard count and placement for the data of a server, with reasons
    Advise(AdviseArgs),
}

/// Arguments of `firn layout advise`.
#[derive(Debug, clap::Args)]
struct AdviseArgs {
    /// URL of the server; nothing is written to it
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9200")]
    url: String,
    #[command(flatten)]
    credentials: Credentials,
    /// Data streams and indices that belong together
    #[arg(long, value_name = "PATTERN", default_value = "*")]
    index: String,
    /// The keyword field with the tenant of an event
    #[arg(long, value_name = "FIELD", default_value = "tenant")]
    tenant_field: String,
    /// The field with the time of an event
    #[arg(long, value_name = "FIELD", default_value = "@timestamp")]
    time_field: String,
    /// Measure histograms that are split by this field
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
    /// Usual time range of searches, in days
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=3650))]
    question_days: u32,
    /// Retention of events, in days [default: as in the data streams]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=36500))]
    retention_days: Option<u32>,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// All results.
#[derive(Debug, Serialize)]
struct Found {
    url: String,
    index: String,
    volumes: Volumes,
    measured: Vec<Measured>,
    facts: Facts,
    advice: Advice,
    expected: Vec<Expected>,
}

/// Time of the usual search for a tenant: as measured now, and as expected with the recommendation.
#[derive(Debug, Serialize)]
struct Expected {
    size: &'static str,
    tenant: String,
    sample_ms: (f64, f64),
    histogram_ms: (f64, f64),
}

/// Computes the effect of the recommendation.
fn expected(facts: &Facts, advice: &Advice, measured: &[Measured]) -> Vec<Expected> {
    let chosen = advice
        .candidates
        .iter()
        .find(|candidate| candidate.period == advice.period);
    let shards = chosen.map_or(f64::INFINITY, |chosen| chosen.shards_searched);
    measured
        .iter()
        .filter(|row| !row.narrowed && row.days as f64 == facts.question_days)
        .map(|row| Expected {
            size: row.size,
            tenant: row.tenant.clone(),
            sample_ms: (row.sample_ms, facts.costs.sample.with_shards(row.sample(), shards)),
            histogram_ms: (
                row.histogram_ms,
                facts.costs.histogram.with_shards(row.histogram(), shards),
            ),
        })
        .collect()
}

/// Runs the command.
pub fn run(args: &LayoutArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        LayoutCommand::Advise(args) => advise(args),
    }
}

fn advise(args: &AdviseArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.url, &args.credentials, false)?;
    let place = MeasuredIndices {
        client: &client,
        expression: &args.index,
        tenant_field: &args.tenant_field,
        time_field: &args.time_field,
    };
    let volumes = place.volumes()?;
    let questions = Questions {
        place: &place,
        by: args.by.as_deref(),
        question_days: args.question_days,
        repeats: usize::from(args.repeats),
    };
    let measured = questions.run(&volumes)?;
    let facts = Facts {
        tenants: volumes.tenants.clone(),
        tenant_count: volumes.tenant_count,
        events: volumes.events,
        bytes: volumes.bytes,
        days: volumes.days(),
        busiest_day_events: volumes.busiest_day_events,
        retention_days: args.retention_days.map(f64::from).or(volumes.retention_days),
        question_days: f64::from(args.question_days),
        costs: measure::costs(&measured).context("there are no measurements")?,
    };
    let advice = advice::advise(&facts).context("there is no tenant")?;
    let found = Found {
        url: client.base().to_owned(),
        index: args.index.clone(),
        expected: expected(&facts, &advice, &measured),
        advice,
        volumes,
        measured,
        facts,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", found.text(&args.tenant_field));
    }
    Ok(ExitCode::SUCCESS)
}
