//! `firn ingest`: sends NDJSON files to any Elasticsearch-compatible server.
//!
//! One thread reads the input and builds batches, several threads send them, the main thread shows progress. Memory is
//! bounded by the batches in flight: twice `--parallel` times `--batch-bytes`.
//!
//! **No event is lost without a report.** Every line ends as indexed, rejected, or unknown, and only if all are indexed
//! the exit code is 0. Repeated are:
//! - a request that never reached the server (refused connection), and events with status 429 or 503, with growing
//!   pauses: always, since they had no effect;
//! - a request whose response broke off: only with `--id-field`, where a second attempt of the same event cannot create
//!   a second copy. Without ids such events count as unknown, and are written to the rejects file, because another
//!   attempt might store them twice.

mod batch;
mod progress;
mod reader;
mod rejects;
mod send;
mod template;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use parking_lot::Mutex;

use crate::client::{Client, Credentials, encode_segment};
use batch::{Batch, Batcher, Shape};
pub use progress::grouped;
use progress::{Counters, Progress};
pub use reader::Lines;
use rejects::Rejects;
use send::Sender;

/// Arguments of `firn ingest`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Input is recognised by its first bytes: plain text, gzip or zstd. Rejected lines go to \
FILE.rejected.ndjson with their line number and the reason. The exit code is 0 only if every line was indexed."
)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub struct IngestArgs {
    /// Files of one JSON object per line (.ndjson, .gz, .zst); `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The server: firn, Elasticsearch or OpenSearch
    #[arg(long, default_value = "http://127.0.0.1:9200")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) credentials: Credentials,
    /// Index the events into this index or alias
    #[arg(long, value_name = "NAME", group = "target")]
    pub(crate) index: Option<String>,
    /// Append the events to this data stream
    #[arg(long, value_name = "NAME", group = "target")]
    pub(crate) data_stream: Option<String>,
    /// Copy this field to `@timestamp`
    #[arg(long, value_name = "FIELD")]
    pub(crate) timestamp_field: Option<String>,
    /// Route each event by this field
    #[arg(long, value_name = "FIELD")]
    pub(crate) tenant_field: Option<String>,
    /// Take `_id` from this field; makes repeating a broken request safe
    #[arg(long, value_name = "FIELD")]
    pub(crate) id_field: Option<String>,
    /// Concurrent bulk requests
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) parallel: u16,
    /// Size of a bulk request, such as 5mb
    #[arg(long, default_value = "5mb", value_parser = parse_batch_bytes)]
    pub(crate) batch_bytes: usize,
    /// Maximum of events in a bulk request
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) batch_docs: u32,
    /// Compress requests
    #[arg(long)]
    pub(crate) gzip: bool,
    /// How long a batch is retried before it counts as rejected, such as 5m
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub(crate) give_up_after: Duration,
    /// Write rejected lines to this file instead of FILE.rejected.ndjson
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Print only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

fn parse_batch_bytes(text: &str) -> Result<usize, String> {
    // A server accepts 100 MB by default; a batch gains nothing beyond some megabytes.
    const RANGE: std::ops::RangeInclusive<u64> = 1024..=90 * 1024 * 1024;
    let bytes = firn_model::settings::parse_bytes(text).map_err(|error| error.reason().to_owned())?;
    if !RANGE.contains(&bytes) {
        return Err(format!(
            "{bytes} bytes is not within {} to {}",
            RANGE.start(),
            RANGE.end()
        ));
    }
    Ok(usize::try_from(bytes).expect("within the range"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    firn_model::dates::parse_duration_ms(text)
        .map(Duration::from_millis)
        .map_err(|error| error.reason().to_owned())
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Lines that are not empty.
    pub events: u64,
    /// Acknowledged by the server.
    pub indexed: u64,
    /// Refused by the server or unreadable; in the rejects file.
    pub rejected: u64,
    /// Sent without a complete response; in the rejects file.
    pub unknown: u64,
    /// Bytes of NDJSON after decompression.
    pub(crate) bytes: u64,
    /// Why the run stopped before the end of the input, if it did.
    pub stopped: Option<String>,
}

impl Summary {
    /// Whether every line of the input was indexed.
    pub(crate) fn is_complete(&self) -> bool {
        self.indexed == self.events && self.stopped.is_none()
    }
}

/// State that all threads of a run share.
struct Shared {
    counters: Counters,
    /// The first reason to stop early: the server refuses all requests, the input is invalid, Ctrl-C.
    stopped: Mutex<Option<String>>,
    stopping: AtomicBool,
}

impl Shared {
    fn stop(&self, reason: String) {
        self.stopped.lock().get_or_insert(reason);
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// Runs the command; the exit code is 0 only if every line was indexed.
pub fn run(args: &IngestArgs) -> anyhow::Result<std::process::ExitCode> {
    let interrupted = on_interrupt()?;
    let started = Instant::now();
    let summary = ingest(args, &interrupted)?;
    let seconds = started.elapsed().as_secs_f64();
    if !args.quiet || !summary.is_complete() {
        eprintln!("{}", progress::summary_line(&summary, seconds));
    }
    if let Some(reason) = &summary.stopped {
        eprintln!("firn: stopped before the end of the input: {reason}");
    }
    Ok(if summary.is_complete() { 0 } else { 1 }.into())
}

/// Returns a flag that the first Ctrl-C sets, so that running requests finish; the second ends the process.
fn on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    // `timeout` and some shells deliver one Ctrl-C twice; a person takes longer.
    const SECOND_AFTER: Duration = Duration::from_millis(300);
    let (interrupted, armed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&armed))?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    let seen = Arc::clone(&interrupted);
    std::thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(SECOND_AFTER);
        armed.store(true, Ordering::Relaxed);
    });
    Ok(interrupted)
}

/// Reads all files and sends them; returns once every line has its outcome.
pub fn ingest(args: &IngestArgs, interrupted: &AtomicBool) -> anyhow::Result<Summary> {
    let (target, operation) = match (&args.index, &args.data_stream) {
        (Some(name), None) => (name, "index"),
        (None, Some(name)) => (name, "create"),
        _ => bail!("give either --index or --data-stream"),
    };
    if args.rejects.is_some() && args.files.len() > 1 {
        bail!("--rejects needs exactly one FILE; with several, each has a separate rejects file");
    }
    let client = Client::new(&args.url, &args.credentials, args.gzip)?;
    client.json("GET", "/", None).context("the server does not answer")?;

    if let Some(name) = &args.data_stream
        && let Some(note) = template::ensure_data_stream(&client, name)?
    {
        eprintln!("{note}");
    }

    let shape = Shape {
        operation,
        timestamp_field: args.timestamp_field.clone(),
        tenant_field: args.tenant_field.clone(),
        id_field: args.id_field.clone(),
        batch_bytes: args.batch_bytes,
        batch_docs: args.batch_docs as usize,
    };
    let path = format!("/{}/_bulk", encode_segment(target));
    let shared = Shared {
        counters: Counters::new(total_input_bytes(&args.files)),
        stopped: Mutex::new(None),
        stopping: AtomicBool::new(false),
    };
    let files = args
        .files
        .iter()
        .map(|file| Ok((file.as_path(), Arc::new(Rejects::new(rejects_path(args, file))?))))
        .collect::<anyhow::Result<Vec<_>>>()?;

    let (batches, queue) = sync_channel::<Batch>(usize::from(args.parallel));
    let queue = Mutex::new(queue);
    let progress = Progress::start(&shared.counters, args.quiet);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            for (file, rejects) in &files {
                if let Err(error) = read(file, rejects, &shape, &shared, |batch| batches.send(batch).is_ok()) {
                    shared.stop(format!("{error:#}"));
                }
            }
            drop(batches);
        });
        let sending: Vec<_> = (0..args.parallel)
            .map(|number| {
                let sender = Sender::new(client.clone(), &path, &shape, args.give_up_after, u64::from(number));
                let (queue, shared) = (&queue, &shared);
                scope.spawn(move || send_all(queue, &sender, shared))
            })
            .collect();
        while !(reading.is_finished() && sending.iter().all(|thread| thread.is_finished())) {
            std::thread::sleep(Duration::from_millis(50));
            if interrupted.load(Ordering::Relaxed) {
                shared.stop("interrupted".to_owned());
            }
            progress.tick();
        }
    });
    progress.finish();
    for (_, rejects) in &files {
        if let Some(path) = rejects.finish()? {
            eprintln!("rejected lines are in {}", path.display());
        }
    }
    Ok(shared.counters.summary(shared.stopped.into_inner()))
}

/// Sends batches until there are no more.
fn send_all(queue: &Mutex<Receiver<Batch>>, sender: &Sender, shared: &Shared) {
    loop {
        // The lock is held while waiting, which is fine: its holder gets the next batch.
        let batch = match queue.lock().recv_timeout(Duration::from_millis(100)) {
            Ok(batch) => batch,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        sender.deliver(batch, shared);
    }
}

/// Splits one file into batches. `emit` returns false once no thread takes them any more.
fn read(
    file: &Path,
    rejects: &Arc<Rejects>,
    shape: &Shape,
    shared: &Shared,
    mut emit: impl FnMut(Batch) -> bool,
) -> anyhow::Result<()> {
    let mut lines = Lines::open(file, &shared.counters.input_read)?;
    let mut batcher = Batcher::new(shape, Arc::clone(rejects));
    let mut line = Vec::new();
    while let Some(read) = lines.next(&mut line)? {
        if shared.stopping.load(Ordering::Relaxed) {
            return Ok(());
        }
        if line.iter().all(u8::is_ascii_whitespace) && !read.too_long {
            continue;
        }
        shared.counters.add_event(read.bytes);
        let full = if read.too_long {
            Err(format!("the line has more than {} bytes", reader::LINE_LIMIT_BYTES))
        } else {
            batcher.add(read.number, &line)
        };
        match full {
            Ok(None) => {}
            Ok(Some(batch)) => {
                if !emit(batch) {
                    return Ok(());
                }
            }
            Err(reason) => {
                shared.counters.add_rejected(1);
                rejects.write(read.number, None, "unreadable", &reason, &line)?;
            }
        }
    }
    if let Some(batch) = batcher.finish() {
        emit(batch);
    }
    Ok(())
}

/// Returns the size of all files together; `None` if one is a stream.
fn total_input_bytes(files: &[PathBuf]) -> Option<u64> {
    files
        .iter()
        .map(|file| {
            let metadata = std::fs::metadata(file).ok()?;
            metadata.is_file().then_some(metadata.len())
        })
        .sum()
}

fn rejects_path(args: &IngestArgs, file: &Path) -> PathBuf {
    if let Some(path) = &args.rejects {
        return path.clone();
    }
    if file == Path::new("-") {
        return PathBuf::from("stdin.rejected.ndjson");
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".rejected.ndjson");
    PathBuf::from(name)
}
