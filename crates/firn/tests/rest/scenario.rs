//! Scenario file as typed values. Unknown keys are refused: a misspelt matcher would otherwise pass for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

/// File of scenarios about one subject.
pub(crate) struct ScenarioFile {
    /// File name without `.yml`. Names that the file creates start with it.
    pub(crate) stem: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) setup: Setup,
    /// Requests that remove what the scenarios created in addition to the indices of the setup.
    pub(crate) cleanup: Vec<String>,
    pub(crate) scenarios: Vec<Scenario>,
}

/// Row of a table of the compatibility page: the table, the row's name, its other cells by column.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) table: String,
    pub(crate) row: String,
    #[serde(flatten)]
    pub(crate) cells: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Setup {
    pub(crate) indices: BTreeMap<String, Index>,
    /// Requests after the indices are created.
    pub(crate) requests: Vec<Step>,
}

/// Index and its documents. `_id` and `_routing` are removed from a document; without an `_id` its id is its position,
/// from 1 on.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Index {
    pub(crate) settings: Map<String, Value>,
    pub(crate) mappings: Map<String, Value>,
    pub(crate) aliases: Map<String, Value>,
    pub(crate) docs: Vec<Map<String, Value>>,
}

pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Row of the page that counts it; by default the first one of the file.
    pub(crate) row: String,
    /// Only peer that it runs against.
    pub(crate) only: Option<Who>,
    /// Why the peers differ: a sentence for the page.
    pub(crate) why: Option<String>,
    /// Peer that the sentence is about, unless it is the excluded one.
    pub(crate) differs: Option<Who>,
    /// Words of firn's refusal: firn lacks the feature and answers 400 with these words instead of the expected result.
    pub(crate) refused: Option<String>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    Firn,
    OpenSearch,
}

/// Request and the expectations of its answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    /// Method and path, as in `GET /index/_search?size=1`.
    #[serde(default, rename = "do")]
    pub(crate) request: Option<String>,
    /// Short for `do: POST /{first index of the setup}/_search` with this body.
    #[serde(default)]
    pub(crate) search: Option<Value>,
    /// Short for a `search` of nothing but this query.
    #[serde(default)]
    pub(crate) query: Option<Value>,
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// One value per line.
    #[serde(default)]
    pub(crate) ndjson: Option<Vec<Value>>,
    /// Raw body, JSON or not.
    #[serde(default)]
    pub(crate) raw: Option<String>,
    /// Repeats the text `[what, times]` within `raw`, for bodies that are too large to write down.
    #[serde(default)]
    pub(crate) repeat: BTreeMap<String, (String, usize)>,
    /// Values of the answer, by path, that later steps name as `${name}`.
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    /// OpenSearch's answer, if it differs from firn and Elasticsearch.
    #[serde(default)]
    pub(crate) opensearch: Option<Other>,
    /// firn's answer, if it differs from Elasticsearch and OpenSearch.
    #[serde(default)]
    pub(crate) firn: Option<Other>,
    #[serde(flatten)]
    pub(crate) expect: Expect,
}

/// Answer of another peer, and why it differs: a sentence for the compatibility page.
#[derive(Debug, Deserialize)]
pub(crate) struct Other {
    pub(crate) why: String,
    #[serde(flatten)]
    pub(crate) expect: Expect,
}

/// All expectations of an answer; other parts are ignored. Keys are paths.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Expect {
    /// Default: 200, or 400 if an `error` is expected.
    pub(crate) status: Option<u16>,
    /// `_id`s of the hits in order.
    pub(crate) ids: Option<Vec<String>>,
    /// `_id`s of the hits in any order.
    pub(crate) id_set: Option<Vec<String>>,
    /// `hits.total.value`.
    pub(crate) total: Option<u64>,
    /// The value is exactly this; numbers with and without a fraction differ.
    #[serde(rename = "match")]
    pub(crate) equal: Map<String, Value>,
    /// The same, but objects may have more keys.
    pub(crate) has: Map<String, Value>,
    /// A number and its tolerance.
    pub(crate) near: BTreeMap<String, (f64, f64)>,
    pub(crate) length: BTreeMap<String, usize>,
    /// The array has these values in any order.
    pub(crate) set: BTreeMap<String, Vec<Value>>,
    pub(crate) is_true: Vec<String>,
    pub(crate) is_false: Vec<String>,
    pub(crate) gt: BTreeMap<String, f64>,
    pub(crate) lt: BTreeMap<String, f64>,
    pub(crate) error: Option<ErrorExpect>,
    /// Some line of the body has the pieces between `…` in order.
    pub(crate) lines: Vec<String>,
    /// serde cannot deny unknown keys of a flattened struct; they are collected here.
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

/// Some level of the error (itself, its root causes, its causes) has this type and words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorExpect {
    #[serde(rename = "type")]
    pub(crate) error_type: Option<String>,
    /// Pieces between `…`, in order.
    pub(crate) reason: Option<String>,
}

impl Step {
    fn check(&self) -> Result<()> {
        let others = [&self.opensearch, &self.firn];
        let others = others.into_iter().flatten().map(|other| &other.expect);
        for expect in others.chain([&self.expect]) {
            if let Some(key) = expect.unknown.keys().next() {
                bail!("unknown key `{key}`");
            }
        }
        let requests = [self.request.is_some(), self.search.is_some(), self.query.is_some()];
        ensure!(
            requests.iter().filter(|is_there| **is_there).count() == 1,
            "a step has one of `do`, `search` and `query`"
        );
        Ok(())
    }
}

/// Keys of a scenario in addition to those of the single step that it may be.
const SCENARIO_KEYS: &[&str] = &["name", "row", "only", "why", "differs", "refused", "steps"];

impl Scenario {
    fn parse(mut value: Map<String, Value>, default_row: &str) -> Result<Self> {
        let step: Map<String, Value> = value
            .keys()
            .filter(|key| !SCENARIO_KEYS.contains(&key.as_str()))
            .cloned()
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|key| value.shift_remove(&key).map(|value| (key, value)))
            .collect();
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        ensure!(!name.is_empty(), "a scenario without a name");
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let steps: Vec<Step> = match value.get("steps") {
            Some(steps) if step.is_empty() => serde_json::from_value(steps.clone()).with_context(|| name.clone())?,
            Some(_) => bail!("{name}: `steps` and keys of a step beside them"),
            None => vec![serde_json::from_value(Value::Object(step)).with_context(|| name.clone())?],
        };
        for step in &steps {
            step.check().with_context(|| name.clone())?;
        }
        let who = |key: &str| value.get(key).cloned().map(serde_json::from_value).transpose();
        let (only, differs) = (who("only")?, who("differs")?);
        let scenario = Self {
            row: text("row").unwrap_or_else(|| default_row.to_owned()),
            only,
            differs,
            why: text("why"),
            refused: text("refused"),
            steps,
            name,
        };
        ensure!(
            scenario.only.is_some() == scenario.why.is_some(),
            "{}: `only` and `why` belong together",
            scenario.name
        );
        Ok(scenario)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    compat: Vec<Row>,
    #[serde(default)]
    setup: Setup,
    #[serde(default)]
    cleanup: Vec<String>,
    scenarios: Vec<Map<String, Value>>,
}

fn parse(stem: &str, text: &str) -> Result<ScenarioFile> {
    let raw: Raw = serde_norway::from_str(text)?;
    let first = raw.compat.first().context("no row of the compatibility page")?;
    let scenarios: Vec<Scenario> = raw
        .scenarios
        .into_iter()
        .map(|scenario| Scenario::parse(scenario, &first.row))
        .collect::<Result<_>>()?;
    let mut names = BTreeSet::new();
    for scenario in &scenarios {
        ensure!(
            names.insert(&scenario.name),
            "two scenarios are called `{}`",
            scenario.name
        );
        ensure!(
            raw.compat.iter().any(|row| row.row == scenario.row),
            "{}: no row `{}`",
            scenario.name,
            scenario.row
        );
    }
    for index in raw.setup.indices.keys() {
        ensure!(index.starts_with(stem), "index `{index}` is not called after its file");
    }
    for step in &raw.setup.requests {
        step.check()?;
    }
    Ok(ScenarioFile {
        stem: stem.to_owned(),
        rows: raw.compat,
        setup: raw.setup,
        cleanup: raw.cleanup,
        scenarios,
    })
}

/// Reads all files of a folder, by name.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<ScenarioFile>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yml"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(path)?;
            parse(&stem, &text).with_context(|| path.display().to_string())
        })
        .collect()
}

#[test]
fn refuses_what_it_does_not_know() {
    let file = |scenario: &str| {
        format!(
            "compat: [{{table: queries, row: term}}]\nsetup: {{indices: {{file-a: {{}}}}}}\nscenarios:\n- {scenario}"
        )
    };
    let refused = |scenario: &str| format!("{:#}", parse("file", &file(scenario)).err().expect("refused"));
    assert!(parse("file", &file("{name: a, query: {match_all: {}}, total: 1}")).is_ok());
    assert!(refused("{name: a, query: {match_all: {}}, totl: 1}").contains("totl"));
    assert!(refused("{name: a, total: 1}").contains("one of"));
    assert!(refused("{name: a, only: firn, do: GET /}").contains("why"));
    assert!(refused("{name: a, row: other, do: GET /}").contains("no row `other`"));
    assert!(refused("{name: a, do: GET /, opensearch: {why: so, statuss: 1}}").contains("statuss"));
    assert!(refused("{name: a, do: GET /, steps: []}").contains("steps"));
}
