//! `firn bench layout`: reproduces the published comparison of layouts on any machine.
//!
//! The same events are stored in several layouts on one or two servers ([`subjects`], [`loading`]). Then all of them
//! run the same queries for a large, a middle and a small tenant ([`questions`], [`timing`]), and the results are
//! printed ([`table`], [`html`]).

mod answers;
mod firn_layout;
mod html;
mod loading;
mod mark;
pub(super) mod period;
mod questions;
mod report;
mod subjects;
mod table;
mod timing;
pub(super) mod volumes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use firn_tools::client::Credentials;
use firn_tools::process::Hardware;

use self::questions::SIZES;
use self::report::{MeasuredTenant, Report, SubjectReport};
use self::subjects::{Layout, Subject};
use self::timing::{Effort, QuestionRunner};
use self::volumes::{Source, Volume};
use super::core::{Side, command_line};

/// Arguments of `firn bench layout`.
#[derive(Debug, clap::Args)]
pub(crate) struct LayoutArgs {
    /// URL of the first server
    #[arg(long, value_name = "A")]
    url: String,
    /// URL of the server to compare with
    #[arg(long, value_name = "B")]
    vs: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
    /// Layouts on A, separated by commas [default: all; without `own` if A is not firn]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LAYOUTS")]
    subjects: Vec<Layout>,
    /// Layouts on B
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LAYOUTS", default_values_t = [Layout::Daily, Layout::RoutedWeekly])]
    vs_subjects: Vec<Layout>,
    /// Number of events
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
    /// Number of tenants, the largest with about a fifth of the events
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(3..=10_000))]
    tenants: u16,
    /// Number of weeks that the events cover
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=520))]
    weeks: u32,
    /// Seed: the same seed gives the same events
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prefix of index names; indices of an earlier run are deleted first, unless --reuse keeps them
    #[arg(long, value_name = "PREFIX", default_value = "bench-layout")]
    index_prefix: String,
    /// Reuse complete data of an earlier run with the same events
    #[arg(long)]
    reuse: bool,
    /// Load, merge and report the stored data, but run no queries
    #[arg(long)]
    load_only: bool,
    /// Keep segments as they are after loading, instead of merging each shard to one
    #[arg(long)]
    no_merge: bool,
    /// Seconds without requests between loading and queries
    #[arg(long, default_value_t = 10)]
    settle_seconds: u64,
    /// Shards of a week in firn's layout [default: by volume]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1024))]
    own_shards: Option<u32>,
    /// Concurrent bulk requests, to one server at a time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Size of a bulk request in bytes of NDJSON
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u32).range(1000..=90_000_000))]
    batch_bytes: u32,
    /// Minimum repetitions of each query on each layout
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    repeats: u16,
    /// Maximum repetitions
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    repeats_max: u16,
    /// Seconds up to which a query is repeated beyond --repeats
    #[arg(long, default_value_t = 3)]
    row_seconds: u64,
    /// Warm-up rounds over all queries that are not measured
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    warm_up_rounds: u16,
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

/// Loads, queries, and writes the report.
pub(super) fn run(args: &LayoutArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        args.repeats <= args.repeats_max,
        "--repeats must not be more than --repeats-max"
    );
    let mut sides = vec![Side::connect(&args.url, &args.credentials, None, None)?];
    if let Some(url) = &args.vs {
        sides.push(Side::connect(url, &args.credentials, None, None)?);
    }
    let subjects = subjects(args, &sides)?;
    let source = Source {
        seed: args.seed,
        events: args.events,
        tenants: usize::from(args.tenants),
        weeks: args.weeks,
    };
    eprintln!("counting the events of each tenant");
    let volumes = source.volumes()?;
    let chosen = volumes::choose(&volumes)?;
    let manner = loading::Manner {
        parallel: usize::from(args.parallel),
        batch_bytes: args.batch_bytes as usize,
        reuse: args.reuse,
        own_shards: args
            .own_shards
            .unwrap_or_else(|| firn_layout::shards(&source, &volumes)),
    };
    let load_seconds = loading::load(&manner, &source, &volumes, &sides, &subjects)?;
    let mut reports = Vec::new();
    for (subject, load_seconds) in subjects.iter().zip(load_seconds) {
        let side = &sides[subject.server];
        let look = || -> anyhow::Result<_> {
            if !args.no_merge {
                eprintln!("merging {} on {}", subject.name, side.server.version);
                loading::merge(side, subject)?;
            }
            loading::look(side, subject)
        };
        reports.push(SubjectReport {
            server: subject.server,
            layout: subject.layout,
            name: subject.name.clone(),
            load_seconds,
            stored: look().with_context(|| format!("looking at {} on {}", subject.name, side.server.version))?,
        });
    }
    let (mut rows, mut notes) = (Vec::new(), vec![state_note(args)]);
    if !args.load_only {
        eprintln!("{} s without requests", args.settle_seconds);
        std::thread::sleep(Duration::from_secs(args.settle_seconds));
        let asker = QuestionRunner::new(&sides, &subjects, effort(args)?)?;
        rows = asker.run(&source, &volumes, chosen)?;
        notes.push(manner_note(args));
        notes.extend(asker.bypassing().map(|side| {
            format!(
                "{} has no `_cache/clear`: its first requests carry `request_cache=false` instead.",
                side.server.version
            )
        }));
    }
    let events: u64 = volumes.iter().map(|volume| volume.events).sum();
    let report = Report {
        command: command_line(),
        time: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        hardware: Hardware::read(),
        servers: sides.into_iter().map(|side| side.server).collect(),
        source,
        ndjson_bytes: volumes.iter().map(|volume| volume.bytes).sum(),
        tenants: SIZES
            .into_iter()
            .zip(chosen)
            .map(|(size, position)| measured_tenant(size, &volumes[position], events))
            .collect(),
        figures: report::figures(&reports, &rows),
        subjects: reports,
        rows,
        notes,
    };
    print!("{}", report.markdown());
    write(args.markdown.as_deref(), || Ok(report.markdown().into_bytes()))?;
    write(args.html.as_deref(), || Ok(report.html().into_bytes()))?;
    write(args.json.as_deref(), || Ok(serde_json::to_vec_pretty(&report)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the layouts that take part.
fn subjects(args: &LayoutArgs, sides: &[Side]) -> anyhow::Result<Vec<Subject>> {
    let is_firn = |side: &Side| side.server.version.starts_with("firn ");
    let mut layouts = vec![args.subjects.clone()];
    if layouts[0].is_empty() {
        layouts[0] = <Layout as clap::ValueEnum>::value_variants()
            .iter()
            .copied()
            .filter(|layout| *layout != Layout::Own || is_firn(&sides[0]))
            .collect();
    }
    layouts.push(args.vs_subjects.clone());
    let mut subjects: Vec<Subject> = Vec::new();
    for (number, (side, layouts)) in sides.iter().zip(layouts).enumerate() {
        for layout in layouts {
            if layout == Layout::Own && !is_firn(side) {
                bail!("{} does not support the layout `own`", side.server.version);
            }
            let subject = Subject::new(number, layout, &args.index_prefix);
            if subjects
                .iter()
                .any(|other| other.server == number && other.name == subject.name)
            {
                bail!("{} is named twice", layout.id());
            }
            subjects.push(subject);
        }
    }
    Ok(subjects)
}

fn effort(args: &LayoutArgs) -> anyhow::Result<Effort> {
    // Moved windows must not repeat in another run, because servers may still have cached results.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?;
    Ok(Effort {
        repeats_min: usize::from(args.repeats),
        repeats_max: usize::from(args.repeats_max),
        row_time: Duration::from_secs(args.row_seconds),
        warm_up_rounds: usize::from(args.warm_up_rounds),
        seed: now.as_millis() as u64,
    })
}

fn measured_tenant(size: questions::Size, volume: &Volume, events: u64) -> MeasuredTenant {
    MeasuredTenant {
        size,
        tenant: volume.tenant.clone(),
        events: volume.events,
        share_percent: volume.events as f64 * 100.0 / events as f64,
    }
}

fn state_note(args: &LayoutArgs) -> String {
    let state = match args.no_merge {
        true => "segments as loading and the server's own merging left them",
        false => "every shard merged to one segment",
    };
    format!(
        "No replicas, the same explicit mapping, all other settings as the servers have them by default; {state}; {} s \
         without requests before the questions.",
        args.settle_seconds
    )
}

fn manner_note(args: &LayoutArgs) -> String {
    format!(
        "Times are those at one client over connections kept open, {} to {} requests of each question to each layout in \
         turn after {} rounds to warm up. First: the server's caches cleared before each request (those of the operating \
         system stay). Moved window: both bounds elsewhere each time. Repeated: the same request, caches as they are by \
         default. All answers were compared, and histograms held against what was generated.",
        args.repeats, args.repeats_max, args.warm_up_rounds
    )
}

fn write(path: Option<&Path>, content: impl FnOnce() -> anyhow::Result<Vec<u8>>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, content()?).with_context(|| format!("cannot write {}", path.display()))
}
