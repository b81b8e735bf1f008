//! Measurement of the queries: alternates between both sides, and compares their responses.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use firn_tools::client::encode_segment;
use firn_tools::generate::mix;
use serde_json::{Value, json};

use super::peer;
use super::report::{Row, Times};
use super::stages::{DAYS, Mode, Question, STAGES, Size, Stage, Window};
use crate::core::Side;
use crate::layout::volumes::{Source, Volume};
use crate::writing::percentile;

/// Runs the queries.
pub(super) struct QuestionRunner<'a> {
    pub(super) firn: &'a Side,
    pub(super) index: &'a str,
    pub(super) peer: Option<&'a Side>,
    pub(super) peer_index: &'a str,
    pub(super) repeats: usize,
    pub(super) warm_up_rounds: usize,
    pub(super) seed: u64,
    /// Fields whose distinct values are counted.
    pub(super) fields: Vec<String>,
}

/// Returns the fields that firn would show, most used first.
pub(super) fn fields(firn: &Side, index: &str, count: usize) -> anyhow::Result<Vec<String>> {
    let body = json!({"index": index});
    let answer = firn.client.json("POST", "/_firn/discover/fields", Some(&body))?;
    let fields: Vec<String> = (answer["fields"].as_array())
        .context("the response has no fields")?
        .iter()
        .filter(|field| field["aggregatable"] == true && field["in_use"] != false && field["type"] != "text")
        .filter_map(|field| field["name"].as_str())
        .filter(|name| !name.starts_with('_'))
        .take(count)
        .map(str::to_owned)
        .collect();
    ensure!(fields.len() == count, "only {} fields can be counted", fields.len());
    Ok(fields)
}

impl QuestionRunner<'_> {
    /// Measures all rows.
    pub(super) fn run(&self, source: &Source, chosen: [(Size, &Volume); 2]) -> anyhow::Result<Vec<Row>> {
        let mut questions = Vec::new();
        for (size, volume) in chosen {
            for days in DAYS.into_iter().filter(|days| *days <= 7 * source.weeks) {
                for stage in STAGES {
                    let question = Question {
                        stage,
                        tenant: &volume.tenant,
                        window: Window::last(days, source.end_ms()),
                        fields: &self.fields,
                    };
                    questions.push((size, days, question));
                }
            }
        }
        for round in 0..self.warm_up_rounds {
            eprintln!("warming up, round {} of {}", round + 1, self.warm_up_rounds);
            for (number, (_, _, question)) in questions.iter().enumerate() {
                self.both(&self.moved(question, number, round), round)?;
            }
        }
        let mut rows = Vec::new();
        for (number, (size, days, question)) in questions.iter().enumerate() {
            for mode in [Mode::First, Mode::Repeated] {
                let (mut firn, mut peer) = (Vec::new(), Vec::new());
                if mode == Mode::Repeated {
                    self.both(question, 0)?;
                }
                for round in 0..self.repeats {
                    let request = match mode {
                        Mode::First => self.moved(question, number, self.warm_up_rounds + round),
                        Mode::Repeated => *question,
                    };
                    let (a, b) = self.both(&request, round)?;
                    firn.push(a);
                    peer.extend(b);
                }
                rows.push(Row {
                    tenant: *size,
                    days: *days,
                    stage: question.stage,
                    mode,
                    firn: times(&firn).context("there are no measurements")?,
                    peer: times(&peer),
                });
            }
            eprintln!("question {} of {}", number + 1, questions.len());
        }
        Ok(rows)
    }

    fn moved<'q>(&self, question: &Question<'q>, number: usize, round: usize) -> Question<'q> {
        let number = mix(self.seed) ^ ((number as u64) << 32 | round as u64);
        Question {
            window: question.window.moved(number),
            ..*question
        }
    }

    /// Returns the seconds of firn and, if there is one, of the peer, which is first every other time. Fails if their
    /// results differ.
    fn both(&self, question: &Question<'_>, turn: usize) -> anyhow::Result<(f64, Option<f64>)> {
        let Some(side) = self.peer else {
            return Ok((self.discover(question)?.1, None));
        };
        let ((ours, firn), (theirs, peer)) = if turn.is_multiple_of(2) {
            let firn = self.discover(question)?;
            (firn, self.ask_peer(side, question)?)
        } else {
            let peer = self.ask_peer(side, question)?;
            (self.discover(question)?, peer)
        };
        if let Some(difference) = peer::difference(question.stage, &ours, &theirs) {
            bail!(
                "the results differ for {} of {}: {difference}",
                question.stage.id(),
                question.tenant
            );
        }
        Ok((firn, Some(peer)))
    }

    /// Returns the stage's result, and the seconds until the last byte arrived.
    fn discover(&self, question: &Question<'_>) -> anyhow::Result<(Value, f64)> {
        let body = question.body(self.index).to_string();
        let started = Instant::now();
        let answer = (self.firn.client)
            .send("POST", "/_firn/discover", Some(("application/json", body.as_bytes())))
            .map_err(|failure| anyhow::anyhow!("{failure}"))?;
        let seconds = started.elapsed().as_secs_f64();
        if answer.status != 200 {
            bail!("{body}: {}", answer.problem());
        }
        let result = stage_result(&answer.body).with_context(|| body.clone())?;
        Ok((result, seconds))
    }

    fn ask_peer(&self, side: &Side, question: &Question<'_>) -> anyhow::Result<(Value, f64)> {
        let body = peer::body(question).to_string();
        let path = format!("/{}/_search", encode_segment(self.peer_index).replace("%2A", "*"));
        let started = Instant::now();
        let answer = (side.client)
            .send("POST", &path, Some(("application/json", body.as_bytes())))
            .map_err(|failure| anyhow::anyhow!("{failure}"))?;
        let seconds = started.elapsed().as_secs_f64();
        if answer.status != 200 {
            bail!("{body}: {}", answer.problem());
        }
        let answer: Value = serde_json::from_slice(&answer.body)?;
        ensure!(
            answer["timed_out"] == false && answer["_shards"]["failed"] == json!(0),
            "the response to {body} is partial"
        );
        Ok((answer, seconds))
    }
}

/// Returns the result of the only stage in a response of `_firn/discover` (NDJSON). Fails if it is partial.
pub(crate) fn stage_result(answer: &[u8]) -> anyhow::Result<Value> {
    for line in answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut event: Value = serde_json::from_slice(line).context("an event of the stream is not JSON")?;
        match event["event"].as_str() {
            Some("done") => {
                ensure!(event["partial"] == false, "the result is partial: {event}");
                return Ok(event["result"].take());
            }
            Some("failed" | "estimate") => bail!("no result: {event}"),
            _ => {}
        }
    }
    bail!("the stream ended before the stage did")
}

/// Returns median and 95th percentile; `None` if there are no measurements.
pub(super) fn times(seconds: &[f64]) -> Option<Times> {
    Some(Times {
        runs: seconds.len(),
        median_ms: percentile(seconds, 0.5)?,
        p95_ms: percentile(seconds, 0.95)?,
    })
}

/// Returns the maximum time of a stage in ms without cached results.
pub(super) fn bound_ms(stage: Stage) -> f64 {
    match stage {
        Stage::Sample => 100.0,
        Stage::Histogram => 150.0,
        Stage::Cardinality => 1000.0,
        Stage::TopValues => 200.0,
    }
}
