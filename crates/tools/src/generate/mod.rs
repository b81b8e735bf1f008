//! `firn generate`: events of a fictional company, the same bytes for the same arguments.
//!
//! Fast enough not to be the bottleneck of a benchmark: event types are tables that are parsed once (`types/`), an
//! event is written as a list of steps, and no memory is allocated meanwhile.

mod event_type;
mod generator;
mod mapping;
mod profile;
mod random;
mod text;
mod timeline;
mod value;
mod weblog;
mod words;
mod world;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

pub use generator::{Generator, GeneratorConfig, Span};
pub use mapping::index_template;
pub use profile::{Profile, WeblogShape};
pub use random::{Random, mix};

/// Write buffer in bytes.
const WRITE_BYTES: usize = 1 << 20;
/// Interval at which `--follow` writes due events.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
const DAY_SECONDS: f64 = 86_400.0;
/// Three thousand years of events are useless, and dates end with year 9999.
const DAYS_MAX: f64 = 36_525.0;

/// Kind of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Network and security events of a company: 5 classes, over 60 types, over 250 fields.
    Events,
    /// Web access logs: 14 fields, 466 bytes per line on average without a profile.
    Weblog,
}

/// Output format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// One event per line.
    Ndjson,
    /// The body of `_bulk`: a `create` action for `index` before each event.
    Bulk {
        /// An index, alias or data stream.
        index: String,
    },
}

/// Arguments of `firn generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Seed: the same seed and arguments give the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of events; two of --events, --days and --eps determine the third
    #[arg(long, conflicts_with = "follow")]
    events: Option<u64>,
    /// Period of the events in days [default: 1]
    #[arg(long, conflicts_with = "follow")]
    days: Option<f64>,
    /// Events per second, on average [default: 50]
    #[arg(long)]
    eps: Option<f64>,
    /// Start of the time range, as a date or date and time [default: so that it ends at --end]
    #[arg(long, conflicts_with = "follow")]
    start: Option<String>,
    /// End of the time range [default: --now]
    #[arg(long, conflicts_with_all = ["follow", "start"])]
    end: Option<String>,
    /// Current time [default: the system clock]
    #[arg(long)]
    now: Option<String>,
    /// Number of tenants; the largest has about 20 % of the events, unless they are uniform [default: 40; weblog: 13;
    /// --profile unique: 200]
    #[arg(long)]
    tenants: Option<usize>,
    /// `ndjson`, or `bulk` for the body of a bulk request
    #[arg(long, default_value = "ndjson", value_parser = ["ndjson", "bulk"])]
    format: String,
    /// Index or data stream of bulk actions [default: events-demo or weblog-demo]
    #[arg(long)]
    index: Option<String>,
    /// Kind of events
    #[arg(long, value_enum, default_value_t = Kind::Events)]
    kind: Kind,
    #[command(flatten)]
    weblog: WeblogShape,
    /// Write to this file; `-` is standard output
    #[arg(long, default_value = "-")]
    out: PathBuf,
    /// Continue in real time at --eps until interrupted
    #[arg(long)]
    follow: bool,
    /// Print only the index template for the events
    #[arg(long)]
    template: bool,
}

/// Runs the command: writes to `--out` until all events are written, the reader closes the pipe, or the process is
/// interrupted.
pub fn run(args: GenerateArgs) -> Result<()> {
    let mut out: Box<dyn Write> = match args.out.to_str() {
        Some("-") => Box::new(io::stdout().lock()),
        _ => Box::new(File::create(&args.out).with_context(|| format!("cannot create [{}]", args.out.display()))?),
    };
    if args.template {
        let (_, template) = index_template(args.kind)?;
        writeln!(out, "{template:#}")?;
        return Ok(());
    }
    let written = match args.follow {
        true => follow(&args, out.as_mut()),
        false => write_all(&args, out.as_mut()),
    };
    match written {
        // `firn generate | head` is not an error.
        Err(error)
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) =>
        {
            Ok(())
        }
        written => written,
    }
}

fn write_all(args: &GenerateArgs, out: &mut dyn Write) -> Result<()> {
    let mut generator = Generator::new(&config(args, range(args)?))?;
    let mut buffer = Vec::with_capacity(WRITE_BYTES + (64 << 10));
    loop {
        // Few at a time, so that the buffer stays in the processor's cache.
        let events = generator.fill(&mut buffer, 64, 0);
        if events == 0 || buffer.len() >= WRITE_BYTES {
            out.write_all(&buffer)?;
            buffer.clear();
        }
        if events == 0 {
            return Ok(out.flush()?);
        }
    }
}

fn follow(args: &GenerateArgs, out: &mut dyn Write) -> Result<()> {
    let events_per_second = args.eps.unwrap_or(50.0);
    let start_ms = now_ms(args)?;
    // The clock only measures the running time; the start time is an argument.
    let began = std::time::Instant::now();
    let mut generator = Generator::new(&config(
        args,
        Span::Live {
            start_ms,
            events_per_second,
        },
    ))?;
    let mut buffer = Vec::with_capacity(WRITE_BYTES);
    loop {
        let now_ms = start_ms + began.elapsed().as_millis() as i64;
        while generator.fill(&mut buffer, 1000, now_ms) > 0 {
            out.write_all(&buffer)?;
            buffer.clear();
        }
        out.flush()?;
        std::thread::sleep(FOLLOW_EVERY);
    }
}

fn config(args: &GenerateArgs, span: Span) -> GeneratorConfig {
    let (tenants, index) = match args.kind {
        Kind::Events => (40, "events-demo"),
        Kind::Weblog => (args.weblog.tenants(), "weblog-demo"),
    };
    let index = args.index.clone().unwrap_or_else(|| index.to_owned());
    GeneratorConfig {
        seed: args.seed,
        kind: args.kind,
        weblog: args.weblog,
        format: if args.format == "bulk" {
            Format::Bulk { index }
        } else {
            Format::Ndjson
        },
        tenants: args.tenants.unwrap_or(tenants),
        span,
    }
}

/// Returns the time range and its number of events.
fn range(args: &GenerateArgs) -> Result<Span> {
    if let Some(eps) = args.eps {
        ensure!(eps > 0.0 && eps.is_finite(), "--eps must be above 0");
    }
    let (events, days) = match (args.events, args.days, args.eps) {
        (Some(_), Some(_), Some(_)) => bail!("of --events, --days and --eps at most two can be given"),
        (Some(events), Some(days), None) => (events, days),
        (Some(events), None, Some(eps)) => (events, events as f64 / eps / DAY_SECONDS),
        (Some(events), None, None) => (events, 1.0),
        (None, days, eps) => {
            let days = days.unwrap_or(1.0);
            ((days * DAY_SECONDS * eps.unwrap_or(50.0)).round() as u64, days)
        }
    };
    ensure!(
        days > 0.0 && days <= DAYS_MAX,
        "the events must cover more than 0 and at most {DAYS_MAX} days"
    );
    let span_ms = ((days * DAY_SECONDS * 1000.0) as i64).max(1);
    let start_ms = match (&args.start, &args.end) {
        (Some(start), _) => time_ms(start)?,
        (None, Some(end)) => time_ms(end)? - span_ms,
        (None, None) => now_ms(args)? - span_ms,
    };
    Ok(Span::Range {
        start_ms,
        end_ms: start_ms + span_ms,
        events,
    })
}

fn now_ms(args: &GenerateArgs) -> Result<i64> {
    match &args.now {
        Some(now) => time_ms(now),
        None => Ok(SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .context("the clock is before 1970")?
            .as_millis() as i64),
    }
}

/// Parses `2026-11-21`, `2026-11-21T14:30:00` (UTC) or with `Z` or an offset.
fn time_ms(text: &str) -> Result<i64> {
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Ok(timestamp.as_millisecond());
    }
    let civil = text.parse::<jiff::civil::DateTime>();
    let civil = civil.with_context(|| format!("[{text}] is not a time such as 2026-11-21T14:30:00Z"))?;
    Ok(civil.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp().as_millisecond())
}
