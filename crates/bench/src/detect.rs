//! `firn bench detect`: CPU time of evaluating detection rules on recorded events.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cpu_time::ThreadTime;
use firn_detect::{CpuClock, DetectionRule, Evaluator, LogSources, Rule, RuleSet, Value};
use firn_pipeline::mapping::{MapOptions, Mapper, Pack, builtin};
use firn_pipeline::tables::Tables;
use firn_tools::rule_files::read_rules;
use serde_json::{Map, Value as Json, json};

use crate::markdown_table::Grid;

/// Runs of a measure; the fastest counts, as other programs only make a run slower.
const RUNS: u32 = 5;
/// First bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Memory that is read between two events of the cold measure: more than the caches of a core hold.
const COLD_BYTES: usize = 8 << 20;
/// Events of the cold measure.
const COLD_EVENTS: usize = 2_000;

/// Rules of firn's own kind, and the seed that picks their values.
const OWN_RULES: usize = 1_000;
const OWN_RULES_SEED: u64 = 20;
/// A rare value is in at most one of so many events.
const RARE_ONE_IN: usize = 1_000;

/// Arguments of `firn bench detect`.
#[derive(Debug, clap::Args)]
pub(crate) struct DetectArgs {
    /// Sigma files, or folders of them
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Windows events, one JSON object per line, plain or gzip
    #[arg(long, value_name = "FILE")]
    events: PathBuf,
}

/// Fields of an event, before the clock starts.
type Fields = Vec<(String, Json)>;

/// Measures and prints a table.
pub(super) fn run(args: &DetectArgs) -> anyhow::Result<ExitCode> {
    let pack = Arc::new(builtin("windows").context("there is no pack [windows]")??);
    let started = Instant::now();
    let read = read_rules(&args.rules)?;
    let parsed = started.elapsed();
    let started = Instant::now();
    let compiled = RuleSet::compile(read.rules, &pack.log_sources());
    let built = started.elapsed();
    println!(
        "{} rules are evaluated, {} are for other events, {} cannot be used; parsed in {:.2} s, compiled in {:.2} s, {:.1} MB of indexes\n",
        compiled.rules.rules().len(),
        compiled.unmapped.len(),
        read.refused.len() + compiled.errors.len(),
        parsed.as_secs_f64(),
        built.as_secs_f64(),
        compiled.rules.index_bytes() as f64 / 1e6,
    );
    let rules = Arc::new(compiled.rules);
    let records = records(&args.events)?;
    let events: Vec<Fields> = records.iter().map(|record| fields(record)).collect::<Result<_, _>>()?;
    let starts: Vec<Fields> = events
        .iter()
        .filter(|event| is_process_creation(event))
        .cloned()
        .collect();
    if starts.is_empty() {
        bail!("[{}] has no process creations of Sysmon", args.events.display());
    }
    let mut grid = Grid::new(["measure", "events", "matches", "µs of CPU per event"].map(str::to_owned));
    let mut row = |label: &str, (count, matches, time): (usize, usize, Duration)| {
        grid.rows.push(vec![
            label.to_owned(),
            count.to_string(),
            matches.to_string(),
            format!("{:.2}", time.as_secs_f64() / count as f64 * 1e6),
        ]);
    };
    row("all events, evaluation only", evaluate(&rules, &events, events.len()));
    row(
        "process creations, evaluation only, warm caches",
        evaluate(&rules, &starts, events.len()),
    );
    row(
        "process creations, evaluation only, cold caches",
        evaluate_cold(&rules, &starts),
    );
    row("JSON to ECS to JSON, no rules", map(&pack, None, &records, false)?);
    row(
        "JSON to ECS to JSON, with the rules",
        map(&pack, Some(&rules), &records, false)?,
    );
    row(
        "JSON to ECS to JSON, with the rules, and their costs measured",
        map(&pack, Some(&rules), &records, true)?,
    );
    let mapped = mapped(&pack, &records)?;
    let none = Arc::new(RuleSet::compile(Vec::<Arc<Rule>>::new(), &LogSources::Any).rules);
    row(
        "mapped events, JSON read alone",
        evaluate_printed(&none, &mapped, false)?,
    );
    let counts = value_counts(&mapped)?;
    let rare_max = mapped.len() / RARE_ONE_IN;
    for (label, value_max) in [
        (
            "1,000 rules of firn's own kind on mapped events, with a rare value each, JSON read included",
            rare_max,
        ),
        ("the same, with values as they come", usize::MAX),
    ] {
        let own = own_rules(&mapped, |value| {
            counts.get(value).is_some_and(|count| *count <= value_max)
        })?;
        row(label, evaluate_printed(&own, &mapped, false)?);
        row(
            "the same, and their costs measured",
            evaluate_printed(&own, &mapped, true)?,
        );
    }
    print!("{}", grid.markdown());
    Ok(ExitCode::SUCCESS)
}

/// Returns what the pack makes of the records.
fn mapped(pack: &Arc<Pack>, records: &[String]) -> anyhow::Result<Vec<Vec<u8>>> {
    let options = MapOptions {
        original: false,
        received: None,
    };
    let mut mapper = Mapper::new(Arc::clone(pack), &Tables::default(), options);
    let map = |record: &String| {
        let mut out = Vec::new();
        match mapper.map(record.as_bytes(), &mut out) {
            Ok(()) => Ok(out),
            Err(error) => bail!("{error}: {record}"),
        }
    };
    records.iter().map(map).collect()
}

/// Returns in how many events each field has each value.
fn value_counts(events: &[Vec<u8>]) -> anyhow::Result<HashMap<(String, String), usize>> {
    let mut counts = HashMap::new();
    for event in events {
        let mut texts = Vec::new();
        collect_texts("", &serde_json::from_slice(event)?, &mut texts);
        for text in texts {
            *counts.entry(text).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Makes rules of values that random events have: equal values, starts of values, and alternatives. One value of each
/// rule, compared as a whole, satisfies `is_selective`.
fn own_rules(events: &[Vec<u8>], is_selective: impl Fn(&(String, String)) -> bool) -> anyhow::Result<Arc<RuleSet>> {
    let mut random = fastrand::Rng::with_seed(OWN_RULES_SEED);
    let mut rules = Vec::with_capacity(OWN_RULES);
    while rules.len() < OWN_RULES {
        let event: Json = serde_json::from_slice(&events[random.usize(..events.len())])?;
        let mut texts = Vec::new();
        collect_texts("", &event, &mut texts);
        random.shuffle(&mut texts);
        let Some(selective) = texts.iter().position(&is_selective) else {
            continue;
        };
        texts.swap(0, selective);
        if texts.len() < 3 {
            continue;
        }
        let clause = |(field, value): &(String, String), form: u8| match form {
            0 => json!({"prefix": {field: value.chars().take(8).collect::<String>()}}),
            1 => json!({"terms": {field: [value, format!("{value}x")]}}),
            _ => json!({"term": {field: value}}),
        };
        let mut filter = vec![clause(&texts[0], random.u8(1..4))];
        filter.extend(texts[1..3].iter().map(|text| clause(text, random.u8(0..4))));
        // The order in which an author writes the conditions is not the one that suits an index.
        random.shuffle(&mut filter);
        let id = format!("own-{}", rules.len());
        let body = json!({"type": "query", "name": id, "query": {"bool": {"filter": filter}}});
        let body = body.as_object().context("a rule is an object")?;
        rules.push(DetectionRule::parse(&id, body)?.rule);
    }
    let compiled = RuleSet::compile(rules, &LogSources::Any);
    if let Some(error) = compiled.errors.first() {
        bail!("{error}");
    }
    Ok(Arc::new(compiled.rules))
}

fn collect_texts(path: &str, value: &Json, texts: &mut Vec<(String, String)>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                collect_texts(&path, value, texts);
            }
        }
        // Texts of dates and messages are not what rules compare.
        Json::String(text) if !path.starts_with('@') && path != "message" && text.len() <= 200 => {
            texts.push((path.to_owned(), text.clone()));
        }
        _ => {}
    }
}

/// The clock by which a server measures the costs of rules.
fn cpu_clock() -> CpuClock {
    Arc::new(|_| ThreadTime::now().as_duration().as_nanos() as u64)
}

/// Evaluates rules on printed events, as pipelines do.
fn evaluate_printed(
    rules: &Arc<RuleSet>,
    events: &[Vec<u8>],
    is_measured: bool,
) -> anyhow::Result<(usize, usize, Duration)> {
    let mut evaluator = Evaluator::new(Arc::clone(rules));
    if is_measured {
        evaluator.measure(cpu_clock());
    }
    let mut matches = Vec::new();
    let mut fastest = Duration::MAX;
    for _ in 0..RUNS {
        matches.clear();
        let started = ThreadTime::now();
        for event in events {
            evaluator.begin();
            evaluator.push_printed(event)?;
            evaluator.evaluate(&mut matches);
        }
        fastest = fastest.min(started.elapsed());
    }
    Ok((events.len(), matches.len(), fastest))
}

fn records(path: &PathBuf) -> anyhow::Result<Vec<String>> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot open [{}]", path.display()))?;
    let mut input = BufReader::new(file);
    let input: Box<dyn Read> = match input.fill_buf()?.starts_with(GZIP) {
        true => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        false => Box::new(input),
    };
    Ok(BufReader::new(input).lines().collect::<Result<_, _>>()?)
}

/// Reads the fields of a flat object, under the names that Sigma has for them.
fn fields(record: &str) -> anyhow::Result<Fields> {
    let object: Map<String, Json> = serde_json::from_str(record)?;
    let renamed = object.into_iter().map(|(name, value)| match name.as_str() {
        "SourceName" => ("Provider_Name".to_owned(), value),
        "Hostname" => ("Computer".to_owned(), value),
        _ => (name, value),
    });
    Ok(renamed.collect())
}

fn is_process_creation(event: &Fields) -> bool {
    let has = |name: &str, wanted: &Json| event.iter().any(|(field, value)| field == name && value == wanted);
    has("Channel", &Json::from("Microsoft-Windows-Sysmon/Operational")) && has("EventID", &Json::from(1))
}

fn push(evaluator: &mut Evaluator, event: &Fields) {
    evaluator.begin();
    for (name, value) in event {
        match value {
            Json::String(text) => evaluator.push(name, Value::Text(text)),
            other => evaluator.push_json(name, other),
        }
    }
}

/// Evaluates the rules on `count` events: number of events and matches, and the CPU time of the fastest run.
fn evaluate(rules: &Arc<RuleSet>, events: &[Fields], count: usize) -> (usize, usize, Duration) {
    let mut evaluator = Evaluator::new(Arc::clone(rules));
    let mut matches = Vec::new();
    let mut fastest = Duration::MAX;
    for _ in 0..RUNS {
        matches.clear();
        let started = ThreadTime::now();
        for event in events.iter().cycle().take(count) {
            push(&mut evaluator, event);
            evaluator.evaluate(&mut matches);
        }
        fastest = fastest.min(started.elapsed());
    }
    (count, matches.len(), fastest)
}

/// Evaluates the rules on events between which other memory is read.
fn evaluate_cold(rules: &Arc<RuleSet>, events: &[Fields]) -> (usize, usize, Duration) {
    let mut evaluator = Evaluator::new(Arc::clone(rules));
    let mut matches = Vec::new();
    let mut total = Duration::ZERO;
    let mut other = vec![1u8; COLD_BYTES];
    for event in events.iter().cycle().take(COLD_EVENTS) {
        for byte in other.iter_mut().step_by(64) {
            *byte = byte.wrapping_add(1);
        }
        std::hint::black_box(&mut other);
        let started = ThreadTime::now();
        push(&mut evaluator, event);
        evaluator.evaluate(&mut matches);
        total += started.elapsed();
    }
    (COLD_EVENTS, matches.len(), total)
}

/// Maps the records, and evaluates rules on the way.
fn map(
    pack: &Arc<Pack>,
    rules: Option<&Arc<RuleSet>>,
    records: &[String],
    is_measured: bool,
) -> anyhow::Result<(usize, usize, Duration)> {
    let options = MapOptions {
        original: false,
        received: None,
    };
    let mut mapper = Mapper::new(Arc::clone(pack), &Tables::default(), options);
    mapper.set_rules(rules.cloned());
    if is_measured {
        mapper.measure_rules(cpu_clock());
    }
    let mut out = Vec::new();
    let (mut matches, mut fastest) = (0, Duration::MAX);
    for _ in 0..RUNS {
        matches = 0;
        let started = ThreadTime::now();
        for record in records {
            out.clear();
            if let Err(error) = mapper.map(record.as_bytes(), &mut out) {
                bail!("{error}: {record}");
            }
            matches += mapper.matches().len();
        }
        fastest = fastest.min(started.elapsed());
    }
    Ok((records.len(), matches, fastest))
}
