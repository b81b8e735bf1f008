//! The writing half of `firn bench core`: load, make durable and searchable, merge, and measure the stored data.
//!
//! Both servers get the same bytes in the same batches, round by round: one round to one server, then the same round to
//! the other, in alternating order. So disturbances of the machine affect both. Time counts only while requests of that
//! server run. CPU time is that of the server's process, from the first bulk until a refresh and a flush have
//! completed.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, encode_segment};
use firn_tools::generate::index_template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::core::{CoreArgs, Side};
use super::events::Events;
use super::report::Better::{Higher, Lower};
use super::report::Row;

/// Pause before a request that was refused with 429 is repeated; the time counts.
const PAUSE: Duration = Duration::from_millis(50);
/// Old files are deleted some time after a merge; the size counts once it no longer changes.
const STABLE_POLLS: u32 = 3;
const STABLE_PATIENCE: Duration = Duration::from_secs(60);

/// NDJSON of a million plain web logs, in MB: the size for which the bytes on disk are stated.
const STATED_MB: f64 = 465.6;

/// Results of the half.
pub(super) struct Written {
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
    pub(super) events: u64,
    pub(super) ndjson_bytes: u64,
}

/// Some events as the body of a bulk request.
pub(super) struct Batch {
    pub(super) body: Vec<u8>,
    pub(super) events: usize,
}

/// Measurements of one server.
#[derive(Default)]
struct Figures {
    load_seconds: f64,
    /// Of each request, in seconds.
    latencies: Vec<f64>,
    refused: u64,
    load_cpu_seconds: Option<f64>,
    peak_bytes: Option<u64>,
    merge_seconds: Option<f64>,
    merge_cpu_seconds: Option<f64>,
    stored_before_merge_bytes: u64,
    stored_bytes: Option<u64>,
    idle_bytes: Option<u64>,
}

/// Loads all sides and measures.
pub(super) fn run(args: &CoreArgs, sides: &[Side], index: &str) -> anyhow::Result<Written> {
    let path = format!("/{}", encode_segment(index));
    let mut notes = Vec::new();
    let mut figures: Vec<Figures> = sides.iter().map(|_| Figures::default()).collect();
    for side in sides {
        create_index(args, side, &path)?;
        if side.process.is_some_and(|process| !process.reset_peak()) {
            notes.push(format!("the peak of {} is that since its start", side.server.version));
        }
    }
    let cpu_before = cpu_of_all(sides)?;
    let (events, ndjson_bytes) = load(args, sides, &path, &mut figures)?;
    for (side, figures) in sides.iter().zip(&mut figures) {
        let started = Instant::now();
        side.client.json("POST", &format!("{path}/_refresh"), None)?;
        side.client.json("POST", &format!("{path}/_flush"), None)?;
        figures.load_seconds += started.elapsed().as_secs_f64();
        check_count(side, &path, events)?;
    }
    let cpu_loaded = cpu_of_all(sides)?;
    for (number, (side, figures)) in sides.iter().zip(&mut figures).enumerate() {
        figures.load_cpu_seconds = difference(cpu_loaded[number], cpu_before[number]);
        figures.peak_bytes = side
            .process
            .map(|process| process.memory())
            .transpose()?
            .map(|memory| memory.peak);
        figures.stored_before_merge_bytes = stored_bytes(&side.client, &path)?;
        if !args.no_merge {
            force_merge(side, &path, figures)?;
        }
    }
    eprintln!("{} s without requests", args.idle_seconds);
    std::thread::sleep(Duration::from_secs(args.idle_seconds));
    for (side, figures) in sides.iter().zip(&mut figures) {
        figures.idle_bytes = side
            .process
            .map(|process| process.memory())
            .transpose()?
            .map(|memory| memory.resident);
        if figures.refused > 0 {
            notes.push(format!(
                "{} refused {} bulk requests with 429",
                side.server.version, figures.refused
            ));
        }
    }
    let mapping = match args.file {
        Some(_) => "a mapping guessed by the server, values that do not fit ignored",
        None => "the same explicit mapping",
    };
    notes.push(format!(
        "One shard, no replica, {mapping}, `index.translog.durability: request`; {} requests of {:.1} \
         MB at a time, batches alternating between the servers.",
        args.parallel,
        args.batch_bytes as f64 / 1e6
    ));
    notes.push(
        "CPU seconds are those of the server's process from the first bulk until refresh and flush have answered; the \
         force-merge is counted apart. Resident memory includes mapped files."
            .to_owned(),
    );
    Ok(Written {
        rows: rows(events, ndjson_bytes, &figures),
        notes,
        events,
        ndjson_bytes,
    })
}

/// Measures the data that an earlier run left.
pub(super) fn look(sides: &[Side], index: &str) -> anyhow::Result<Written> {
    let path = format!("/{}", encode_segment(index));
    let (mut counts, mut stored) = (Vec::new(), Vec::new());
    for side in sides {
        let answer = side.client.json("GET", &format!("{path}/_count"), None)?;
        counts.push(
            answer
                .get("count")
                .and_then(Value::as_u64)
                .context("_count returned none")?,
        );
        stored.push(stored_bytes(&side.client, &path)? as f64 / 1e6);
    }
    if counts.iter().any(|count| *count != counts[0]) {
        bail!("the servers hold different numbers of events: {counts:?}");
    }
    Ok(Written {
        rows: vec![Row::new("stored", "MB", Lower, Some(stored[0]), stored.get(1).copied())],
        notes: vec!["The indices are those that an earlier run has loaded.".to_owned()],
        events: counts[0],
        ndjson_bytes: 0,
    })
}

/// Deletes the loaded index.
pub(super) fn clean_up(sides: &[Side], index: &str) -> anyhow::Result<()> {
    let path = format!("/{}", encode_segment(index));
    for side in sides {
        side.client.json("DELETE", &path, None)?;
    }
    Ok(())
}

fn create_index(args: &CoreArgs, side: &Side, path: &str) -> anyhow::Result<()> {
    if side.client.exists(path)? {
        side.client.json("DELETE", path, None)?;
    }
    let mut body = json!({
        "settings": {
            "index.number_of_shards": 1,
            "index.number_of_replicas": 0,
            "index.translog.durability": "request",
        },
    });
    if args.file.is_some() {
        // Without it, OpenSearch refuses events in which a field has another type than before.
        body["settings"]["index.mapping.ignore_malformed"] = true.into();
    } else {
        let (_, mut template) = index_template(args.kind)?;
        body["mappings"] = template["template"]["mappings"].take();
    }
    side.client.json("PUT", path, Some(&body)).map(|_| ())
}

/// Sends all events, round by round; returns their number, and their bytes without action lines.
fn load(args: &CoreArgs, sides: &[Side], path: &str, figures: &mut [Figures]) -> anyhow::Result<(u64, u64)> {
    let mut source = Events::open(args)?;
    let bulk_path = format!("{path}/_bulk");
    let (mut ndjson_bytes, mut events, mut said) = (0u64, 0u64, Instant::now());
    for round in 0.. {
        let mut batches = Vec::new();
        while batches.len() < usize::from(args.parallel) {
            let (batch, bytes) = fill(&mut source, args.batch_bytes)?;
            if batch.events == 0 {
                break;
            }
            events += batch.events as u64;
            ndjson_bytes += bytes;
            batches.push(batch);
        }
        if batches.is_empty() {
            break;
        }
        for turn in 0..sides.len() {
            let number = (turn + round) % sides.len();
            let (side, figures) = (&sides[number], &mut figures[number]);
            let started = Instant::now();
            let outcomes = send_round(&side.client, &bulk_path, &batches);
            figures.load_seconds += started.elapsed().as_secs_f64();
            for outcome in outcomes {
                let (seconds, refused) = outcome.with_context(|| format!("loading {}", side.server.version))?;
                figures.latencies.push(seconds);
                figures.refused += refused;
            }
        }
        if said.elapsed() > Duration::from_secs(5) {
            said = Instant::now();
            eprintln!("{events} events");
        }
    }
    Ok((events, ndjson_bytes))
}

/// Returns a batch, and its bytes without action lines.
fn fill(source: &mut Events, batch_bytes: usize) -> anyhow::Result<(Batch, u64)> {
    const ACTION: &[u8] = b"{\"index\":{}}\n";
    let mut body = Vec::with_capacity(batch_bytes + batch_bytes / 8);
    let (mut events, mut bytes) = (0usize, 0usize);
    while bytes < batch_bytes {
        body.extend_from_slice(ACTION);
        let before = body.len();
        if !source.next(&mut body)? {
            body.truncate(before - ACTION.len());
            break;
        }
        bytes += body.len() - before;
        events += 1;
    }
    Ok((Batch { body, events }, bytes as u64))
}

/// Sends all batches of a round concurrently; returns for each its seconds and how often it was refused.
pub(super) fn send_round(client: &Client, path: &str, batches: &[Batch]) -> Vec<anyhow::Result<(f64, u64)>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = batches
            .iter()
            .map(|batch| scope.spawn(move || send(client, path, batch)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a sender panicked")))
            .collect()
    })
}

fn send(client: &Client, path: &str, batch: &Batch) -> anyhow::Result<(f64, u64)> {
    #[derive(Deserialize)]
    struct BulkAnswer {
        errors: bool,
        items: Vec<serde::de::IgnoredAny>,
    }
    let mut refused = 0;
    loop {
        let started = Instant::now();
        let answer = client
            .send("POST", path, Some(("application/x-ndjson", &batch.body)))
            .map_err(|failure| anyhow::anyhow!("a bulk request failed: {failure}"))?;
        let seconds = started.elapsed().as_secs_f64();
        if answer.status == 429 {
            refused += 1;
            std::thread::sleep(PAUSE);
            continue;
        }
        if answer.status != 200 {
            bail!("a bulk request failed: {}", answer.problem());
        }
        let parsed: BulkAnswer = serde_json::from_slice(&answer.body).context("no bulk response")?;
        // A measurement over events that were not indexed would be worthless.
        if parsed.errors || parsed.items.len() != batch.events {
            let start = String::from_utf8_lossy(&answer.body[..answer.body.len().min(500)]).into_owned();
            bail!("a bulk request has failed items: {start}");
        }
        return Ok((seconds, refused));
    }
}

fn check_count(side: &Side, path: &str, events: u64) -> anyhow::Result<()> {
    let answer = side.client.json("GET", &format!("{path}/_count"), None)?;
    let count = answer.get("count").and_then(Value::as_u64);
    if count != Some(events) {
        bail!("{} has {count:?} events after loading {events}", side.server.version);
    }
    Ok(())
}

fn force_merge(side: &Side, path: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let cpu_before = side.process.map(|process| process.cpu_seconds()).transpose()?;
    let started = Instant::now();
    side.client
        .json("POST", &format!("{path}/_forcemerge?max_num_segments=1"), None)?;
    side.client.json("POST", &format!("{path}/_flush"), None)?;
    side.client.json("POST", &format!("{path}/_refresh"), None)?;
    figures.merge_seconds = Some(started.elapsed().as_secs_f64());
    let cpu_after = side.process.map(|process| process.cpu_seconds()).transpose()?;
    figures.merge_cpu_seconds = difference(cpu_after, cpu_before);

    let (mut size, mut same) = (stored_bytes(&side.client, path)?, 0);
    let waiting = Instant::now();
    while same < STABLE_POLLS && waiting.elapsed() < STABLE_PATIENCE {
        std::thread::sleep(Duration::from_secs(1));
        let now = stored_bytes(&side.client, path)?;
        same = if now == size { same + 1 } else { 0 };
        size = now;
    }
    figures.stored_bytes = Some(size);
    Ok(())
}

fn stored_bytes(client: &Client, path: &str) -> anyhow::Result<u64> {
    let answer = client.json("GET", &format!("{path}/_stats/store"), None)?;
    answer
        .pointer("/_all/primaries/store/size_in_bytes")
        .and_then(Value::as_u64)
        .context("_stats returned no size")
}

fn cpu_of_all(sides: &[Side]) -> anyhow::Result<Vec<Option<f64>>> {
    sides
        .iter()
        .map(|side| side.process.map(|process| process.cpu_seconds()).transpose())
        .collect()
}

fn difference(after: Option<f64>, before: Option<f64>) -> Option<f64> {
    after.zip(before).map(|(after, before)| after - before)
}

fn rows(events: u64, ndjson_bytes: u64, figures: &[Figures]) -> Vec<Row> {
    let events = events as f64;
    let megabytes = ndjson_bytes as f64 / 1e6;
    let a = &figures[0];
    let b = figures.get(1);
    let row = |measure, unit, better, value: &dyn Fn(&Figures) -> Option<f64>| {
        Row::new(measure, unit, better, value(a), b.and_then(value))
    };
    let in_megabytes = |bytes: u64| bytes as f64 / 1e6;
    vec![
        row("indexing rate", "events/s", Higher, &|f| Some(events / f.load_seconds)),
        row("indexing rate, NDJSON", "MB/s", Higher, &|f| {
            Some(megabytes / f.load_seconds)
        }),
        row("bulk request, median", "ms", Lower, &|f| percentile(&f.latencies, 0.5)),
        row("bulk request, 99th percentile", "ms", Lower, &|f| {
            percentile(&f.latencies, 0.99)
        }),
        row("CPU to index", "s", Lower, &|f| f.load_cpu_seconds),
        row("NDJSON indexed per CPU second", "MB", Higher, &|f| {
            f.load_cpu_seconds.filter(|&cpu| cpu > 0.0).map(|cpu| megabytes / cpu)
        }),
        row("stored after load and flush", "MB", Lower, &|f| {
            Some(in_megabytes(f.stored_before_merge_bytes))
        }),
        row("stored after force-merge", "MB", Lower, &|f| {
            f.stored_bytes.map(in_megabytes)
        }),
        row("stored after force-merge, per 465.6 MB of NDJSON", "MB", Lower, &|f| {
            let stored = f.stored_bytes.map(in_megabytes);
            stored
                .filter(|_| megabytes > 0.0)
                .map(|stored| stored * STATED_MB / megabytes)
        }),
        row("force-merge to one segment", "s", Lower, &|f| f.merge_seconds),
        row("CPU to force-merge", "s", Lower, &|f| f.merge_cpu_seconds),
        row("resident, peak while indexing", "MB", Lower, &|f| {
            f.peak_bytes.map(in_megabytes)
        }),
        row("resident, idle after", "MB", Lower, &|f| f.idle_bytes.map(in_megabytes)),
    ]
}

/// Returns a percentile in ms.
pub(super) fn percentile(seconds: &[f64], part: f64) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(position).map(|seconds| seconds * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let seconds: Vec<f64> = (1..=100).map(|ms| f64::from(ms) / 1000.0).collect();
        assert_eq!(percentile(&seconds, 0.5), Some(50.0));
        assert_eq!(percentile(&seconds, 0.99), Some(99.0));
        assert_eq!(percentile(&[0.002], 0.99), Some(2.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
