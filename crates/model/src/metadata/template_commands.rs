//! Commands that put and delete templates.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::change::Change;
use super::parse::parse_mapping;
use super::templates::{check_timestamp, refuse_period};
use super::tenant_indices::add_tenant_field;
use super::{ComponentTemplate, IndexTemplate};
use crate::mapping::Mapping;
use crate::names::{matches_pattern, patterns_overlap, problem_as_file_name};
use crate::settings::IndexSettings;
use crate::{Error, ErrorKind, Result};

use serde_json::Value;

/// Maximum patterns of one template, and maximum component templates of one.
const PARTS_MAX: usize = 1000;
/// Maximum templates of one node: every new index checks each of them.
const TEMPLATES_MAX: usize = 10_000;

impl Change<'_> {
    pub(super) fn put_component_template(&mut self, name: &str, body: &Value, create: bool) -> Result<()> {
        check_template_name("component template", name)?;
        if create && self.next.component_templates.contains_key(name) {
            return Err(Error::illegal_argument(format!(
                "component template [{name}] already exists"
            )));
        }
        check_count(self.next.component_templates.len())?;
        let template = Arc::new(ComponentTemplate::parse(body)?);
        if self.next.component_templates.get(name) == Some(&template) {
            return Ok(());
        }
        self.next.component_templates.insert(name.to_owned(), template);
        for (user, template) in &self.next.index_templates {
            if template.composed_of.iter().any(|part| part == name) {
                self.check_composed(user, template).map_err(|error| {
                    Error::illegal_argument(format!(
                        "updating component template [{name}] results in invalid composable template [{user}] after \
                         templates are merged"
                    ))
                    .caused_by(error)
                })?;
            }
        }
        self.changed();
        Ok(())
    }

    pub(super) fn delete_component_templates(&mut self, names: &[String]) -> Result<()> {
        let all: Vec<&String> = self.next.component_templates.keys().collect();
        let chosen = select(names, &all, "component_template")?;
        let mut users = BTreeSet::new();
        let mut used = BTreeSet::new();
        for (user, template) in &self.next.index_templates {
            for part in &template.composed_of {
                if chosen.contains(part) && !template.ignore_missing_component_templates.contains(part) {
                    users.insert(user.as_str());
                    used.insert(part.as_str());
                }
            }
        }
        if !used.is_empty() {
            let join = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::illegal_argument(format!(
                "component templates [{}] cannot be removed as they are still in use by index templates [{}]",
                join(used),
                join(users)
            )));
        }
        for name in chosen {
            self.next.component_templates.remove(&name);
            self.changed();
        }
        Ok(())
    }

    pub(super) fn put_index_template(&mut self, name: &str, body: &Value, create: bool) -> Result<()> {
        check_template_name("index template", name)?;
        if create && self.next.index_templates.contains_key(name) {
            return Err(Error::illegal_argument(format!(
                "index template [{name}] already exists"
            )));
        }
        check_count(self.next.index_templates.len())?;
        let template = IndexTemplate::parse(body)?;
        check_patterns(name, &template)?;
        self.check_components(name, &template)?;
        self.check_overlap(name, &template)?;
        self.check_composed(name, &template).map_err(|error| {
            let reason = format!("composable template [{name}] template after composition is invalid");
            Error::new(
                match error.kind() {
                    ErrorKind::NotImplemented => ErrorKind::NotImplemented,
                    _ => ErrorKind::IllegalArgument,
                },
                reason,
            )
            .caused_by(error)
        })?;
        let template = Arc::new(template);
        if self.next.index_templates.get(name) == Some(&template) {
            return Ok(());
        }
        let streams = self.streams_with_template();
        self.next.index_templates.insert(name.to_owned(), template);
        self.refuse_orphans(&streams, || {
            format!("composable template [{name}] would cause data streams to no longer match a data stream template")
        })?;
        self.changed();
        Ok(())
    }

    pub(super) fn delete_index_templates(&mut self, names: &[String]) -> Result<()> {
        let all: Vec<&String> = self.next.index_templates.keys().collect();
        let chosen = select(names, &all, "index_template")?;
        let streams = self.streams_with_template();
        for name in &chosen {
            self.next.index_templates.remove(name);
            self.changed();
        }
        let shown = chosen.into_iter().collect::<Vec<_>>().join(", ");
        self.refuse_orphans(&streams, || format!("unable to remove composable templates [{shown}]"))
    }

    /// Returns the data streams that have a template for their next backing index.
    fn streams_with_template(&self) -> Vec<String> {
        let streams = self.next.data_streams.keys();
        streams.filter(|name| self.has_stream_template(name)).cloned().collect()
    }

    fn has_stream_template(&self, stream: &str) -> bool {
        let template = self.next.find_index_template(stream);
        template.is_some_and(|(_, template)| template.data_stream.is_some())
    }

    fn refuse_orphans(&self, before: &[String], what: impl Fn() -> String) -> Result<()> {
        let orphans: Vec<&str> = before
            .iter()
            .filter(|name| !self.has_stream_template(name))
            .map(String::as_str)
            .collect();
        if orphans.is_empty() {
            return Ok(());
        }
        Err(Error::illegal_argument(format!(
            "{} as they are in use by a data streams [{}]",
            what(),
            orphans.join(", ")
        )))
    }

    fn check_components(&self, name: &str, template: &IndexTemplate) -> Result<()> {
        let missing: Vec<&str> = template
            .composed_of
            .iter()
            .filter(|part| {
                !self.next.component_templates.contains_key(*part)
                    && !template.ignore_missing_component_templates.contains(part)
            })
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(invalid_template(
            name,
            &format!(
                "index template [{name}] specifies component templates [{}] that do not exist",
                missing.join(", ")
            ),
        ))
    }

    fn check_overlap(&self, name: &str, template: &IndexTemplate) -> Result<()> {
        let clashes: Vec<(&String, &Arc<IndexTemplate>)> = self
            .next
            .index_templates
            .iter()
            .filter(|(other, existing)| {
                *other != name
                    && existing.priority == template.priority
                    && existing.index_patterns.iter().any(|theirs| {
                        template
                            .index_patterns
                            .iter()
                            .any(|ours| patterns_overlap(theirs, ours))
                    })
            })
            .collect();
        if clashes.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = clashes.iter().map(|(name, _)| name.as_str()).collect();
        let patterns: Vec<String> = clashes
            .iter()
            .map(|(name, template)| format!("{name} => [{}]", template.index_patterns.join(", ")))
            .collect();
        Err(Error::illegal_argument(format!(
            "index template [{name}] has index patterns [{}] matching patterns from existing templates [{}] with patterns \
             ({}) that have the same priority [{}], multiple index templates may not match during index creation, please \
             use a different priority",
            template.index_patterns.join(", "),
            names.join(", "),
            patterns.join(","),
            template.priority
        )))
    }

    /// Checks that an index could be created from the template.
    fn check_composed(&self, name: &str, template: &IndexTemplate) -> Result<()> {
        let content = self.next.compose(template)?;
        let settings = IndexSettings::from_flat(content.settings)?;
        if template.data_stream.is_none() {
            refuse_period(&settings)?;
        }
        let mut mapping = match &content.mappings {
            Some(mappings) => parse_mapping(mappings)?,
            None => Mapping::default(),
        };
        if let Some(field) = &settings.tenant_field {
            add_tenant_field(&mut mapping, field)?;
        }
        mapping.validate()?;
        mapping.check_limits(settings.total_fields_limit, settings.depth_limit)?;
        if template.data_stream.is_some() {
            check_timestamp(&mapping)?;
            if !content.aliases.is_empty() {
                return Err(Error::not_implemented(format!(
                    "[aliases] of data stream template [{name}]"
                )));
            }
        }
        Ok(())
    }
}

fn check_patterns(name: &str, template: &IndexTemplate) -> Result<()> {
    if template.index_patterns.is_empty() {
        return Err(invalid_template(name, "index patterns are missing"));
    }
    if template.index_patterns.len() > PARTS_MAX || template.composed_of.len() > PARTS_MAX {
        return Err(invalid_template(
            name,
            &format!("more than {PARTS_MAX} patterns or component templates"),
        ));
    }
    for pattern in &template.index_patterns {
        let why = if pattern.is_empty() || pattern.len() > 255 {
            "must be 1 to 255 bytes long"
        } else if pattern.contains(' ') {
            "must not contain a space"
        } else if pattern.contains(',') {
            "must not contain a ','"
        } else if pattern.contains('#') {
            "must not contain a '#'"
        } else if pattern.contains(':') {
            "must not contain a ':'"
        } else if pattern.starts_with('_') {
            "must not start with '_'"
        } else if pattern.contains(['"', '\\', '<', '|', '>', '/', '?']) {
            "must not contain the following characters [\", \\, <, |, >, /, ?]"
        } else {
            continue;
        };
        return Err(invalid_template(name, &format!("index_pattern [{pattern}] {why}")));
    }
    Ok(())
}

fn check_template_name(what: &str, name: &str) -> Result<()> {
    let why = if name.is_empty() || name.len() > 255 {
        "must be 1 to 255 bytes long"
    } else if name.contains([' ', ',', '#', '*']) {
        "must not contain a space, ',', '#' or '*'"
    } else if name.starts_with('_') {
        "must not start with '_'"
    } else if name.chars().any(char::is_uppercase) {
        "must be lower cased"
    } else if name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        "must not contain '/', '\\' or control characters"
    } else if let Some(why) = problem_as_file_name(name) {
        why
    } else {
        return Ok(());
    };
    Err(Error::illegal_argument(format!(
        "{what} [{name}] invalid, cause [name {why}]"
    )))
}

fn check_count(count: usize) -> Result<()> {
    if count < TEMPLATES_MAX {
        return Ok(());
    }
    Err(Error::illegal_argument(format!("more than {TEMPLATES_MAX} templates")))
}

fn invalid_template(name: &str, why: &str) -> Error {
    Error::illegal_argument(format!(
        "index_template [{name}] invalid, cause [Validation Failed: 1: {why};]"
    ))
}

/// Returns the names that match a list of names and wildcards. A missing name is an error, and so is a wildcard other
/// than `*` without a match.
fn select(patterns: &[String], all: &[&String], what: &str) -> Result<BTreeSet<String>> {
    let mut chosen = BTreeSet::new();
    for pattern in patterns {
        let before = chosen.len();
        let matching = all.iter().filter(|name| matches_pattern(pattern, name));
        let mut any = false;
        for name in matching {
            any = true;
            chosen.insert((*name).clone());
        }
        if !any && before == chosen.len() && pattern != "*" {
            return Err(Error::new(
                ErrorKind::ResourceNotFound,
                format!("{what} [{pattern}] missing"),
            ));
        }
    }
    Ok(chosen)
}
