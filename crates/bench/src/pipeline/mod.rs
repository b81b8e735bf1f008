//! `firn bench pipeline`: CPU time of parsing, mapping and look-ups, without indexing; with servers, also of storing the events.

mod stored;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cpu_time::ThreadTime;
use fastrand::Rng;
use firn_pipeline::mapping::{MapOptions, Mapper, Pack, builtin};
use firn_pipeline::tables::{TableHandle, TableSource, Tables};

use crate::markdown_table::Grid;

pub(crate) use stored::{cpu_seconds, ingest_pipeline as cef_ingest_pipeline};
pub(crate) use workload::cef as cef_line;

/// Different records of one kind: more than the caches of the processor hold at once would be unlike a stream, which is read
/// once and is then in the cache.
const RECORDS: usize = 2_000;
/// Runs of a kind; the fastest counts, as other programs only make a run slower.
const RUNS: u32 = 7;

/// Arguments of `firn bench pipeline`.
#[derive(Debug, clap::Args)]
pub(crate) struct PipelineArgs {
    /// Seed of the records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Events of each kind in a run
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    events: u32,
    /// MaxMind database of cities, for two lookups per CEF line
    #[arg(long, value_name = "FILE")]
    geoip_city: Option<PathBuf>,
    /// MaxMind database of autonomous systems, for two more lookups per CEF line
    #[arg(long, value_name = "FILE")]
    geoip_asn: Option<PathBuf>,
    /// Omit `event.original`
    #[arg(long)]
    no_original: bool,
    /// A running firn without authentication, to which CEF lines are sent; it must be able to read the databases
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A running OpenSearch to compare with, which gets the same lines through an ingest pipeline
    #[arg(long, value_name = "URL", requires = "url")]
    peer_url: Option<String>,
    /// Number of events sent to the servers
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    stored_events: u32,
}

/// Access log by a grok pattern, whose names are common fields already.
const GROK: &str = r#"
name: grok
version: 1
prefix: apache.unmapped
parser: {format: grok, patterns: ["%{HTTPD_COMBINEDLOG}"]}
fields:
  source.address: [source.address, {to: source.ip, optional: true}]
  timestamp: {to: "@timestamp", format: ["dd/MMM/yyyy:HH:mm:ss Z"]}
  user.name: user.name
  http.request.method: http.request.method
  url.original: url.original
  http.version: http.version
  http.response.status_code: http.response.status_code
  http.response.body.bytes: http.response.body.bytes
  http.request.referrer: http.request.referrer
  user_agent.original: user_agent.original
"#;

/// Kind of records: its name, pack and generator.
type Kind = (&'static str, &'static str, fn(&mut Rng) -> String);

/// Measures each kind and prints a table.
pub(super) fn run(args: &PipelineArgs) -> anyhow::Result<ExitCode> {
    let mut tables = Tables::default();
    for (name, path) in [("geoip-city", &args.geoip_city), ("geoip-asn", &args.geoip_asn)] {
        if let Some(path) = path {
            tables.insert(TableHandle::open(name, TableSource::MaxMind(path.clone()), 0)?);
        }
    }
    let head = [
        "records",
        "bytes",
        "JSON bytes",
        "µs of CPU per event",
        "events per CPU second",
    ];
    let mut grid = Grid::new(head.map(str::to_owned));
    let kinds: [Kind; 4] = [
        ("CEF line", "cef", workload::cef),
        ("Windows JSON", "windows", workload::windows),
        ("access log", "apache", workload::access),
        ("access log by grok", GROK, workload::access),
    ];
    for (label, pack, generate) in kinds {
        let tables = if pack == "cef" { &tables } else { &Tables::default() };
        let mut rng = Rng::with_seed(args.seed);
        let records: Vec<String> = (0..RECORDS).map(|_| generate(&mut rng)).collect();
        let measured = measure(args, pack, tables, &records)?;
        let per_event = measured.time.as_secs_f64() / f64::from(args.events);
        grid.rows.push(vec![
            label.to_owned(),
            (records.iter().map(String::len).sum::<usize>() / RECORDS).to_string(),
            measured.bytes.to_string(),
            format!("{:.2}", per_event * 1e6),
            format!("{:.0}", 1.0 / per_event),
        ]);
    }
    print!("{}", grid.markdown());
    stored::run(args)?;
    Ok(ExitCode::SUCCESS)
}

struct Measured {
    /// CPU time of the fastest run.
    time: Duration,
    /// Mean length of an event in bytes.
    bytes: usize,
}

fn measure(args: &PipelineArgs, pack: &str, tables: &Tables, records: &[String]) -> anyhow::Result<Measured> {
    let pack = match pack.contains('\n') {
        true => Pack::parse(pack)?,
        false => builtin(pack).context("there is no such pack")??,
    };
    let pack = Arc::new(pack);
    let options = MapOptions {
        original: !args.no_original,
        received: None,
    };
    let mut mapper = Mapper::new(pack, tables, options);
    let mut out = Vec::new();
    let mut fastest = Duration::MAX;
    let mut bytes = 0;
    for _ in 0..RUNS {
        bytes = 0;
        let started = ThreadTime::now();
        for record in records.iter().cycle().take(args.events as usize) {
            out.clear();
            if let Err(error) = mapper.map(record.as_bytes(), &mut out) {
                bail!("{error}: {record}");
            }
            bytes += out.len();
        }
        fastest = fastest.min(started.elapsed());
    }
    Ok(Measured {
        time: fastest,
        bytes: bytes / args.events as usize,
    })
}
