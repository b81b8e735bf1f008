//! File of a pack as it is written: YAML, read by serde, nothing of it derived yet.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;

/// A pack: how the events of one source become events with common fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackFile {
    pub(crate) name: String,
    pub(crate) version: u32,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) prefix: String,
    pub(crate) parser: ParserFile,
    /// Values that mean "no value".
    #[serde(default)]
    pub(crate) absent: Vec<String>,
    #[serde(default = "yes")]
    pub(crate) related: bool,
    /// Objects inside which all raw names are looked for, too.
    #[serde(default)]
    pub(crate) objects: Vec<String>,
    #[serde(default)]
    pub(crate) labels: Vec<LabelFile>,
    #[serde(default)]
    pub(crate) constants: IndexMap<String, serde_norway::Value>,
    #[serde(default)]
    pub(crate) fields: IndexMap<String, FieldFile>,
    #[serde(default)]
    pub(crate) templates: IndexMap<String, String>,
    #[serde(default)]
    pub(crate) extract: Vec<ExtractFile>,
    #[serde(default)]
    pub(crate) sections: Vec<SectionFile>,
    #[serde(default)]
    pub(crate) lookups: Vec<LookupFile>,
    #[serde(default)]
    pub(crate) sigma: SigmaFile,
    #[serde(default)]
    pub(crate) examples: Vec<ExampleFile>,
    /// Not built; named in the refusal.
    #[serde(default)]
    pub(crate) vrl: Option<serde_norway::Value>,
}

fn yes() -> bool {
    true
}

/// The parser by its name, or with options.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ParserFile {
    Name(String),
    Options(ParserOptions),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParserOptions {
    pub(crate) format: String,
    #[serde(default)]
    pub(crate) patterns: Vec<String>,
    /// Grok patterns by name.
    #[serde(default)]
    pub(crate) definitions: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) columns: Vec<String>,
    #[serde(default)]
    pub(crate) separator: Option<String>,
    #[serde(default)]
    pub(crate) assign: Option<String>,
}

/// Rules for the events that meet all conditions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SectionFile {
    pub(crate) name: String,
    pub(crate) when: IndexMap<String, ConditionFile>,
    #[serde(default)]
    pub(crate) constants: IndexMap<String, serde_norway::Value>,
    #[serde(default)]
    pub(crate) fields: IndexMap<String, FieldFile>,
    #[serde(default)]
    pub(crate) templates: IndexMap<String, String>,
    #[serde(default)]
    pub(crate) extract: Vec<ExtractFile>,
}

/// Condition on one raw field.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ConditionFile {
    One(Scalar),
    AnyOf(Vec<Scalar>),
    Test(TestFile),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestFile {
    pub(crate) exists: Option<bool>,
    pub(crate) prefix: Option<String>,
    pub(crate) suffix: Option<String>,
    pub(crate) contains: Option<String>,
}

/// Scalar of YAML, as text.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(value) => value.clone(),
        }
    }
}

/// Targets of one raw field: a name, a mapping with options, or a list of both.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum FieldFile {
    Target(String),
    // Before the options, which serde would read from a list, too.
    Many(Vec<FieldFile>),
    Options(Box<ActionFile>),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionFile {
    #[serde(default)]
    pub(crate) to: Option<String>,
    #[serde(rename = "type", default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) format: Vec<String>,
    #[serde(default)]
    pub(crate) map: IndexMap<String, serde_norway::Value>,
    #[serde(default)]
    pub(crate) otherwise: Option<serde_norway::Value>,
    #[serde(default)]
    pub(crate) case: Option<String>,
    #[serde(default)]
    pub(crate) take: Option<String>,
    #[serde(default)]
    pub(crate) separator: Option<String>,
    #[serde(default)]
    pub(crate) trim: Option<String>,
    #[serde(default)]
    pub(crate) split: Option<String>,
    #[serde(default)]
    pub(crate) scale: Option<f64>,
    #[serde(default)]
    pub(crate) list: bool,
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(default)]
    pub(crate) entries: Option<EntriesFile>,
}

/// `NAME=VALUE,NAME=VALUE` inside one field.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntriesFile {
    pub(crate) separator: String,
    pub(crate) assign: String,
    pub(crate) fields: BTreeMap<String, FieldFile>,
}

/// Fields whose name stands in another field: `cs1` and `cs1Label`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelFile {
    pub(crate) value: String,
    pub(crate) label: String,
    /// Numbers that `#` stands for: from 1 to this.
    #[serde(default)]
    pub(crate) count: Option<u32>,
}

/// Dissect patterns that take fields out of another field.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtractFile {
    pub(crate) from: String,
    pub(crate) dissect: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookupFile {
    pub(crate) table: String,
    pub(crate) key: String,
    /// Object of common fields that receives all columns of a GeoIP table.
    #[serde(default)]
    pub(crate) to: Option<String>,
    /// Column to target.
    #[serde(default)]
    pub(crate) columns: IndexMap<String, String>,
}

/// How the words of Sigma's rules relate to the records of the source.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SigmaFile {
    /// Raw fields that Sigma names otherwise, by its names.
    #[serde(default)]
    pub(crate) fields: IndexMap<String, ValuesFile>,
    /// Fields of objects that the pack does not know are also found by their names alone.
    #[serde(default)]
    pub(crate) unnamed_objects: bool,
    #[serde(default)]
    pub(crate) log_sources: Vec<LogSourceFile>,
}

/// A log source of Sigma, and the events that belong to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSourceFile {
    pub(crate) category: Option<String>,
    pub(crate) product: Option<String>,
    pub(crate) service: Option<String>,
    #[serde(default)]
    pub(crate) when: IndexMap<String, ValuesFile>,
    pub(crate) substitute: Option<SubstituteFile>,
}

/// How the events of a log source differ from those that its rules are written for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubstituteFile {
    /// Raw fields by the names that rules have for them; null: the field is not recorded.
    #[serde(default)]
    pub(crate) fields: IndexMap<String, Option<String>>,
    /// Fields of rules whose values are recorded in part.
    #[serde(default)]
    pub(crate) partial: Vec<String>,
}

/// One value, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ValuesFile {
    One(Scalar),
    Many(Vec<Scalar>),
}

impl ValuesFile {
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value.text()],
            Self::Many(values) => values.iter().map(Scalar::text).collect(),
        }
    }
}

/// Input and expected event, run as a test.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExampleFile {
    pub(crate) name: String,
    pub(crate) input: String,
    #[serde(default)]
    pub(crate) expect: Option<serde_json::Value>,
    /// Part of the reason for which the input is refused.
    #[serde(default)]
    pub(crate) refused: Option<String>,
}
