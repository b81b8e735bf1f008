//! Source of the events of a run: the generator, or a file.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use anyhow::bail;
use clap::ValueEnum;
use firn_tools::generate::{Format, Generator, GeneratorConfig, Kind, Span, WeblogShape};
use firn_tools::ingest::Lines;

use super::core::CoreArgs;

/// The reader of files counts what it reads; this module does not use the count.
static READ_BYTES: AtomicU64 = AtomicU64::new(0);

/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;
const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// More web logs than any benchmark writes.
const ENDLESS_EVENTS: u64 = 1_000_000_000;

/// Iterates over events. The same arguments give the same ones.
pub(super) enum Events {
    Generated(Box<Generator>, u64),
    File(Lines<'static>, Vec<u8>),
}

impl Events {
    /// Opens the source at its start.
    pub(super) fn open(args: &CoreArgs) -> anyhow::Result<Self> {
        match &args.file {
            Some(path) => Self::of_file(path),
            None => Ok(Self::Generated(Box::new(generator(args)?), args.events)),
        }
    }

    fn of_file(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            bail!("the events must be in a file, because they are read several times");
        }
        Ok(Self::File(Lines::open(path, &READ_BYTES)?, Vec::new()))
    }

    /// Appends the next event with a line feed; returns false at the end.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> anyhow::Result<bool> {
        match self {
            Self::Generated(generator, left) => {
                if *left == 0 {
                    return Ok(false);
                }
                *left -= 1;
                if generator.fill(out, 1, 0) == 0 {
                    bail!("the generator ended {left} events early");
                }
                Ok(true)
            }
            Self::File(lines, line) => {
                while lines.next(line)?.is_some() {
                    if !line.trim_ascii().is_empty() {
                        out.extend_from_slice(line);
                        out.push(b'\n');
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// Returns the name of the events, for the index name and the report.
pub(super) fn name(args: &CoreArgs) -> String {
    match &args.file {
        Some(path) => {
            let stem = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            let stem = stem.split('.').next().unwrap_or_default();
            stem.chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
                .collect()
        }
        None => {
            if args.kind == Kind::Weblog {
                return args.weblog.name();
            }
            let kind = args.kind.to_possible_value();
            kind.as_ref().map_or("events", |kind| kind.get_name()).to_owned()
        }
    }
}

/// Creates events of a fixed time, so that every run of a seed has the same bytes.
fn generator(args: &CoreArgs) -> anyhow::Result<Generator> {
    let tenants = match args.kind {
        Kind::Weblog => args.weblog.tenants(),
        Kind::Events => 40,
    };
    Generator::new(&GeneratorConfig {
        seed: args.seed,
        kind: args.kind,
        weblog: args.weblog,
        format: Format::Ndjson,
        tenants: args.tenants.unwrap_or(tenants),
        span: a_week(args.events),
    })
}

/// Creates web logs of a fixed week, more than a benchmark writes.
pub(super) fn endless_weblog(seed: u64, shape: WeblogShape) -> anyhow::Result<Generator> {
    Generator::new(&GeneratorConfig::weblog(seed, shape, a_week(ENDLESS_EVENTS)))
}

fn a_week(events: u64) -> Span {
    Span::Range {
        start_ms: START_MS,
        end_ms: START_MS + WEEK_MS,
        events,
    }
}
