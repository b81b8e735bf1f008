//! Pack in the form that the mapper runs: names are numbers, targets are numbered in the order in which they are printed.

use std::collections::HashMap;
use std::ops::Range;

use firn_detect::{LogSourceEntry, LogSources};
use firn_model::dates::DateFormat;

use super::ecs::Kind;
use super::names::NameTable;
use super::targets::Targets;
use crate::parsers::ParseError;

/// How the events of one source become events with common fields. Made by [`Pack::parse`](super::Pack::parse).
#[derive(Debug)]
pub struct Pack {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) description: String,
    pub(crate) format: Format,
    /// Raw names that a rule of the pack reads.
    pub(crate) fields: NameTable,
    /// The same names as the keys of nested objects.
    pub(crate) tree: NameTree,
    /// Names of objects, each with a dot behind it, that are left out of the names of unmapped fields.
    pub(crate) objects: Vec<Box<str>>,
    pub(crate) targets: Targets,
    pub(crate) stamps: Stamps,
    /// JSON values of constants and value maps.
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) actions: Vec<Action>,
    pub(crate) common: Rules,
    pub(crate) sections: Vec<Section>,
    pub(crate) chooser: Chooser,
    pub(crate) labels: Vec<LabelPair>,
    pub(crate) lookups: Vec<Lookup>,
    /// Values that mean "no value", and the length of the longest in bytes.
    pub(crate) absent: Vec<Box<str>>,
    pub(crate) absent_max: usize,
    pub(crate) sigma: Sigma,
    pub(crate) examples: Vec<Example>,
}

impl Pack {
    /// Returns the log sources of Sigma rules for the events of the pack; none if the pack names none.
    pub fn log_sources(&self) -> LogSources {
        LogSources::Known(self.sigma.log_sources.clone())
    }

    /// Returns the name; it is stamped on events.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version; it is stamped on events.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the object of the fields without a rule.
    pub fn prefix(&self) -> &str {
        self.targets.name(self.stamps.prefix)
    }

    /// Returns the description for readers.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Number of raw names that the pack maps.
    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    /// Returns the targets, sorted by their segments.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.names()
    }

    #[inline]
    pub(crate) fn is_absent(&self, text: &str) -> bool {
        text.len() <= self.absent_max && self.absent.iter().any(|absent| &**absent == text)
    }

    /// Returns whether a rule of the pack writes into `event.original`, where the record is if it is stored.
    pub fn writes_original(&self) -> bool {
        let of_rules = |rules: &Rules| {
            let constants = rules.constants.iter().map(|constant| constant.target);
            let templates = rules.templates.iter().map(|template| template.target);
            constants.chain(templates).collect::<Vec<u16>>()
        };
        let columns = self.lookups.iter().flat_map(|lookup| &lookup.columns);
        let actions = self.actions.iter().chain(columns.map(|(_, action)| action));
        let rules = self.sections.iter().map(|section| &section.rules);
        let mut targets = actions
            .map(|action| action.target)
            .chain(rules.chain([&self.common]).flat_map(of_rules));
        targets.any(|target| target == self.stamps.original)
    }

    /// Returns whether a rule of the pack reads a raw field (names of nested fields are joined by dots).
    pub fn maps(&self, field: &str) -> bool {
        self.fields.find(field).is_some()
    }
}

/// Sigma's words for the records.
#[derive(Debug, Default)]
pub(crate) struct Sigma {
    /// Raw fields by Sigma's names for them.
    pub(crate) fields: HashMap<Box<str>, Vec<String>>,
    /// Fields of unknown objects are also found by their names alone.
    pub(crate) unnamed_objects: bool,
    pub(crate) log_sources: Vec<LogSourceEntry>,
}

/// Parser of the records.
#[derive(Debug)]
pub(crate) enum Format {
    /// JSON objects, read in one pass.
    Json,
    /// Another format: its parser pushes the fields.
    Parser(Box<dyn Parse>),
}

/// Parser behind a pack: pushes the fields of one record.
pub(crate) trait Parse: std::fmt::Debug + Send + Sync {
    /// Parses one record.
    fn parse<'a>(&'a self, record: &'a str, sink: &mut super::raw_fields::RawFields<'a, '_>) -> Result<(), ParseError>;
}

/// Keys of nested objects, by level.
#[derive(Debug, Default)]
pub(crate) struct NameTree {
    pub(crate) nodes: Vec<NameNode>,
}

#[derive(Debug, Default)]
pub(crate) struct NameNode {
    pub(crate) keys: NameTable,
    /// The names inside stand for themselves, without the path of the object.
    pub(crate) is_unnamed: bool,
    /// By the number of the key: the field that ends here, and the node of the object.
    pub(crate) entries: Vec<(Option<u16>, Option<u16>)>,
}

/// Targets of what firn itself writes on each event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stamps {
    pub(crate) timestamp: u16,
    pub(crate) ecs_version: u16,
    pub(crate) original: u16,
    pub(crate) errors: u16,
    pub(crate) invalid_utf8: u16,
    pub(crate) name: u16,
    pub(crate) version: u16,
    pub(crate) tables: u16,
    /// The object of unmapped fields.
    pub(crate) prefix: u16,
}

/// Rules for all events, or for those of a section.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Range of the actions by the number of the raw field.
    pub(crate) actions: Vec<(u32, u32)>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) templates: Vec<Template>,
    pub(crate) extracts: Vec<Extract>,
}

impl Rules {
    /// Returns the actions of a field; an empty range if the field stays under the prefix by a rule.
    #[inline]
    pub(crate) fn of(&self, field: u16) -> Option<Range<usize>> {
        match self.actions.get(usize::from(field)) {
            None | Some((0, 0)) => None,
            Some((start, end)) => Some(*start as usize..*end as usize),
        }
    }
}

/// Conditions, and the rules of the events that meet all of them.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) conditions: Vec<(u16, Condition)>,
    pub(crate) rules: Rules,
}

/// Condition on one raw field. Texts are compared without regard to ASCII case.
#[derive(Debug)]
pub(crate) enum Condition {
    AnyOf(Vec<Box<str>>),
    Exists(bool),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Contains(Box<str>),
}

impl Condition {
    pub(crate) fn holds(&self, text: Option<&str>) -> bool {
        let Some(text) = text else {
            return matches!(self, Self::Exists(false));
        };
        let bytes = text.as_bytes();
        match self {
            Self::AnyOf(values) => values.iter().any(|value| value.eq_ignore_ascii_case(text)),
            Self::Exists(wanted) => *wanted,
            Self::Prefix(prefix) => bytes
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes())),
            Self::Suffix(suffix) => bytes
                .len()
                .checked_sub(suffix.len())
                .is_some_and(|at| bytes[at..].eq_ignore_ascii_case(suffix.as_bytes())),
            Self::Contains(part) => memchr::memmem::find(bytes, part.as_bytes()).is_some(),
        }
    }
}

/// Sections by the value of one raw field, so that few are tested for an event.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    pub(crate) field: Option<u16>,
    /// Values in lower case, and the sections of each.
    pub(crate) values: NameTable,
    pub(crate) by_value: Vec<Vec<u16>>,
    /// Sections that say nothing of the field.
    pub(crate) others: Vec<u16>,
}

#[derive(Debug)]
pub(crate) struct Constant {
    pub(crate) target: u16,
    pub(crate) texts: Vec<u32>,
}

/// `"{user} from {ip}"`: written if all fields are present.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) target: u16,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug)]
pub(crate) enum Piece {
    Literal(Box<str>),
    Field(u16),
}

/// Patterns that take fields out of another field; the first that matches is used.
#[derive(Debug)]
pub(crate) struct Extract {
    pub(crate) from: u16,
    pub(crate) patterns: Vec<super::extract::Pattern>,
}

/// Field whose name stands in another field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabelPair {
    pub(crate) value: u16,
    pub(crate) label: u16,
}

/// One target of one raw field.
#[derive(Debug, Default)]
pub(crate) struct Action {
    pub(crate) target: u16,
    /// List of `related.*` that receives the value, too.
    pub(crate) related: Option<u16>,
    pub(crate) kind: Kind,
    pub(crate) is_list: bool,
    /// Of two values for a target the one with the lower rank is stored.
    pub(crate) rank: u16,
    pub(crate) take: Take,
    pub(crate) trim: Box<[char]>,
    pub(crate) case: Case,
    pub(crate) map: Option<ValueMap>,
    pub(crate) split: Option<Box<str>>,
    pub(crate) scale: Option<f64>,
    pub(crate) dates: Option<Dates>,
    pub(crate) entries: Option<Entries>,
    /// A value of another type is no error.
    pub(crate) is_optional: bool,
    /// The text is stored as it is.
    pub(crate) is_plain: bool,
}

/// Part of a text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum Take {
    #[default]
    All,
    /// After the last slash or backslash.
    Basename,
    /// Before the last slash or backslash.
    Dirname,
    /// After the last dot of the base name.
    Extension,
    /// Before the first separator; nothing if there is none.
    Before(Box<str>),
    /// After the first separator; all if there is none.
    After(Box<str>),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    #[default]
    Same,
    Lower,
    Upper,
}

/// Values by values. A value may become several.
#[derive(Debug)]
pub(crate) struct ValueMap {
    pub(crate) keys: NameTable,
    pub(crate) values: Vec<Vec<u32>>,
    pub(crate) otherwise: Option<Vec<u32>>,
}

/// Formats of a date, tried after ISO 8601.
#[derive(Debug, Default)]
pub(crate) struct Dates {
    /// Nanoseconds of a unit of numbers.
    pub(crate) epoch_unit: Option<i64>,
    pub(crate) formats: Option<DateFormat>,
    /// Format of dates without a year, with `yyyy ` before it.
    pub(crate) without_year: Option<DateFormat>,
}

/// `NAME=VALUE,NAME=VALUE` inside one field.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) separator: Box<str>,
    pub(crate) assign: Box<str>,
    pub(crate) names: NameTable,
    /// By the number of the name.
    pub(crate) actions: Vec<Vec<Action>>,
}

#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) table: Box<str>,
    /// Target whose value is the key.
    pub(crate) key: u16,
    /// Columns, and what is done with their values.
    pub(crate) columns: Vec<(Box<str>, Action)>,
}

/// Input and expected event.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) expect: Option<serde_json::Value>,
    pub(crate) refused: Option<String>,
}
