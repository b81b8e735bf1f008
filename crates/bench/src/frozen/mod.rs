//! `firn bench frozen`: reproduces the published comparison of tiers on any machine.
//!
//! The run starts a store ([`gateway`]) behind a proxy that delays every request and counts the traffic ([`proxy`]),
//! and firn nodes ([`node`]). It writes events, merges them and puts them into a snapshot ([`data`]). Then the same
//! queries ([`questions`]) run hot, cold and frozen ([`tiers`]), over very many mounts ([`many`]), on one split
//! ([`split`]) with a model of larger ones ([`model`]), and on OpenSearch ([`peer`]). All queries use REST, and all
//! traffic is counted at the proxy: statistics of the server are shown beside it and never used instead.

mod data;
mod gateway;
mod html;
mod many;
mod measure;
mod model;
mod node;
mod peer;
mod proxy;
mod published;
mod questions;
mod report;
mod split;
mod table;
mod tiers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use firn_tools::client::Credentials;
use firn_tools::process::Hardware;

use self::data::Amount;
use self::gateway::Store;
use self::node::Node;
use self::report::Report;
use self::tiers::{Tier, Tiers, Truth};
use super::core::command_line;

/// Arguments of `firn bench frozen`.
#[derive(Debug, clap::Args)]
pub(crate) struct FrozenArgs {
    /// Folder for all data of the run, which stays there; must not exist
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// URL of a running S3 server without TLS, keys from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY [default: start
    /// versitygw]
    #[arg(long, value_name = "URL", requires = "bucket")]
    s3_url: Option<String>,
    /// An existing bucket there
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Delay of each request to the store
    #[arg(long, default_value_t = 30, value_name = "MS")]
    latency_ms: u64,
    /// Events of the index for the comparison of tiers
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    events: u64,
    /// Its shards
    #[arg(long, default_value_t = report::TIER_SHARDS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
    /// Seed: the same seed gives the same events
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cache sizes of frozen tiers, in percent of the data
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_values_t = [5.0, 0.5])]
    cache_percent: Vec<f64>,
    /// Skip the tiers
    #[arg(long)]
    no_tiers: bool,
    /// Shards mounted for the needle query over very many mounts; 0 skips this part
    #[arg(long, default_value_t = report::MANY_SHARDS)]
    many_shards: u64,
    /// Events of the single splits, ascending; an empty value skips this part
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "EVENTS",
        default_value = "125000,250000,500000,1000000"
    )]
    split_events: Vec<String>,
    /// Shard size that the model extrapolates to
    #[arg(long, default_value_t = 80, value_name = "GB")]
    model_shard_gb: u64,
    /// Bandwidth of a node to its store in the model
    #[arg(long, default_value_t = 250.0, value_name = "MB/S")]
    model_bandwidth: f64,
    /// URL of an OpenSearch server with the plugin repository-s3 and the keys of the store
    #[arg(long, value_name = "URL")]
    vs: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
    /// Write all results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables to this file as well as to the terminal
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs all measurements and writes the report.
pub(super) fn run(args: &FrozenArgs) -> anyhow::Result<ExitCode> {
    let sizes = sizes(&args.split_events)?;
    std::fs::create_dir(&args.folder).with_context(|| format!("cannot create {}", args.folder.display()))?;
    let store = match (&args.s3_url, &args.bucket) {
        (Some(url), Some(bucket)) => Store::at(url, bucket)?,
        _ => Store::start(&args.folder.join("store"))?,
    };
    let mut report = Report {
        command: command_line(),
        time: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        hardware: Hardware::read(),
        version: concat!("firn ", env!("CARGO_PKG_VERSION")).to_owned(),
        latency_ms: args.latency_ms,
        loaded: None,
        tiers: Vec::new(),
        restore_seconds: None,
        many: None,
        splits: Vec::new(),
        model: Vec::new(),
        peer: None,
        figures: Vec::new(),
        notes: vec![
            "The store runs on the same machine as the nodes and shares its processors. Loading and snapshots go without \
             the latency."
                .to_owned(),
            "The index names its tenant field, so merged segments hold each tenant's events together, newest first."
                .to_owned(),
        ],
    };
    if !args.no_tiers || args.many_shards > 0 {
        run_tiers(args, &store, &mut report)?;
    }
    for events in sizes {
        eprintln!("one split of {events} events");
        let folder = args.folder.join(format!("split-{events}"));
        let latency = |is_on| set_latency(args, &store, is_on);
        let base_path = format!("split-{events}");
        report
            .splits
            .push(split::run(&store, &base_path, &folder, events, args.seed, &latency)?);
    }
    report.model = model::model(
        &report.splits,
        args.model_shard_gb * 1_000_000_000,
        args.model_bandwidth,
    );
    if let Some(url) = &args.vs {
        eprintln!("the same on {url}");
        report.peer = Some(run_peer(args, url, &store, &report)?);
    }
    report.judge();
    print!("{}", report.markdown());
    write(args.markdown.as_deref(), || Ok(report.markdown().into_bytes()))?;
    write(args.html.as_deref(), || Ok(report.html().into_bytes()))?;
    write(args.json.as_deref(), || Ok(serde_json::to_vec_pretty(&report)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the sizes of splits, in order.
fn sizes(given: &[String]) -> anyhow::Result<Vec<u64>> {
    let mut sizes = Vec::new();
    for text in given.iter().filter(|text| !text.is_empty()) {
        sizes.push(
            text.parse()
                .with_context(|| format!("[{text}] is not a number of events"))?,
        );
    }
    sizes.sort_unstable();
    Ok(sizes)
}

fn set_latency(args: &FrozenArgs, store: &Store, is_on: bool) {
    let latency_ms = if is_on { args.latency_ms } else { 0 };
    store.proxy.set_latency(Duration::from_millis(latency_ms));
}

/// Measures hot, cold, frozen, restored, and mounted very often.
fn run_tiers(args: &FrozenArgs, store: &Store, report: &mut Report) -> anyhow::Result<()> {
    const BASE_PATH: &str = "tiers";
    let amount = Amount {
        events: args.events,
        shards: args.shards,
        seed: args.seed,
    };
    eprintln!("writing {} events in {} shards", amount.events, amount.shards);
    set_latency(args, store, false);
    let hot = Node::start(&args.folder.join("hot"), store, BASE_PATH, &[])?;
    let loaded = data::load(&hot, "events", amount)?;
    set_latency(args, store, true);
    let tiers = Tiers {
        store,
        base_path: BASE_PATH,
        folder: &args.folder,
        loaded: &loaded,
    };
    if !args.no_tiers {
        let mut truth = Truth::default();
        eprintln!("querying the hot tier");
        report.tiers.push(tiers.hot(&hot, &mut truth)?);
        drop(hot);
        let frozen = args.cache_percent.iter().map(|cache_percent| Tier::Frozen {
            cache_percent: *cache_percent,
        });
        for tier in [Tier::Cold].into_iter().chain(frozen) {
            eprintln!("mounting: {}", tier.title());
            let mounted = tiers.mounted(tier, &mut truth);
            report.tiers.push(mounted.with_context(|| tier.title())?);
        }
        eprintln!("restoring");
        report.restore_seconds = Some(tiers.restore_seconds().context("restoring")?);
    }
    if args.many_shards > 0 {
        eprintln!("mounting {} shards", args.many_shards);
        report.many = Some(many::run(&tiers, args.many_shards).context("very many mounts")?);
    }
    report.loaded = Some(loaded);
    Ok(())
}

/// Measures the peer with the same million events as for one split, in one shard.
fn run_peer(args: &FrozenArgs, url: &str, store: &Store, report: &Report) -> anyhow::Result<peer::PeerReport> {
    let split = report
        .splits
        .last()
        .context("--vs compares with the largest of --split-events")?;
    let needle = split.loaded.needles.first().context("no needle")?;
    let latency = |is_on| set_latency(args, store, is_on);
    peer::run(url, &args.credentials, store, split.loaded.amount, needle, &latency).with_context(|| url.to_owned())
}

fn write(path: Option<&Path>, content: impl FnOnce() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, content()?).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_in_order_or_not_at_all() {
        let sizes = |text: &str| sizes(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(sizes("250000,125000").unwrap(), [125_000, 250_000]);
        assert_eq!(sizes("").unwrap(), Vec::<u64>::new());
        assert!(sizes("many").is_err());
    }
}
