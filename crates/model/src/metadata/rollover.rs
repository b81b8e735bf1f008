//! Rollover: a new write index behind an alias or a data stream.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::change::Change;
use super::create::NewIndex;
use super::parse::{object, parse_mapping};
use super::{AliasMetadata, RolloverFacts, RolloverOutcome, TemplateContent};
use crate::dates::parse_duration_setting_ms;
use crate::settings::{flatten, parse_bytes_setting};
use crate::{Error, Result};

impl Change<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn rollover(
        &mut self,
        target: &str,
        new_index: Option<&str>,
        conditions: &IndexMap<String, Value>,
        body: &Value,
        dry_run: bool,
        facts: &RolloverFacts,
    ) -> Result<()> {
        let body = Body::parse(body)?;
        if self.next.data_streams.contains_key(target) {
            return self.rollover_stream(target, new_index, conditions, &body, dry_run, facts);
        }
        let (old_index, explicit) = self.alias_write_index(target)?;
        let (new_name, provided_name) = match new_index {
            Some(name) => (name.to_owned(), name.to_owned()),
            None => {
                let old = self.index(&old_index)?;
                let old_name = old.settings.typed.get("index.provided_name").and_then(Value::as_str);
                let next = next_name(old_name.unwrap_or(&old_index))?;
                (next.clone(), next)
            }
        };
        let new_name = self.date_math(&new_name)?;
        crate::names::validate_index_name(&new_name)?;
        if self.next.indices.contains_key(&new_name) {
            let uuid = &self.next.indices[&new_name].uuid;
            return Err(Error::new(
                crate::ErrorKind::ResourceAlreadyExists,
                format!("index [{new_name}/{uuid}] already exists"),
            )
            .with_index(new_name));
        }
        let met = self.conditions_met(&old_index, conditions, facts)?;
        let is_due = roll(conditions, &met);
        let rolled_over = is_due && !dry_run;
        self.outcome.rollover = Some(RolloverOutcome {
            old_index: old_index.clone(),
            new_index: new_name.clone(),
            rolled_over,
            conditions: met,
            is_due,
        });
        if !rolled_over {
            return Ok(());
        }

        let content = match self.next.find_template(&new_name, false) {
            Some((template_name, template)) => {
                let content = self.next.compose(template)?;
                if content.aliases.contains_key(target) {
                    return Err(Error::illegal_argument(format!(
                        "Rollover alias [{target}] can point to multiple indices, found duplicated alias [[{target}]] in \
                         index template [{template_name}]"
                    )));
                }
                content
            }
            None => TemplateContent::default(),
        };
        let mut aliases = body.aliases;
        let old_alias = self.index(&old_index)?.aliases.get(target).cloned().unwrap_or_default();
        let moved = AliasMetadata {
            is_write_index: explicit.then_some(true),
            ..old_alias
        };
        aliases.insert(target.to_owned(), moved);
        // The old index stops being the write index first, so that there are never two write indices.
        let now_ms = self.now_ms;
        self.change_index(&old_index, |old| {
            old.rolled_over_ms = Some(now_ms);
            if explicit {
                if let Some(alias) = old.aliases.get_mut(target) {
                    alias.is_write_index = Some(false);
                }
            } else {
                old.aliases.remove(target);
            }
        })?;
        self.create_index(
            NewIndex {
                provided_name: (provided_name != new_name).then_some(provided_name),
                name: new_name,
                settings: flatten(&body.settings, true)?,
                mapping: body.mappings.as_ref().map(parse_mapping).transpose()?,
                aliases,
                ..NewIndex::default()
            },
            content,
        )
    }

    fn rollover_stream(
        &mut self,
        target: &str,
        new_index: Option<&str>,
        conditions: &IndexMap<String, Value>,
        body: &Body,
        dry_run: bool,
        facts: &RolloverFacts,
    ) -> Result<()> {
        if new_index.is_some() {
            return Err(Error::illegal_argument(
                "new index name may not be specified when rolling over a data stream",
            ));
        }
        if !body.is_empty() {
            return Err(Error::illegal_argument(
                "aliases, mappings, and index settings may not be specified when rolling over a data stream",
            ));
        }
        let stream = self.stream(target)?;
        let old_index = self
            .next
            .write_index(&stream, self.now_ms)
            .unwrap_or_default()
            .to_owned();
        let template = self.stream_template(target)?;
        let range_ms = self.current_period(&template)?;
        let met = self.conditions_met(&old_index, conditions, facts)?;
        let is_due = roll(conditions, &met);
        let rolled_over = is_due && !dry_run;
        let new_index = self.next_backing_index(&stream, range_ms.as_ref());
        self.outcome.rollover = Some(RolloverOutcome {
            old_index: old_index.clone(),
            new_index,
            rolled_over,
            conditions: met,
            is_due,
        });
        if rolled_over {
            let now_ms = self.now_ms;
            self.change_index(&old_index, |old| old.rolled_over_ms = Some(now_ms))?;
            self.add_backing_index(target, &template)?;
        }
        Ok(())
    }

    /// Returns the write index of an alias, and whether `is_write_index: true` makes it one.
    fn alias_write_index(&self, target: &str) -> Result<(String, bool)> {
        let members: Vec<(&String, &AliasMetadata)> = self
            .next
            .indices
            .iter()
            .filter_map(|(name, index)| Some((name, index.aliases.get(target)?)))
            .collect();
        if members.is_empty() {
            return Err(Error::illegal_argument(if self.next.indices.contains_key(target) {
                "rollover target is a [concrete index] but one of [alias,data_stream] was expected".to_owned()
            } else {
                format!("rollover target [{target}] does not exist")
            }));
        }
        let explicit = members.iter().find(|(_, alias)| alias.is_write_index == Some(true));
        match (explicit, members.as_slice()) {
            (Some((name, _)), _) => Ok(((*name).clone(), true)),
            (None, [(name, alias)]) if alias.is_write_index.is_none() => Ok(((*name).clone(), false)),
            _ => Err(Error::illegal_argument(format!(
                "rollover target [{target}] does not point to a write index"
            ))),
        }
    }

    /// Returns each condition as it is printed, and whether it is met.
    fn conditions_met(
        &self,
        index: &str,
        conditions: &IndexMap<String, Value>,
        facts: &RolloverFacts,
    ) -> Result<IndexMap<String, bool>> {
        let age_ms = self.now_ms.saturating_sub(self.index(index)?.created_ms).max(0) as u64;
        let mut met = IndexMap::with_capacity(conditions.len());
        for (name, value) in conditions {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let fact = match name.trim_start_matches("max_").trim_start_matches("min_") {
                _ if !name.starts_with("max_") && !name.starts_with("min_") => None,
                "age" => Some(age_ms >= parse_duration_setting_ms(name, &text)?),
                "docs" => Some(facts.doc_count >= count(name, &text)?),
                "size" => Some(facts.size_bytes >= parse_bytes_setting(name, &text)?),
                "primary_shard_size" => Some(facts.shard_size_bytes_max >= parse_bytes_setting(name, &text)?),
                "primary_shard_docs" => Some(facts.shard_doc_count_max >= count(name, &text)?),
                _ => None,
            };
            let Some(fact) = fact else {
                return Err(Error::parsing(format!("[conditions] unknown field [{name}]")));
            };
            met.insert(format!("[{name}: {text}]"), fact);
        }
        Ok(met)
    }
}

/// Whether to roll over: all of `min_*` and any of `max_*`; without conditions always.
fn roll(conditions: &IndexMap<String, Value>, met: &IndexMap<String, bool>) -> bool {
    let is_met = |prefix: &'static str| {
        conditions
            .keys()
            .zip(met.values())
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(_, met)| *met)
    };
    conditions.is_empty() || (is_met("min_").all(|met| met) && is_met("max_").any(|met| met))
}

fn count(name: &str, text: &str) -> Result<u64> {
    text.parse()
        .map_err(|_| Error::illegal_argument(format!("failed to parse [{text}] of rollover condition [{name}]")))
}

/// Returns the next name: `logs-000001` becomes `logs-000002`; in date math the number before `>` counts.
fn next_name(name: &str) -> Result<String> {
    let (stem, end) = match name.strip_suffix('>') {
        Some(stem) if name.starts_with('<') => (stem, ">"),
        _ => (name, ""),
    };
    let number = stem
        .rsplit_once('-')
        .filter(|(_, digits)| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|(prefix, digits)| Some((prefix, digits.parse::<u32>().ok()?.checked_add(1)?)));
    match number {
        Some((prefix, number)) => Ok(format!("{prefix}-{number:06}{end}")),
        None => Err(Error::illegal_argument(format!(
            "index name [{name}] does not match pattern '^.*-\\d+$'"
        ))),
    }
}

/// Request body: the new index's settings, mappings and aliases.
#[derive(Default)]
struct Body {
    settings: Value,
    mappings: Option<Value>,
    aliases: BTreeMap<String, AliasMetadata>,
}

impl Body {
    fn parse(value: &Value) -> Result<Self> {
        let mut body = Self::default();
        if value.is_null() {
            return Ok(body);
        }
        for (key, value) in object("rollover", value)? {
            match key.as_str() {
                "settings" => body.settings = value.clone(),
                "mappings" => body.mappings = Some(value.clone()),
                "aliases" => body.aliases = AliasMetadata::parse_all(Some(value))?,
                // The command carries the conditions in a separate field.
                "conditions" => {}
                other => {
                    return Err(Error::parsing(format!(
                        "unknown key [{other}] in the body of a rollover"
                    )));
                }
            }
        }
        Ok(body)
    }

    fn is_empty(&self) -> bool {
        self.mappings.is_none()
            && self.aliases.is_empty()
            && self.settings.as_object().is_none_or(serde_json::Map::is_empty)
    }
}
