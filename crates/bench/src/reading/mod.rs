//! The reading half of `firn bench core`: the same queries on one or two servers, alternating.
//!
//! A round runs a few requests of every query, first on one server, then on the other, in alternating order:
//! disturbances of the machine affect both. Each request has other values, so that no response cache helps; queries
//! with constant values have separate rows. The request cache is off. Responses are compared: a fast wrong one is
//! worthless.

mod compare;
mod fields;
mod material;
mod questions;

use std::time::Instant;

use anyhow::{Context, bail};
use firn_tools::client::Client;
use serde_json::Value;

use super::core::{CoreArgs, Side};
use super::report::{Better, QuestionRow, QuestionTiming, Row};

/// Consecutive requests of one query to one server: enough to read the CPU time around them.
const BATCH: usize = 5;

/// Maximum length of a displayed difference between two responses.
const EXAMPLE_CHARS: usize = 500;

/// Results of the half.
pub(super) struct Read {
    pub(super) questions: Vec<QuestionRow>,
    pub(super) notes: Vec<String>,
    /// Resident memory of each server after all queries, bytes.
    pub(super) resident: Vec<Option<u64>>,
}

impl Read {
    /// Returns the resident memory as a row of the report.
    pub(super) fn resident_row(&self) -> Row {
        let side = |number: usize| {
            let bytes = self.resident.get(number).copied().flatten()?;
            Some(bytes as f64 / 1e6)
        };
        Row::new("resident, after all questions", "MB", Better::Lower, side(0), side(1))
    }
}

/// Times of one query on one server.
#[derive(Default)]
struct Times {
    seconds: Vec<f64>,
    cpu_seconds: f64,
    cpu_known: bool,
}

/// Queries all sides and measures.
pub(super) fn run(args: &CoreArgs, sides: &[Side], index: &str) -> anyhow::Result<Read> {
    let first = sides.first().context("there is always a first server")?;
    eprintln!("choosing queries");
    let types = fields::types(&first.client, index)?;
    let roles = fields::choose(args, &types)?;
    let material = material::collect(args, &roles)?;
    let rounds = usize::from(args.warm_up_rounds) + usize::from(args.rounds);
    let questions = questions::all(&roles, &material, args.seed, rounds * BATCH)?;
    let mut times: Vec<Vec<Times>> = questions
        .iter()
        .map(|_| sides.iter().map(|_| Times::default()).collect())
        .collect();
    let mut differences: Vec<(usize, Option<String>)> = vec![(0, None); questions.len()];
    for round in 0..rounds {
        let counts = round >= usize::from(args.warm_up_rounds);
        for (number, question) in questions.iter().enumerate() {
            let bodies = question.bodies(round * BATCH, BATCH);
            let mut answers: Vec<Vec<Value>> = sides.iter().map(|_| Vec::new()).collect();
            for turn in 0..sides.len() {
                let side = (turn + round) % sides.len();
                let batch = ask(&sides[side], index, &bodies)
                    .with_context(|| format!("querying {} for {}", sides[side].server.version, question.name))?;
                if counts {
                    let times = &mut times[number][side];
                    times.seconds.extend(batch.seconds);
                    times.cpu_known = batch.cpu_seconds.is_some();
                    times.cpu_seconds += batch.cpu_seconds.unwrap_or_default();
                }
                answers[side] = batch.answers;
            }
            if let [a, b] = answers.as_slice() {
                for ((a, b), body) in a.iter().zip(b).zip(&bodies) {
                    if let Some(difference) = compare::difference(question, a, b) {
                        let (count, example) = &mut differences[number];
                        *count += 1;
                        example.get_or_insert_with(|| format!("request {body}: {difference}"));
                    }
                }
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    let mut read = Read {
        questions: Vec::new(),
        notes: vec![format!(
            "Questions: {} rounds of {BATCH} after {} to warm up, one client, connections kept open, `request_cache=false`; \
             times are those at the client, CPU seconds those of the server's process.",
            args.rounds, args.warm_up_rounds
        )],
        resident: Vec::new(),
    };
    for ((question, times), (count, example)) in questions.iter().zip(times).zip(differences) {
        if let Some(example) = example {
            let start: String = example.chars().take(EXAMPLE_CHARS).collect();
            read.notes.push(format!(
                "**{}: {count} of {} answers differ**: {start}",
                question.name,
                rounds * BATCH
            ));
        }
        let mut timings = times.into_iter().map(Times::timing);
        let a = timings.next().flatten().context("there is always a first server")?;
        read.questions.push(QuestionRow::new(
            question.name.clone(),
            question.repeated,
            a,
            timings.next().flatten(),
            (sides.len() > 1).then_some(count),
        ));
    }
    for side in sides {
        let memory = side.process.map(|process| process.memory()).transpose()?;
        read.resident.push(memory.map(|memory| memory.resident));
    }
    Ok(read)
}

/// Results of one batch.
struct Batch {
    seconds: Vec<f64>,
    cpu_seconds: Option<f64>,
    answers: Vec<Value>,
}

fn ask(side: &Side, index: &str, bodies: &[&str]) -> anyhow::Result<Batch> {
    let path = format!(
        "/{}/_search?request_cache=false",
        firn_tools::client::encode_segment(index)
    );
    let cpu = || side.process.map(|process| process.thread_times()).transpose();
    let before = cpu()?;
    let mut seconds = Vec::with_capacity(bodies.len());
    let mut raw = Vec::with_capacity(bodies.len());
    for body in bodies {
        let started = Instant::now();
        let answer = send(&side.client, &path, body)?;
        seconds.push(started.elapsed().as_secs_f64());
        raw.push(answer);
    }
    let after = cpu()?;
    let parsed: Result<Vec<Value>, _> = raw.iter().map(|answer| serde_json::from_slice(answer)).collect();
    Ok(Batch {
        seconds,
        cpu_seconds: after.zip(before).map(|(after, before)| after.seconds_since(&before)),
        answers: parsed.context("a response is not JSON")?,
    })
}

fn send(client: &Client, path: &str, body: &str) -> anyhow::Result<Vec<u8>> {
    let answer = client
        .send("POST", path, Some(("application/json", body.as_bytes())))
        .map_err(|failure| anyhow::anyhow!("{failure}"))?;
    if answer.status != 200 {
        bail!("{}: {body}", answer.problem());
    }
    Ok(answer.body)
}

impl Times {
    fn timing(self) -> Option<QuestionTiming> {
        let runs = self.seconds.len();
        Some(QuestionTiming {
            runs,
            median_ms: super::writing::percentile(&self.seconds, 0.5)?,
            p99_ms: super::writing::percentile(&self.seconds, 0.99)?,
            cpu_ms: self.cpu_known.then(|| self.cpu_seconds * 1000.0 / runs as f64),
        })
    }
}
