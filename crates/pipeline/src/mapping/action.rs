//! Compilation of the targets of one raw field.

use firn_model::dates::DateFormat;

use super::ecs::{self, Kind};
use super::names::NameTable;
use super::pack::{Action, Case, Dates, Entries, Take, ValueMap};
use super::pack_file::{ActionFile, EntriesFile, FieldFile};
use super::targets::Targets;

/// Compiles actions, and collects the JSON texts of constants.
pub(crate) struct ActionCompiler<'t> {
    targets: &'t Targets,
    related: bool,
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) actions: Vec<Action>,
    /// Targets that are printed as arrays.
    pub(crate) lists: Vec<u16>,
}

/// Returns the type of a target: that of the Elastic Common Schema, or keyword.
pub(crate) fn kind_of(target: &str) -> Kind {
    ecs::field(target).map_or(Kind::Keyword, |field| field.kind)
}

impl<'t> ActionCompiler<'t> {
    pub(crate) fn new(targets: &'t Targets, related: bool) -> Self {
        let is_list = |name: &str| ecs::field(name).is_some_and(|field| field.is_list) || name.starts_with("related.");
        let lists = targets
            .names()
            .enumerate()
            .filter(|(_, name)| is_list(name))
            .map(|(number, _)| number as u16);
        let stamped = ["firn.mapping.errors", "firn.mapping.tables"];
        Self {
            lists: lists
                .chain(stamped.iter().filter_map(|name| targets.find(name)))
                .collect(),
            targets,
            related,
            texts: Vec::new(),
            // Ranges begin at 1, so that an empty one differs from none.
            actions: vec![Action::default()],
        }
    }

    pub(crate) fn target(&self, name: &str) -> Result<u16, String> {
        self.targets.find(name).ok_or_else(|| format!("[{name}] is no target"))
    }

    pub(crate) fn actions_of(&mut self, field: &FieldFile, rank: u16) -> Result<Vec<Action>, String> {
        match field {
            FieldFile::Target(name) => {
                let file = ActionFile {
                    to: Some(name.clone()),
                    ..ActionFile::default()
                };
                Ok(vec![self.action(&file, rank)?])
            }
            FieldFile::Options(file) => Ok(vec![self.action(file, rank)?]),
            FieldFile::Many(fields) => {
                let mut actions = Vec::new();
                for field in fields {
                    actions.extend(self.actions_of(field, rank)?);
                }
                Ok(actions)
            }
        }
    }

    fn action(&mut self, file: &ActionFile, rank: u16) -> Result<Action, String> {
        if let Some(entries) = &file.entries {
            return Ok(Action {
                entries: Some(self.entries(entries, rank)?),
                rank,
                ..Action::default()
            });
        }
        let Some(to) = &file.to else {
            return Err(String::from("[to] is missing"));
        };
        let kind = match &file.kind {
            None => kind_of(to),
            Some(name) => {
                let kind = Kind::parse(name).ok_or_else(|| format!("[{name}] is no type"))?;
                if ecs::field(to).is_some_and(|field| field.kind != kind) {
                    return Err(format!(
                        "[{to}] has another type than [{name}] in the Elastic Common Schema"
                    ));
                }
                kind
            }
        };
        let target = self.target(to)?;
        if file.list && !self.lists.contains(&target) {
            self.lists.push(target);
        }
        let related = ecs::related(to)
            .filter(|_| self.related)
            .and_then(|name| self.targets.find(name));
        let mut action = Action {
            target,
            related,
            kind,
            is_list: self.lists.contains(&target),
            rank,
            take: take(file)?,
            trim: file.trim.iter().flat_map(|chars| chars.chars()).collect(),
            case: match file.case.as_deref() {
                None => Case::Same,
                Some("lower") => Case::Lower,
                Some("upper") => Case::Upper,
                Some(case) => return Err(format!("[{case}] is no case: lower or upper")),
            },
            map: self.map(file, to, kind)?,
            split: file.split.as_deref().map(Into::into),
            scale: file.scale,
            dates: match kind {
                Kind::Date => Some(dates(&file.format)?),
                _ if file.format.is_empty() => None,
                _ => return Err(String::from("[format] is for dates")),
            },
            entries: None,
            is_optional: file.optional,
            is_plain: false,
        };
        if file.split.as_deref() == Some("") || file.scale.is_some_and(|scale| !scale.is_finite() || scale == 0.0) {
            return Err(String::from("[split] and [scale] must not be empty or zero"));
        }
        action.is_plain = kind == Kind::Keyword
            && action.take == Take::All
            && action.trim.is_empty()
            && action.case == Case::Same
            && action.map.is_none()
            && action.split.is_none();
        Ok(action)
    }

    fn entries(&mut self, file: &EntriesFile, rank: u16) -> Result<Entries, String> {
        if file.separator.is_empty() || file.assign.is_empty() {
            return Err(String::from("[separator] and [assign] must not be empty"));
        }
        let names: Vec<&String> = file.fields.keys().collect();
        let mut actions = Vec::new();
        for field in file.fields.values() {
            actions.push(self.actions_of(field, rank)?);
        }
        Ok(Entries {
            separator: file.separator.as_str().into(),
            assign: file.assign.as_str().into(),
            names: NameTable::new(&names),
            actions,
        })
    }

    fn map(&mut self, file: &ActionFile, to: &str, kind: Kind) -> Result<Option<ValueMap>, String> {
        let otherwise = match &file.otherwise {
            Some(value) => Some(self.constants(to, kind, value)?),
            None => None,
        };
        if file.map.is_empty() && otherwise.is_none() {
            return Ok(None);
        }
        let mut values = Vec::new();
        for value in file.map.values() {
            values.push(self.constants(to, kind, value)?);
        }
        Ok(Some(ValueMap {
            keys: NameTable::new(&file.map.keys().collect::<Vec<_>>()),
            values,
            otherwise,
        }))
    }

    /// Adds the JSON of a constant, or of each value of a list.
    pub(crate) fn constants(&mut self, to: &str, kind: Kind, value: &serde_norway::Value) -> Result<Vec<u32>, String> {
        let values = match value {
            serde_norway::Value::Sequence(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        let mut numbers = Vec::new();
        for value in values {
            let text = constant(kind, value).ok_or_else(|| format!("[{value:?}] is no value for [{to}]"))?;
            numbers.push(self.texts.len() as u32);
            self.texts.push(text.into());
        }
        match numbers.is_empty() {
            true => Err(format!("[{to}] has no value")),
            false => Ok(numbers),
        }
    }
}

/// Returns the JSON of a scalar if it has the type.
fn constant(kind: Kind, value: &serde_norway::Value) -> Option<String> {
    use serde_norway::Value;
    let json = match (kind, value) {
        (Kind::Keyword | Kind::Date | Kind::Ip, Value::String(text)) => serde_json::Value::from(text.as_str()),
        (Kind::Keyword, Value::Number(number)) => number.to_string().into(),
        (Kind::Keyword, Value::Bool(value)) => value.to_string().into(),
        (Kind::Long, Value::Number(number)) => number.as_i64()?.into(),
        (Kind::Double, Value::Number(number)) => number.as_f64()?.into(),
        (Kind::Boolean, Value::Bool(value)) => (*value).into(),
        _ => return None,
    };
    Some(json.to_string())
}

fn take(file: &ActionFile) -> Result<Take, String> {
    let separator = || match file.separator.as_deref() {
        None | Some("") => Err(String::from("[separator] is missing")),
        Some(separator) => Ok(separator.into()),
    };
    Ok(match file.take.as_deref() {
        None => Take::All,
        Some("basename") => Take::Basename,
        Some("dirname") => Take::Dirname,
        Some("extension") => Take::Extension,
        Some("before") => Take::Before(separator()?),
        Some("after") => Take::After(separator()?),
        Some(part) => {
            return Err(format!(
                "[{part}] is no part: basename, dirname, extension, before or after"
            ));
        }
    })
}

fn dates(formats: &[String]) -> Result<Dates, String> {
    let mut dates = Dates::default();
    let mut patterns = Vec::new();
    for format in formats {
        let unit = match format.as_str() {
            "epoch_second" => 1_000_000_000,
            "epoch_millis" => 1_000_000,
            "epoch_micros" => 1_000,
            "epoch_nanos" => 1,
            pattern if pattern.contains("MMM") && !pattern.contains(['y', 'u']) => {
                let pattern = format!("yyyy {pattern}");
                dates.without_year = Some(DateFormat::new(&pattern).map_err(|error| error.to_string())?);
                continue;
            }
            pattern => {
                patterns.push(pattern);
                continue;
            }
        };
        if dates.epoch_unit.replace(unit).is_some() {
            return Err(String::from("[format] names two units"));
        }
    }
    // Zones and dates without a time are read in addition to what the hand-written reader knows.
    patterns.push("strict_date_optional_time");
    dates.formats = Some(DateFormat::new(&patterns.join("||")).map_err(|error| error.to_string())?);
    Ok(dates)
}
