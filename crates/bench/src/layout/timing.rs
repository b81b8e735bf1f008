//! Measurement of all subjects with the same queries, in rotation.
//!
//! A row is a query in a mode. Its repetitions rotate over the subjects, and each round starts with another one, so
//! that disturbances of the machine affect all of them. Every response is compared with that of the first subject, and
//! histograms with the generated events: a fast wrong response is worthless, so the first difference ends the run.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::generate::mix;

use super::answers::Answer;
use super::period::DAY_MS;
use super::questions::{MEASURES, MODES, Measure, Mode, SIZES, Size, WINDOW_WEEKS, Window, body, moved};
use super::report::{Row, Times};
use super::subjects::Subject;
use super::volumes::{Source, Volume};
use crate::core::Side;
use crate::writing::percentile;

/// Number of measurements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Minimum of queries per subject and row, even if it takes long.
    pub(super) repeats_min: usize,
    /// Maximum, even if it is fast.
    pub(super) repeats_max: usize,
    /// A row continues up to `repeats_max` while it has taken less than this.
    pub(super) row_time: Duration,
    /// Warm-up rounds over all queries.
    pub(super) warm_up_rounds: usize,
    /// Seed of the moved windows.
    pub(super) seed: u64,
}

/// A query for one tenant.
struct Question<'a> {
    size: Size,
    volume: &'a Volume,
    weeks: u32,
    window: Window,
    measure: Measure,
}

/// How caches of a server are avoided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgetting {
    /// `POST _cache/clear` before the request.
    Clear,
    /// The server has no such endpoint: `request_cache=false` in the request.
    Bypass,
}

/// Runs all queries.
pub(super) struct QuestionRunner<'a> {
    pub(super) sides: &'a [Side],
    pub(super) subjects: &'a [Subject],
    pub(super) effort: Effort,
    forgetting: Vec<Forgetting>,
}

impl<'a> QuestionRunner<'a> {
    /// Finds out how the caches of each server can be avoided.
    pub(super) fn new(sides: &'a [Side], subjects: &'a [Subject], effort: Effort) -> anyhow::Result<Self> {
        let mut forgetting = Vec::new();
        for (number, side) in sides.iter().enumerate() {
            let subject = subjects.iter().find(|subject| subject.server == number);
            let path = subject.map_or_else(|| "/_cache/clear".to_owned(), clear_path);
            let answer = side.client.send("POST", &path, None);
            let answer = answer.map_err(|failure| anyhow::anyhow!("{path}: {failure}"))?;
            forgetting.push(match answer.status {
                200 => Forgetting::Clear,
                _ => Forgetting::Bypass,
            });
        }
        Ok(Self {
            sides,
            subjects,
            effort,
            forgetting,
        })
    }

    /// Returns servers whose caches could only be bypassed, not cleared.
    pub(super) fn bypassing(&self) -> impl Iterator<Item = &Side> {
        let sides = self.sides.iter().zip(&self.forgetting);
        sides.filter_map(|(side, how)| (*how == Forgetting::Bypass).then_some(side))
    }

    /// Measures all rows. `chosen` are the tenants by [`SIZES`].
    pub(super) fn run(&self, source: &Source, volumes: &[Volume], chosen: [usize; 3]) -> anyhow::Result<Vec<Row>> {
        let end_ms = source.end_ms();
        let mut questions = Vec::new();
        for (size, position) in SIZES.into_iter().zip(chosen) {
            for weeks in WINDOW_WEEKS {
                for measure in MEASURES {
                    questions.push(Question {
                        size,
                        volume: &volumes[position],
                        weeks,
                        window: (end_ms - i64::from(7 * weeks) * DAY_MS, end_ms),
                        measure,
                    });
                }
            }
        }
        eprintln!("checking that all results are equal");
        for question in &questions {
            let first = self.ask_all(question, question.window, Mode::Repeated, 0)?.0;
            let days = question.volume.last_days(question.weeks);
            first
                .check_days(question.window.0, days)
                .with_context(|| format!("{} of {}", self.subjects[0].name, question.volume.tenant))?;
        }
        for round in 0..self.effort.warm_up_rounds {
            eprintln!("warming up, round {} of {}", round + 1, self.effort.warm_up_rounds);
            for (number, question) in questions.iter().enumerate() {
                self.ask_all(question, self.moved(question, number, round), Mode::Moved, round)?;
            }
        }
        let mut rows = Vec::new();
        for (number, question) in questions.iter().enumerate() {
            for mode in MODES {
                rows.push(self.row(question, number, mode)?);
            }
            eprintln!("question {} of {}", number + 1, questions.len());
        }
        Ok(rows)
    }

    /// Returns another window each time, the same for all subjects.
    fn moved(&self, question: &Question<'_>, number: usize, round: usize) -> Window {
        let number = (number as u64) << 32 | round as u64;
        moved(question.window, mix(self.effort.seed) ^ number)
    }

    fn row(&self, question: &Question<'_>, number: usize, mode: Mode) -> anyhow::Result<Row> {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); self.subjects.len()];
        if mode == Mode::Repeated {
            // Fills the caches before the measurement.
            self.ask_all(question, question.window, mode, 0)?;
        }
        let started = Instant::now();
        for round in 0..self.effort.repeats_max {
            if round >= self.effort.repeats_min && started.elapsed() > self.effort.row_time {
                break;
            }
            let window = match mode {
                // The warm-up rounds used the previous numbers.
                Mode::Moved => self.moved(question, number, self.effort.warm_up_rounds + round),
                _ => question.window,
            };
            let (_, seconds) = self.ask_all(question, window, mode, round)?;
            for (times, seconds) in times.iter_mut().zip(seconds) {
                times.push(seconds);
            }
        }
        Ok(Row {
            tenant: question.size,
            weeks: question.weeks,
            measure: question.measure,
            mode,
            times: times
                .iter()
                .map(|times| summary(times))
                .collect::<Option<_>>()
                .context("there are no measurements")?,
        })
    }

    /// Queries every subject once, starting with number `turn`; returns the first subject's response, and seconds by
    /// subject.
    fn ask_all(
        &self,
        question: &Question<'_>,
        window: Window,
        mode: Mode,
        turn: usize,
    ) -> anyhow::Result<(Answer, Vec<f64>)> {
        let count = self.subjects.len();
        let tenant = &question.volume.tenant;
        let body = body(question.measure, tenant, window);
        let mut answers: Vec<Option<Answer>> = vec![None; count];
        let mut seconds = vec![0.0; count];
        for step in 0..count {
            let number = (turn + step) % count;
            let subject = &self.subjects[number];
            let context = || {
                let server = &self.sides[subject.server].server.version;
                format!(
                    "querying {} of {server}: {}",
                    subject.name,
                    String::from_utf8_lossy(&body)
                )
            };
            let (raw, time) = self.ask(subject, tenant, &body, mode).with_context(context)?;
            seconds[number] = time;
            answers[number] = Some(Answer::read(question.measure, tenant, &raw).with_context(context)?);
        }
        let mut answers = answers.into_iter().flatten();
        let first = answers.next().context("there is always a first subject")?;
        for (subject, answer) in self.subjects[1..].iter().zip(answers) {
            if let Some(difference) = first.difference(&answer) {
                bail!(
                    "the results of {} and {} ({}) differ for {}: {}",
                    self.subjects[0].name,
                    subject.name,
                    self.sides[subject.server].server.version,
                    String::from_utf8_lossy(&body),
                    difference.chars().take(2000).collect::<String>()
                );
            }
        }
        Ok((first, seconds))
    }

    fn ask(&self, subject: &Subject, tenant: &str, body: &[u8], mode: Mode) -> anyhow::Result<(Vec<u8>, f64)> {
        let client = &self.sides[subject.server].client;
        let mut path = subject.search_path(tenant);
        if mode == Mode::First {
            match self.forgetting[subject.server] {
                Forgetting::Clear => drop(client.json("POST", &clear_path(subject), None)?),
                Forgetting::Bypass => {
                    path.push(if path.contains('?') { '&' } else { '?' });
                    path.push_str("request_cache=false");
                }
            }
        }
        let started = Instant::now();
        let answer = client.send("POST", &path, Some(("application/json", body)));
        let seconds = started.elapsed().as_secs_f64();
        let answer = answer.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        if answer.status != 200 {
            bail!("{}", answer.problem());
        }
        Ok((answer.body, seconds))
    }
}

fn clear_path(subject: &Subject) -> String {
    format!("{}/_cache/clear", subject.path())
}

fn summary(seconds: &[f64]) -> Option<Times> {
    Some(Times {
        runs: seconds.len(),
        median_ms: percentile(seconds, 0.5)?,
        p99_ms: percentile(seconds, 0.99)?,
        min_ms: percentile(seconds, 0.0)?,
    })
}
