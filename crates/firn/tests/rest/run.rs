//! Runner of scenario files against one peer.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, ensure};
use firn_testkit::{Answer, Client};
use serde_json::{Map, Value, json};

use crate::expect::{get, has_pieces, mismatches, shorten};
use crate::scenario::{Expect, Scenario, ScenarioFile, Step, Who};

/// Server under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Firn,
    OpenSearch,
}

/// Result of a run.
pub(crate) struct Report {
    peer: Peer,
    files: usize,
    passed: usize,
    /// Scenarios for another peer only.
    left_out: usize,
    /// Text of each failure.
    pub(crate) failures: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "\n{failure}")?;
        }
        write!(
            f,
            "{:?}: {} files, {} scenarios passed, {} left out, {} failed",
            self.peer,
            self.files,
            self.passed,
            self.left_out,
            self.failures.len()
        )
    }
}

/// Runs the files one after another.
pub(crate) fn run_all(files: &[ScenarioFile], client: &Client, peer: Peer) -> Report {
    let mut report = Report {
        peer,
        files: files.len(),
        passed: 0,
        left_out: 0,
        failures: Vec::new(),
    };
    for file in files {
        let runner = Runner { file, client, peer };
        runner.clean();
        match runner.set_up() {
            Ok(()) => runner.run(&mut report),
            Err(error) => report.failures.push(format!("{}.yml: setup: {error:#}", file.stem)),
        }
        runner.clean();
    }
    report
}

struct Runner<'a> {
    file: &'a ScenarioFile,
    client: &'a Client,
    peer: Peer,
}

impl Runner<'_> {
    /// Removes leftovers of an earlier run. Missing objects cannot be removed, so the answers do not matter.
    fn clean(&self) {
        for request in &self.file.cleanup {
            if let Some((method, path)) = request.split_once(' ') {
                let _ = self.client.send(method, path, None, b"");
            }
        }
        for index in self.file.setup.indices.keys() {
            let _ = self.client.send("DELETE", &format!("/{index}"), None, b"");
        }
    }

    fn set_up(&self) -> Result<()> {
        for (name, index) in &self.file.setup.indices {
            let mut settings = index.settings.clone();
            settings.entry("number_of_replicas").or_insert(json!(0));
            let body = json!({"settings": settings, "mappings": index.mappings, "aliases": index.aliases});
            succeeded(&self.client.json("PUT", &format!("/{name}"), &body)?)?;
            if index.docs.is_empty() {
                continue;
            }
            let mut lines = Vec::new();
            for (place, doc) in index.docs.iter().enumerate() {
                let mut doc = doc.clone();
                let id = doc
                    .shift_remove("_id")
                    .unwrap_or_else(|| (place + 1).to_string().into());
                let mut action = Map::from_iter([("_id".to_owned(), id)]);
                if let Some(routing) = doc.shift_remove("_routing") {
                    action.insert("routing".into(), routing);
                }
                lines.push(json!({"index": action}));
                lines.push(doc.into());
            }
            let answer = self
                .client
                .bulk(&format!("/{name}/_bulk?refresh=true"), &ndjson(&lines))?;
            ensure!(answer.json()["errors"] == false, "{}", shorten(&answer.text()));
        }
        for step in &self.file.setup.requests {
            let (_, mismatches) = self.step(step, &mut BTreeMap::new())?;
            ensure!(mismatches.is_empty(), "{:?}: {}", step.request, mismatches.join("\n"));
        }
        Ok(())
    }

    fn run(&self, report: &mut Report) {
        for scenario in &self.file.scenarios {
            let is_mine = match scenario.only {
                None => true,
                Some(Who::Firn) => self.peer == Peer::Firn,
                Some(Who::OpenSearch) => self.peer == Peer::OpenSearch,
            };
            if !is_mine {
                report.left_out += 1;
                continue;
            }
            match self.scenario(scenario) {
                None => report.passed += 1,
                Some(failure) => report
                    .failures
                    .push(format!("{}.yml: {}\n    {failure}", self.file.stem, scenario.name)),
            }
        }
    }

    /// Runs a scenario; returns its failure, if any.
    fn scenario(&self, scenario: &Scenario) -> Option<String> {
        let refused = scenario.refused.as_ref().filter(|_| self.peer == Peer::Firn);
        let mut saved = BTreeMap::new();
        for step in &scenario.steps {
            let (answer, mismatches) = match self.step(step, &mut saved) {
                Ok(done) => done,
                Err(error) => return Some(format!("{error:#}")),
            };
            if mismatches.is_empty() {
                continue;
            }
            return match refused {
                Some(words) if answer.status == 400 && has_pieces(&answer.text(), words) => None,
                Some(words) => Some(format!(
                    "expected a refusal with `{words}`, got {}: {}",
                    answer.status,
                    shorten(&answer.text())
                )),
                None => Some(format!("{}\n    {}", shown(step), mismatches.join("\n    "))),
            };
        }
        refused.map(|words| format!("firn answers it by now: remove `refused: {words}`"))
    }

    fn step(&self, step: &Step, saved: &mut BTreeMap<String, String>) -> Result<(Answer, Vec<String>)> {
        let (request, content_type, body) = self.request(step, saved)?;
        let (method, path) = request.split_once(' ').context("a method and a path")?;
        let answer = self.client.send(method, path, content_type, &body)?;
        for (name, path) in &step.save {
            let value = match get(&answer.json(), path) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            saved.insert(name.clone(), value);
        }
        let found = mismatches(self.expected(step), &answer);
        Ok((answer, found))
    }

    fn expected<'s>(&self, step: &'s Step) -> &'s Expect {
        let other = match self.peer {
            Peer::Firn => &step.firn,
            Peer::OpenSearch => &step.opensearch,
        };
        other.as_ref().map_or(&step.expect, |other| &other.expect)
    }

    fn request(
        &self,
        step: &Step,
        saved: &BTreeMap<String, String>,
    ) -> Result<(String, Option<&'static str>, Vec<u8>)> {
        let fill = |text: &str| {
            let named = |text: String, (name, value): (&String, &String)| text.replace(&format!("${{{name}}}"), value);
            saved.iter().fold(text.to_owned(), named)
        };
        let search = match (&step.search, &step.query) {
            (Some(body), _) => Some(body.clone()),
            (None, Some(query)) => Some(json!({"query": query})),
            (None, None) => None,
        };
        if let Some(body) = search {
            let index = self.file.setup.indices.keys().next().context("no index to search")?;
            let body = fill(&body.to_string()).into_bytes();
            return Ok((format!("POST /{index}/_search"), Some("application/json"), body));
        }
        let request = fill(step.request.as_deref().unwrap_or_default());
        Ok(match (&step.body, &step.ndjson, &step.raw) {
            (Some(body), ..) => (request, Some("application/json"), fill(&body.to_string()).into_bytes()),
            (_, Some(lines), _) => {
                let body = String::from_utf8(ndjson(lines))?;
                (request, Some("application/x-ndjson"), fill(&body).into_bytes())
            }
            (.., Some(raw)) => {
                let repeated = |text: String, (name, (what, times)): (&String, &(String, usize))| {
                    text.replace(&format!("${{{name}}}"), &what.repeat(*times))
                };
                let body = step.repeat.iter().fold(fill(raw), repeated);
                (request, Some("application/json"), body.into_bytes())
            }
            (None, None, None) => (request, None, Vec::new()),
        })
    }
}

fn shown(step: &Step) -> String {
    let body = step.search.as_ref().or(step.query.as_ref()).or(step.body.as_ref());
    let request = step.request.as_deref().unwrap_or("search");
    shorten(&format!("{request} {}", body.map(Value::to_string).unwrap_or_default()))
}

fn ndjson(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn succeeded(answer: &Answer) -> Result<()> {
    ensure!(answer.status < 300, "{}: {}", answer.status, shorten(&answer.text()));
    Ok(())
}
