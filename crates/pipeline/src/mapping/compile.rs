//! Compilation of a pack: names to numbers, targets in the order of printing, rules to lists of actions.

use std::collections::{BTreeMap, HashSet};

use indexmap::IndexMap;

use super::action::{ActionCompiler, kind_of};
use super::ecs;
use super::error::PackError;
use super::extract::Pattern;
use super::formats;
use super::names::{NAMES_MAX, NameTable};
use super::pack::{
    Action, Chooser, Condition, Constant, Example, Extract, LabelPair, Lookup, Pack, Piece, Rules, Section, Stamps,
    Template,
};
use super::pack_file::{ActionFile, ConditionFile, ExtractFile, FieldFile, LookupFile, PackFile, SectionFile};
use super::raw_names::{aliases, label_names, name_tree, raw_names};
use super::sigma::sigma;
use super::targets::Targets;
use crate::tables::GEO_COLUMNS;

/// Version of the Elastic Common Schema whose fields [`ecs`] lists; stamped on events.
const ECS_VERSION: &str = "9.4.0";
/// Rank of the first field of the rules for all events: those of sections come before.
const COMMON_RANK: u16 = 20_000;
/// Rank of what a table says: the event itself knows better.
const LOOKUP_RANK: u16 = u16::MAX;
/// Most sections of a pack.
const SECTIONS_MAX: usize = 2_000;

/// Rules of the file, for all events or of a section.
pub(super) struct RulesFile<'f> {
    pub(super) constants: &'f IndexMap<String, serde_norway::Value>,
    pub(super) fields: &'f IndexMap<String, FieldFile>,
    pub(super) templates: &'f IndexMap<String, String>,
    pub(super) extract: &'f [ExtractFile],
}

impl<'f> From<&'f PackFile> for RulesFile<'f> {
    fn from(file: &'f PackFile) -> Self {
        Self {
            constants: &file.constants,
            fields: &file.fields,
            templates: &file.templates,
            extract: &file.extract,
        }
    }
}

impl<'f> From<&'f SectionFile> for RulesFile<'f> {
    fn from(file: &'f SectionFile) -> Self {
        Self {
            constants: &file.constants,
            fields: &file.fields,
            templates: &file.templates,
            extract: &file.extract,
        }
    }
}

impl Pack {
    /// Parses and compiles a pack.
    ///
    /// # Errors
    /// A [`PackError`] names the place and what is wrong: no YAML, an unknown key or type, a target that is an object in the
    /// path of another, a type that contradicts the Elastic Common Schema, a `vrl` block.
    pub fn parse(yaml: &str) -> Result<Self, PackError> {
        let file: PackFile = serde_norway::from_str(yaml).map_err(|error| PackError {
            pack: String::from("?"),
            place: String::new(),
            reason: error.to_string(),
        })?;
        compile(file)
    }
}

fn compile(file: PackFile) -> Result<Pack, PackError> {
    let fail = |place: String, reason: String| PackError {
        pack: file.name.clone(),
        place,
        reason,
    };
    if file.vrl.is_some() {
        let reason = "this build of firn has no VRL; use fields, value maps, templates and extract".to_owned();
        return Err(fail(String::from("vrl"), reason));
    }
    if file.name.is_empty() || file.prefix.is_empty() || file.sections.len() > SECTIONS_MAX {
        let reason = format!("a name, a prefix and at most {SECTIONS_MAX} sections are needed");
        return Err(fail(String::new(), reason));
    }
    let common = RulesFile::from(&file);
    let sections: Vec<RulesFile<'_>> = file.sections.iter().map(RulesFile::from).collect();
    let labels = label_names(&file.labels);
    let raw = raw_names(&file, &common, &sections, &labels).map_err(|reason| fail(String::from("fields"), reason))?;
    let fields = NameTable::with_numbers(&raw.names, raw.numbers.clone());
    let targets = targets(&file, &common, &sections).map_err(|reason| fail(String::from("targets"), reason))?;

    let mut actions = ActionCompiler::new(&targets, file.related);
    let rules =
        compile_rules(&common, &fields, &mut actions, COMMON_RANK).map_err(|(place, reason)| fail(place, reason))?;
    let mut compiled_sections = Vec::new();
    for (section, rules) in file.sections.iter().zip(&sections) {
        let in_section = |place: String| format!("section [{}]: {place}", section.name);
        compiled_sections.push(Section {
            conditions: conditions(section, &fields)
                .map_err(|reason| fail(in_section(String::from("when")), reason))?,
            rules: compile_rules(rules, &fields, &mut actions, 0)
                .map_err(|(place, reason)| fail(in_section(place), reason))?,
        });
    }
    let mut lookups = Vec::new();
    for lookup in &file.lookups {
        let place = || format!("lookup in table [{}]", lookup.table);
        lookups.push(compile_lookup(lookup, &mut actions).map_err(|reason| fail(place(), reason))?);
    }
    let ActionCompiler {
        texts, actions, lists, ..
    } = actions;
    let mut objects = file.objects.clone();
    objects.push(file.prefix.clone());
    let format = formats::format(&file.parser).map_err(|reason| fail(String::from("parser"), reason))?;
    let mut pack = Pack {
        version: file.version,
        description: file.description.clone(),
        format,
        tree: name_tree(&raw, &objects),
        stamps: stamps(&targets, &file.prefix),
        chooser: chooser(&compiled_sections),
        labels: label_pairs(&labels, &fields),
        lookups,
        absent: file.absent.iter().map(|text| text.as_str().into()).collect(),
        absent_max: file.absent.iter().map(String::len).max().unwrap_or(0),
        sigma: sigma(&file.sigma),
        examples: Vec::new(),
        common: rules,
        sections: compiled_sections,
        texts,
        actions,
        objects: objects.iter().map(|object| format!("{object}.").into()).collect(),
        name: file.name,
        fields,
        targets,
    };
    for list in lists {
        pack.targets.set_list(list);
    }
    pack.stamp();
    pack.examples = file
        .examples
        .into_iter()
        .map(|example| Example {
            name: example.name,
            input: example.input,
            expect: example.expect,
            refused: example.refused,
        })
        .collect();
    Ok(pack)
}

impl Pack {
    /// Adds the constants that firn writes on each event of the pack.
    fn stamp(&mut self) {
        let name = serde_json::Value::from(self.name.as_str()).to_string();
        for (target, text) in [
            (self.stamps.ecs_version, format!("\"{ECS_VERSION}\"")),
            (self.stamps.name, name),
            (self.stamps.version, self.version.to_string()),
        ] {
            let texts = vec![self.texts.len() as u32];
            self.texts.push(text.into());
            self.common.constants.push(Constant { target, texts });
        }
    }
}

fn stamps(targets: &Targets, prefix: &str) -> Stamps {
    let find = |name: &str| targets.find(name).unwrap_or_default();
    Stamps {
        timestamp: find("@timestamp"),
        ecs_version: find("ecs.version"),
        original: find("event.original"),
        errors: find("firn.mapping.errors"),
        invalid_utf8: find("firn.mapping.invalid_utf8"),
        name: find("firn.mapping.name"),
        version: find("firn.mapping.version"),
        tables: find("firn.mapping.tables"),
        prefix: find(prefix),
    }
}

fn label_pairs(labels: &[(String, String)], fields: &NameTable) -> Vec<LabelPair> {
    let pair = |(value, label): &(String, String)| {
        Some(LabelPair {
            value: fields.find(value)?,
            label: fields.find(label)?,
        })
    };
    labels.iter().filter_map(pair).collect()
}

fn targets(file: &PackFile, common: &RulesFile<'_>, sections: &[RulesFile<'_>]) -> Result<Targets, String> {
    let mut names: Vec<String> = [
        "@timestamp",
        "ecs.version",
        "event.original",
        "firn.mapping.errors",
        "firn.mapping.invalid_utf8",
        "firn.mapping.name",
        "firn.mapping.tables",
        "firn.mapping.version",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push(file.prefix.clone());
    for rules in sections.iter().chain([common]) {
        names.extend(rules.constants.keys().cloned());
        names.extend(rules.templates.keys().cloned());
        for field in rules.fields.values() {
            add_targets(field, &mut names);
        }
    }
    for lookup in &file.lookups {
        names.push(lookup.key.clone());
        names.extend(lookup_columns(lookup).map(|(_, target)| target));
    }
    if file.related {
        let related: Vec<_> = names.iter().filter_map(|name| ecs::related(name)).collect();
        names.extend(related.into_iter().map(str::to_owned));
    }
    let targets = Targets::new(names).map_err(|(field, inner)| {
        format!("[{field}] is a field and, in [{inner}], an object; unmapped fields need a prefix of their own")
    })?;
    match targets.len() > NAMES_MAX {
        true => Err(format!("more than {NAMES_MAX} targets")),
        false => Ok(targets),
    }
}

fn add_targets(field: &FieldFile, names: &mut Vec<String>) {
    match field {
        FieldFile::Target(name) => names.push(name.clone()),
        FieldFile::Many(fields) => fields.iter().for_each(|field| add_targets(field, names)),
        FieldFile::Options(options) => {
            let ActionFile { to, entries, .. } = &**options;
            names.extend(to.clone());
            for field in entries.iter().flat_map(|entries| entries.fields.values()) {
                add_targets(field, names);
            }
        }
    }
}

fn lookup_columns(lookup: &LookupFile) -> impl Iterator<Item = (String, String)> {
    let all = lookup.to.iter().flat_map(|object| {
        GEO_COLUMNS
            .iter()
            .filter(move |column| column.belongs_to(object))
            .map(move |column| (column.name.to_owned(), format!("{object}.{}", column.name)))
    });
    let columns = lookup
        .columns
        .iter()
        .map(|(column, target)| (column.clone(), target.clone()));
    all.chain(columns)
}

fn compile_lookup(lookup: &LookupFile, actions: &mut ActionCompiler<'_>) -> Result<Lookup, String> {
    let mut columns = Vec::new();
    for (column, target) in lookup_columns(lookup) {
        for action in actions.actions_of(&FieldFile::Target(target), LOOKUP_RANK)? {
            columns.push((column.as_str().into(), action));
        }
    }
    match columns.is_empty() {
        true => Err(String::from(
            "[columns] is missing, or [to] is no object named geo or as",
        )),
        false => Ok(Lookup {
            table: lookup.table.as_str().into(),
            key: actions.target(&lookup.key)?,
            columns,
        }),
    }
}

fn compile_rules(
    file: &RulesFile<'_>,
    fields: &NameTable,
    actions: &mut ActionCompiler<'_>,
    rank: u16,
) -> Result<Rules, (String, String)> {
    let mut rules = Rules {
        actions: vec![(0, 0); fields.len()],
        ..Rules::default()
    };
    for (place, (names, field)) in file.fields.iter().enumerate() {
        let name = aliases(names).next().unwrap_or_default();
        let at = |reason: String| (format!("field [{name}]"), reason);
        let number = fields.find(name).ok_or_else(|| at(String::from("it has no number")))?;
        let rank = rank + (place as u16).min(COMMON_RANK - 1);
        let range = actions.compile(field, rank).map_err(at)?;
        let slot = &mut rules.actions[usize::from(number)];
        if *slot != (0, 0) {
            return Err((format!("field [{name}]"), String::from("it is named twice")));
        }
        *slot = range;
    }
    for (name, value) in file.constants {
        let at = |reason: String| (format!("constant [{name}]"), reason);
        let target = actions.target(name).map_err(at)?;
        let texts = actions.constants(name, kind_of(name), value).map_err(at)?;
        rules.constants.push(Constant { target, texts });
    }
    for (name, template) in file.templates {
        let at = |reason: String| (format!("template [{name}]"), reason);
        let target = actions.target(name).map_err(at)?;
        let mut pieces = Vec::new();
        for piece in template_pieces(template).map_err(at)? {
            pieces.push(match piece {
                Ok(literal) => Piece::Literal(literal.into()),
                Err(field) => Piece::Field(fields.find(field).unwrap_or_default()),
            });
        }
        rules.templates.push(Template { target, pieces });
    }
    for extract in file.extract {
        let patterns: Result<Vec<_>, _> = extract.dissect.iter().map(|pattern| Pattern::parse(pattern)).collect();
        rules.extracts.push(Extract {
            from: fields.find(&extract.from).unwrap_or_default(),
            patterns: patterns.map_err(|reason| (format!("extract from [{}]", extract.from), reason))?,
        });
    }
    Ok(rules)
}

/// Splits `"{user} from {ip}"` into literals (`Ok`) and names of fields (`Err`).
pub(super) fn template_pieces(template: &str) -> Result<Vec<Result<&str, &str>>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        let Some((field, after)) = after.split_once('}') else {
            return Err(format!("template [{template}]: a closing brace is missing"));
        };
        pieces.extend((!literal.is_empty()).then_some(Ok(literal)));
        pieces.push(Err(field));
        rest = after;
    }
    pieces.extend((!rest.is_empty()).then_some(Ok(rest)));
    Ok(pieces)
}

fn conditions(section: &SectionFile, fields: &NameTable) -> Result<Vec<(u16, Condition)>, String> {
    let mut conditions = Vec::new();
    for (name, condition) in &section.when {
        let field = fields.find(name).ok_or("too many names")?;
        let text = |text: &String| text.as_str().into();
        match condition {
            ConditionFile::One(value) => {
                conditions.push((field, Condition::AnyOf(vec![value.text().into()])));
            }
            ConditionFile::AnyOf(values) => {
                let values = values.iter().map(|value| value.text().into()).collect();
                conditions.push((field, Condition::AnyOf(values)));
            }
            ConditionFile::Test(test) => {
                let tests = [
                    test.exists.map(Condition::Exists),
                    test.prefix.as_ref().map(text).map(Condition::Prefix),
                    test.suffix.as_ref().map(text).map(Condition::Suffix),
                    test.contains.as_ref().map(text).map(Condition::Contains),
                ];
                let before = conditions.len();
                conditions.extend(tests.into_iter().flatten().map(|test| (field, test)));
                if conditions.len() == before {
                    return Err(format!("[{name}] has no condition"));
                }
            }
        }
    }
    match conditions.is_empty() {
        true => Err(String::from("a section needs a condition")),
        false => Ok(conditions),
    }
}

/// Picks the field with the most values in conditions.
fn chooser(sections: &[Section]) -> Chooser {
    let mut values: BTreeMap<u16, HashSet<&str>> = BTreeMap::new();
    for (field, condition) in sections.iter().flat_map(|section| &section.conditions) {
        if let Condition::AnyOf(any) = condition {
            values
                .entry(*field)
                .or_default()
                .extend(any.iter().map(|value| &**value));
        }
    }
    let Some((field, _)) = values.into_iter().max_by_key(|(_, values)| values.len()) else {
        return Chooser {
            others: (0..sections.len() as u16).collect(),
            ..Chooser::default()
        };
    };
    let mut chooser = Chooser {
        field: Some(field),
        ..Chooser::default()
    };
    let mut by_value: IndexMap<String, Vec<u16>> = IndexMap::new();
    for (number, section) in sections.iter().enumerate() {
        let number = number as u16;
        let values = section
            .conditions
            .iter()
            .find_map(|(other, condition)| match condition {
                Condition::AnyOf(values) if *other == field => Some(values),
                _ => None,
            });
        match values {
            None => chooser.others.push(number),
            Some(values) => {
                for value in values {
                    let sections = by_value.entry(value.to_ascii_lowercase()).or_default();
                    if sections.last() != Some(&number) {
                        sections.push(number);
                    }
                }
            }
        }
    }
    chooser.values = NameTable::new(&by_value.keys().collect::<Vec<_>>());
    chooser.by_value = by_value.into_values().collect();
    chooser
}

/// Actions of one pack, collected while its rules are compiled.
impl ActionCompiler<'_> {
    fn compile(&mut self, field: &FieldFile, rank: u16) -> Result<(u32, u32), String> {
        let start = self.actions.len() as u32;
        let actions: Vec<Action> = self.actions_of(field, rank)?;
        self.actions.extend(actions);
        Ok((start, self.actions.len() as u32))
    }
}
