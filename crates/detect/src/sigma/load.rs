//! Reading of files.

use rsigma_ir::{LowerOptions, lower_rule};
use rsigma_parser::{CorrelationRule, Level, SigmaRule, parse_sigma_yaml};
use serde::Deserialize as _;
use yaml_serde::Value;

use super::compile::condition;
use super::filter::{Filter, apply_filters};
use crate::log_sources::LogSource;
use crate::rule::{Rule, RuleError, Severity};

/// What a file holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Rules over single events, in the order of the file.
    pub rules: Vec<Rule>,
    /// Names of the rules by which correlations may refer to them, in the order of the rules.
    pub(crate) names: Vec<Option<String>>,
    /// Correlations, in the order of the file.
    pub correlations: Vec<Correlation>,
    /// Filters of rules, in the order of the file. Those of [`load`] are applied already.
    pub(super) filters: Vec<Filter>,
    /// What could not be read.
    pub errors: Vec<RuleError>,
    /// Whether a document has a text as its tags, which is taken for one tag.
    pub(super) has_one_tag: bool,
}

/// Correlation of other rules, as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlation {
    /// Its `id`, or else its title.
    pub id: String,
    /// One line for readers.
    pub title: String,
    /// Names and ids of the rules that it correlates.
    pub references: Vec<String>,
    pub(crate) parsed: CorrelationRule,
    /// Whether it says a condition: the parser makes one of none.
    pub(crate) has_condition: bool,
}

/// What the documents of a text say that the parser does not hand over.
struct Heads(Vec<Head>);

#[derive(Debug, Default)]
struct Head {
    id: Option<String>,
    title: String,
    has_condition: bool,
    /// A member of another type than the specification has, which the parser drops: why the document is refused.
    mistake: Option<String>,
    /// It has a text in the place of a list, which the parser takes for a list of one.
    has_one_tag: bool,
}

/// Says which member of a document has another type than the specification has, among those that matter: without its id two rules of one
/// title would be one, and without its level a rule would have another severity.
fn mistake(document: &Value) -> Option<String> {
    let member = |name: &str| document.get(name).filter(|value| !value.is_null());
    for name in ["id", "level"] {
        if let Some(other) = member(name).filter(|value| !value.is_string()) {
            return Some(format!("[{name}] must be a string, not {}", kind_of(other)));
        }
    }
    let tags = member("tags")?;
    let other = match tags {
        Value::String(_) => return None,
        Value::Sequence(tags) => tags.iter().find(|tag| !tag.is_string())?,
        other => return Some(format!("[tags] must be a list of strings, not {}", kind_of(other))),
    };
    Some(format!("[tags] must be a list of strings, not of {}", kind_of(other)))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Tagged(_) => "a value with a YAML tag",
    }
}

impl Heads {
    /// Reads the documents up to the first one that is no YAML.
    fn read(yaml: &str) -> Self {
        let values = yaml_serde::Deserializer::from_str(yaml).map_while(|document| Value::deserialize(document).ok());
        let heads = values.map(|document| {
            let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
            Head {
                id: text("id"),
                title: text("title").unwrap_or_default(),
                mistake: mistake(&document),
                has_one_tag: document.get("tags").is_some_and(Value::is_string),
                has_condition: document
                    .get("correlation")
                    .is_some_and(|correlation| correlation.get("condition").is_some()),
            }
        });
        Self(heads.collect())
    }

    /// Returns the id and title of a text with one document.
    fn of_only(&self) -> (String, String) {
        match &self.0[..] {
            [head] => (head.id.clone().unwrap_or_default(), head.title.clone()),
            _ => (String::new(), String::new()),
        }
    }

    /// Fails if the document of a rule has a member of a wrong type.
    fn check(&self, id: &Option<String>, title: &str) -> Result<(), String> {
        let of_rule = |head: &&Head| head.id == *id && head.title == title;
        let mut heads = self.0.iter().filter(of_rule);
        match heads.find_map(|head| head.mistake.clone()) {
            Some(mistake) => Err(mistake),
            None => Ok(()),
        }
    }

    fn has_condition(&self, parsed: &CorrelationRule) -> bool {
        let is_same = |head: &&Head| head.id == parsed.id && head.title == parsed.title;
        self.0.iter().filter(is_same).any(|head| head.has_condition)
    }
}

/// Document of a YAML text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document<'y> {
    /// Line of its first content in the text; the first line is 1.
    pub line: usize,
    /// Its lines.
    pub text: &'y str,
}

/// Removes the byte order mark that some editors write before a text.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Returns the documents of a YAML text that have content.
pub fn documents(yaml: &str) -> Vec<Document<'_>> {
    let yaml = without_mark(yaml);
    let mut documents = Vec::new();
    let (mut start, mut place) = (0, 0);
    let mut content_line = None;
    for (at, line) in yaml.split_inclusive('\n').enumerate() {
        let is_marker = line.trim_end() == "---" || line.starts_with("--- ");
        if is_marker {
            documents.extend(content_line.take().map(|line| Document {
                line,
                text: &yaml[start..place],
            }));
            start = place + line.len();
        } else if content_line.is_none() && !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            content_line = Some(at + 1);
        }
        place += line.len();
    }
    documents.extend(content_line.map(|line| Document {
        line,
        text: &yaml[start..],
    }));
    documents
}

/// Reads a text: one rule, or several in documents of YAML, and the filters among them for the others.
pub fn load(yaml: &str) -> Loaded {
    let mut loaded = [load_parts(yaml)];
    let unused = apply_filters(&mut loaded);
    let [mut loaded] = loaded;
    loaded.errors.extend(unused);
    loaded
}

/// Reads a text whose filters may be for rules of other texts: [`apply_filters`] adds them to the rules.
pub fn load_parts(yaml: &str) -> Loaded {
    let mut loaded = Loaded::default();
    let yaml = without_mark(yaml);
    let heads = Heads::read(yaml);
    loaded.has_one_tag = heads.0.iter().any(|head| head.has_one_tag);
    let (id, title) = heads.of_only();
    let of_text = |reason: String| RuleError {
        id: id.clone(),
        title: title.clone(),
        reason: short(&reason),
    };
    let collection = match parse_sigma_yaml(yaml) {
        Ok(collection) => collection,
        Err(error) => {
            loaded.errors.push(of_text(error.to_string()));
            return loaded;
        }
    };
    loaded.errors.extend(collection.errors.into_iter().map(of_text));
    for rule in &collection.rules {
        match heads.check(&rule.id, &rule.title).and_then(|()| convert(rule)) {
            Ok(converted) => {
                loaded.rules.push(converted);
                loaded.names.push(rule.name.clone());
            }
            Err(reason) => loaded.errors.push(refusal(&rule.id, &rule.title, reason)),
        }
    }
    for parsed in collection.correlations {
        if let Err(reason) = heads.check(&parsed.id, &parsed.title) {
            loaded.errors.push(refusal(&parsed.id, &parsed.title, reason));
            continue;
        }
        loaded.correlations.push(Correlation {
            id: parsed.id.clone().unwrap_or_else(|| parsed.title.clone()),
            title: parsed.title.clone(),
            references: parsed.rules.clone(),
            has_condition: heads.has_condition(&parsed),
            parsed,
        });
    }
    for filter in &collection.filters {
        match Filter::read(filter) {
            Ok(filter) => loaded.filters.push(filter),
            Err(reason) => loaded.errors.push(refusal(&filter.id, &filter.title, reason)),
        }
    }
    loaded
}

/// How an error of a condition begins; the place and a colon follow.
const CONDITION: &str = "Condition parse error at ";

/// Shortens what the parser says of a condition to the place and the reason: it repeats the condition, and its own words for each pair of
/// parentheses.
fn short(reason: &str) -> String {
    let Some((_, innermost)) = reason.rsplit_once(CONDITION) else {
        return reason.to_owned();
    };
    let place = innermost.split(": ").next().unwrap_or_default();
    let mut cause = match innermost.rsplit_once("\n  = ") {
        Some((_, cause)) => cause,
        None => innermost,
    };
    for repeated in [format!("{place}: "), format!("at {place}: ")] {
        cause = cause.strip_prefix(repeated.as_str()).unwrap_or(cause);
    }
    format!("[condition] at {place}: {}", cause.trim())
}

pub(super) fn refusal(id: &Option<String>, title: &str, reason: String) -> RuleError {
    RuleError {
        id: id.clone().unwrap_or_default(),
        title: title.to_owned(),
        reason,
    }
}

/// What a list shows of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headline {
    /// Title.
    pub title: String,
    /// Severity by its level.
    pub severity: Severity,
    /// Tags.
    pub tags: Vec<String>,
}

/// Reads what a list shows of the correlation or else the first rule of a text, without a look at its conditions; `None`: it has none.
pub fn headline(yaml: &str) -> Option<Headline> {
    let collection = parse_sigma_yaml(without_mark(yaml)).ok()?;
    let of_rule = collection.rules.into_iter().next();
    let of_rule = of_rule.map(|rule| (rule.title, rule.level, rule.tags));
    let of_correlation = collection.correlations.into_iter().next();
    let of_correlation = of_correlation.map(|rule| (rule.title, rule.level, rule.tags));
    let (title, level, tags) = of_correlation.or(of_rule)?;
    Some(Headline {
        title,
        severity: severity(level),
        tags,
    })
}

fn convert(rule: &SigmaRule) -> Result<Rule, String> {
    let lowered = lower_rule(rule, &LowerOptions::default()).map_err(|error| error.to_string())?;
    Ok(Rule {
        id: rule.id.clone().unwrap_or_else(|| rule.title.clone()),
        title: rule.title.clone(),
        description: rule.description.clone().unwrap_or_default(),
        severity: severity(rule.level),
        tags: rule.tags.clone(),
        references: rule.references.clone(),
        false_positives: rule.falsepositives.clone(),
        author: rule.author.clone(),
        log_source: LogSource {
            category: rule.logsource.category.clone(),
            product: rule.logsource.product.clone(),
            service: rule.logsource.service.clone(),
        },
        condition: condition(&lowered)?,
    })
}

pub(super) fn severity(level: Option<Level>) -> Severity {
    level.map_or(Severity::default(), |level| match level {
        Level::Informational => Severity::Informational,
        Level::Low => Severity::Low,
        Level::Medium => Severity::Medium,
        Level::High => Severity::High,
        Level::Critical => Severity::Critical,
    })
}
