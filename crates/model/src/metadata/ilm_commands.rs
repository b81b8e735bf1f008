//! Commands of index lifecycle policies, and the lifecycle progress of indices.

use std::sync::Arc;

use serde_json::Value;

use super::change::Change;
use super::{AliasMetadata, IndexMetadata};
use crate::dates::DateFormat;
use crate::ilm::{
    ERROR, Execution, INDEXING_COMPLETE, NAME, NEW, ORIGINATION_DATE, OperationMode, PARSE_ORIGINATION_DATE, PhaseName,
    Policies, Policy, ROLLOVER_ALIAS, StepKey, StoredPolicy, first_of, steps_of, validate_policy_name,
};
use crate::settings::{IndexSettings, SettingsMap};
use crate::{Error, ErrorKind, Result};

/// Change of lifecycle policies or of lifecycle progress. Names of indices are concrete names, already resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum IlmCommand {
    /// `PUT /_ilm/policy/NAME`. An identical policy changes nothing.
    PutPolicy {
        /// The name.
        name: String,
        /// The `policy` object of the body.
        policy: Value,
    },
    /// `DELETE /_ilm/policy/NAME`; a policy in use is refused.
    DeletePolicy {
        /// The name.
        name: String,
    },
    /// `_ilm/start` and `_ilm/stop`.
    SetMode {
        /// The mode.
        mode: OperationMode,
    },
    /// Moves an index to its next step. Refused with [`ErrorKind::Conflict`] if the index is not at `from`: another
    /// command moved it in the meantime.
    Advance {
        /// The index.
        index: String,
        /// Its uuid: a later index of the same name has another uuid.
        uuid: String,
        /// Current step.
        from: Option<StepKey>,
        /// Next state of the execution.
        to: Box<Execution>,
    },
    /// `POST /_ilm/move/INDEX`.
    Move {
        /// The index.
        index: String,
        /// Required current step.
        current: StepKey,
        /// Name of a phase.
        phase: String,
        /// Action of the phase; `None`: the first.
        action: Option<String>,
        /// Step of the action; `None`: the first.
        step: Option<String>,
    },
    /// `POST /INDEX/_ilm/retry`: back to the failed steps.
    Retry {
        /// The indices.
        names: Vec<String>,
    },
    /// `POST /INDEX/_ilm/remove`: removes the lifecycle.
    Remove {
        /// The indices.
        names: Vec<String>,
    },
    /// Replaces an index with the index that was mounted from it. The new index takes over the aliases or the position
    /// in the data stream, and the lifecycle; the old index is deleted. This is one command, so that no search finds
    /// the events twice or not at all.
    Replace {
        /// The index to delete.
        old: String,
        /// Its replacement, which exists.
        new: String,
        /// Lifecycle state of the replacement.
        to: Box<Execution>,
    },
    /// End of a lifecycle: deletes an index and records its snapshot as an orphan in the same transaction, so that no
    /// crash leaves an unrecorded snapshot. A data stream is deleted with its last index.
    Delete {
        /// The index.
        index: String,
        /// Repository and name of the snapshot to remove.
        snapshot: Option<(String, String)>,
    },
    /// An orphan was removed.
    ForgetOrphan {
        /// Repository and name.
        snapshot: (String, String),
    },
}

/// Prefix of lifecycle settings.
const LIFECYCLE: &str = "index.lifecycle.";
/// Settings that choose the lifecycle of an index.
const OWN_SETTINGS: [&str; 3] = [NAME, ROLLOVER_ALIAS, INDEXING_COMPLETE];

impl IndexMetadata {
    /// Returns the name of its lifecycle policy. The policy need not exist.
    pub fn lifecycle_policy(&self) -> Option<&str> {
        self.text_setting(NAME)
    }

    /// Returns whether the lifecycle setting says that the index accepts no more writes.
    pub fn is_indexing_complete(&self) -> bool {
        self.flag_setting(INDEXING_COMPLETE)
    }

    /// Returns the start of its age before a rollover, ms since epoch UTC: its creation, or the time in its settings.
    /// `None` if the settings say that its name contains a date, and it does not.
    pub fn origination_ms(&self) -> Option<i64> {
        match self.given_origination_ms() {
            None if self.flag_setting(PARSE_ORIGINATION_DATE) => None,
            given => Some(given.unwrap_or(self.created_ms)),
        }
    }

    /// Returns the current start of its age, ms since epoch UTC. A time in the settings applies after a rollover too.
    pub fn lifecycle_ms(&self) -> i64 {
        let counted = self.execution.as_ref().map(|execution| execution.lifecycle_ms);
        self.given_origination_ms().or(counted).unwrap_or(self.created_ms)
    }

    fn given_origination_ms(&self) -> Option<i64> {
        set_origination_ms(&self.settings).or_else(|| {
            self.flag_setting(PARSE_ORIGINATION_DATE)
                .then(|| date_in_name(&self.name))?
        })
    }

    fn flag_setting(&self, name: &str) -> bool {
        is_set(&self.settings, name)
    }

    /// Returns a setting that is a non-empty text.
    pub fn text_setting(&self, name: &str) -> Option<&str> {
        let text = self.settings.typed.get(name)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }
}

impl Change<'_> {
    pub(super) fn ilm(&mut self, command: &IlmCommand) -> Result<()> {
        match command {
            IlmCommand::PutPolicy { name, policy } => self.put_policy(name, policy),
            IlmCommand::DeletePolicy { name } => self.delete_policy(name),
            IlmCommand::SetMode { mode } => {
                if self.next.ilm.mode != *mode {
                    self.policies().mode = *mode;
                    self.changed();
                }
                Ok(())
            }
            IlmCommand::Advance { index, uuid, from, to } => self.advance(index, uuid, from.as_ref(), to),
            IlmCommand::Move {
                index,
                current,
                phase,
                action,
                step,
            } => self.move_to_step(index, current, phase, action.as_deref(), step.as_deref()),
            IlmCommand::Retry { names } => self.retry(names),
            IlmCommand::Remove { names } => self.remove_policy(names),
            IlmCommand::Replace { old, new, to } => self.replace_index(old, new, to),
            IlmCommand::Delete { index, snapshot } => self.delete_at_end(index, snapshot.as_ref()),
            IlmCommand::ForgetOrphan { snapshot } => {
                if self.next.ilm.orphans.contains(snapshot) {
                    self.policies().orphans.remove(snapshot);
                    self.changed();
                }
                Ok(())
            }
        }
    }

    fn delete_at_end(&mut self, name: &str, snapshot: Option<&(String, String)>) -> Result<()> {
        let index = self.index(name)?;
        let stream = index.data_stream.clone();
        match stream.filter(|stream| self.is_stream_write_index(stream, name)) {
            Some(stream) if self.stream(&stream)?.indices.len() == 1 => self.delete_data_streams(&[stream])?,
            _ => self.delete_indices(&[name.to_owned()])?,
        }
        if let Some(snapshot) = snapshot {
            self.policies().orphans.insert(snapshot.clone());
            self.changed();
        }
        Ok(())
    }

    fn policies(&mut self) -> &mut Policies {
        Arc::make_mut(&mut self.next.ilm)
    }

    fn put_policy(&mut self, name: &str, policy: &Value) -> Result<()> {
        validate_policy_name(name)?;
        let policy = Policy::parse(policy)?;
        let before = self.next.ilm.by_name.get(name);
        if before.is_some_and(|before| before.policy == policy) {
            return Ok(());
        }
        let stored = StoredPolicy {
            policy,
            version: before.map_or(1, |before| before.version + 1),
            modified_ms: self.now_ms,
        };
        let stored = Arc::new(stored);
        self.policies().by_name.insert(name.to_owned(), Arc::clone(&stored));
        self.use_in_running_phases(name, &stored);
        self.changed();
        Ok(())
    }

    /// Gives the new policy to indices within a phase, if the phase has the same steps in it: only then their current
    /// step exists in the new phase.
    fn use_in_running_phases(&mut self, name: &str, stored: &StoredPolicy) {
        for index in self.next.indices.clone().values() {
            let Some(execution) = &index.execution else { continue };
            let Some(running) = execution.phase.as_ref().filter(|running| running.policy == name) else {
                continue;
            };
            let Some(phase) = stored.policy.phases.get(&running.name) else {
                continue;
            };
            if steps_of(running.name, phase) != steps_of(running.name, &running.phase) {
                continue;
            }
            let definition = stored.definition(name, running.name);
            let execution = Execution {
                phase: definition,
                ..Execution::clone(execution)
            };
            self.next
                .indices
                .change(&index.name, |index| index.execution = Some(Arc::new(execution)));
        }
    }

    fn delete_policy(&mut self, name: &str) -> Result<()> {
        if !self.next.ilm.by_name.contains_key(name) {
            return Err(policy_not_found(name));
        }
        let users: Vec<&str> = self
            .next
            .indices
            .values()
            .filter(|index| index.lifecycle_policy() == Some(name))
            .map(|index| index.name.as_str())
            .collect();
        if !users.is_empty() {
            return Err(Error::illegal_argument(format!(
                "Cannot delete policy [{name}]. It is in use by one or more indices: [{}]",
                users.join(", ")
            )));
        }
        self.policies().by_name.remove(name);
        self.changed();
        Ok(())
    }

    fn advance(&mut self, name: &str, uuid: &str, from: Option<&StepKey>, to: &Execution) -> Result<()> {
        let index = self.index(name)?;
        let at = index.execution.as_ref().map(|execution| &execution.key);
        if index.uuid != uuid || at != from {
            let reason = format!("index [{name}] has moved to another lifecycle step in the meantime");
            return Err(Error::new(ErrorKind::Conflict, reason).with_index(name));
        }
        self.set_execution(name, Some(to.clone()))
    }

    fn set_execution(&mut self, name: &str, execution: Option<Execution>) -> Result<()> {
        if self.index(name)?.execution.as_deref() != execution.as_ref() {
            self.change_index(name, |index| index.execution = execution.map(Arc::new))?;
        }
        Ok(())
    }

    fn move_to_step(
        &mut self,
        name: &str,
        current: &StepKey,
        phase: &str,
        action: Option<&str>,
        step: Option<&str>,
    ) -> Result<()> {
        let index = self.index(name)?;
        let Some(policy_name) = index.lifecycle_policy().map(str::to_owned) else {
            return Err(Error::illegal_argument(format!(
                "index [{name}] is not associated with an Index Lifecycle Policy"
            )));
        };
        let execution = index.execution.clone();
        let at = execution.as_ref().map(|execution| &execution.key);
        let Some(execution) = execution.as_ref().filter(|_| at == Some(current)) else {
            let at = at.map_or_else(|| "null".to_owned(), StepKey::to_string);
            return Err(Error::illegal_argument(format!(
                "index [{name}] is not on current step [{current}], currently: [{at}]"
            )));
        };
        let missing = || {
            let wanted = [Some(phase), action, step].map(|part| part.unwrap_or("*"));
            let wanted = StepKey::new(wanted[0], wanted[1], wanted[2]);
            Error::illegal_argument(format!(
                "step [{wanted}] for index [{name}] with policy [{policy_name}] does not exist"
            ))
        };
        let stored = self.next.ilm.by_name.get(&policy_name).ok_or_else(missing)?;
        let (key, definition) = match PhaseName::find(phase) {
            Some(phase_name) => {
                let phase = stored.policy.phases.get(&phase_name).ok_or_else(missing)?;
                let key = first_of(phase_name, phase, action, step).ok_or_else(missing)?;
                (key, stored.definition(&policy_name, phase_name))
            }
            None if phase == NEW
                && [action, step]
                    .iter()
                    .flatten()
                    .all(|part| *part == crate::ilm::COMPLETE) =>
            {
                (StepKey::complete(NEW), None)
            }
            None => return Err(missing()),
        };
        let to = Execution {
            phase: definition,
            ..Execution::clone(execution).at(key, self.now_ms)
        };
        self.set_execution(name, Some(to))
    }

    fn retry(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            let execution = self.index(name)?.execution.as_ref();
            let Some(execution) = execution.filter(|execution| execution.key.step == ERROR) else {
                return Err(Error::illegal_argument(format!(
                    "cannot retry an action for an index [{name}] that has not encountered an error when running a \
                     Lifecycle Policy"
                )));
            };
            let again = Execution::clone(execution).tried_again(self.now_ms);
            self.set_execution(name, Some(Execution { retries: 0, ..again }))?;
        }
        Ok(())
    }

    fn remove_policy(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            self.set_execution(name, None)?;
            let changes: SettingsMap = OWN_SETTINGS.map(|setting| (setting.to_owned(), Value::Null)).into();
            let index = self.index(name)?;
            let settings = index
                .settings
                .update(&changes, false, index.closed, name, &index.uuid)?;
            if settings != index.settings {
                self.change_index(name, |index| index.settings = settings)?;
            }
        }
        Ok(())
    }

    fn replace_index(&mut self, old_name: &str, new_name: &str, to: &Execution) -> Result<()> {
        let old = Arc::clone(self.index(old_name)?);
        let new = self.index(new_name)?;
        if let Some(stream) = &old.data_stream
            && self.is_stream_write_index(stream, old_name)
        {
            return Err(Error::illegal_argument(format!(
                "index [{old_name}] is the write index for data stream [{stream}] and cannot be replaced"
            )));
        }
        // All lifecycle settings, including the origination date.
        let mut changes: SettingsMap = old.settings.typed.clone();
        changes.retain(|name, _| name.starts_with(LIFECYCLE));
        changes.insert("index.hidden".to_owned(), old.settings.hidden.to_string().into());
        let mut settings = new.settings.update(&changes, false, new.closed, new_name, &new.uuid)?;
        if let Some(range_ms) = old.settings.time_range_ms.clone() {
            settings.set_time_range(range_ms);
        }
        if let Some(stream) = &old.data_stream
            && let Some(stream) = self.next.data_streams.get_mut(stream)
        {
            for place in &mut Arc::make_mut(stream).indices {
                if place == old_name {
                    new_name.clone_into(place);
                }
            }
        }
        self.next.indices.remove(old_name);
        self.change_index(new_name, |new| {
            new.settings = settings;
            // The age of a mounted index is the age of its events, not the time since the mount.
            new.created_ms = old.created_ms;
            new.rolled_over_ms = old.rolled_over_ms;
            new.data_stream.clone_from(&old.data_stream);
            new.execution = Some(Arc::new(to.clone()));
            for (alias, metadata) in &old.aliases {
                let metadata = AliasMetadata {
                    is_write_index: None,
                    ..metadata.clone()
                };
                new.aliases.insert(alias.clone(), metadata);
            }
            if old.data_stream.is_none() {
                // As in Elasticsearch, a search for the old name finds the events.
                new.aliases.insert(old_name.to_owned(), AliasMetadata::default());
            }
        })
    }
}

/// Whether a setting is true: a boolean or the text `true`.
fn is_set(settings: &IndexSettings, name: &str) -> bool {
    let value = settings.typed.get(name);
    value.is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true"))
}

fn set_origination_ms(settings: &IndexSettings) -> Option<i64> {
    let value = settings.typed.get(ORIGINATION_DATE)?;
    let ms = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    (ms >= 0).then_some(ms)
}

/// Checks that an index whose age comes from its name has a date in the name, unless its settings give one.
pub(super) fn check_origination_date(name: &str, settings: &IndexSettings) -> Result<()> {
    if !is_set(settings, PARSE_ORIGINATION_DATE)
        || set_origination_ms(settings).is_some()
        || date_in_name(name).is_some()
    {
        return Ok(());
    }
    Err(Error::illegal_argument(format!(
        "index name [{name}] has no date such as [-2026.11.23] at its end or before its number, from which \
         [{PARSE_ORIGINATION_DATE}] takes the index's age"
    ))
    .with_index(name))
}

/// Returns the date of `NAME-yyyy.MM.dd` or `NAME-yyyy.MM.dd-000001`, at midnight UTC.
fn date_in_name(name: &str) -> Option<i64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let stem = match name.rsplit_once('-') {
        Some((stem, number)) if is_number(number) => stem,
        _ => name,
    };
    let (_, date) = stem.rsplit_once('-')?;
    DateFormat::new("uuuu.MM.dd").ok()?.parse_ms(date).ok()
}

fn policy_not_found(name: &str) -> Error {
    Error::new(
        ErrorKind::ResourceNotFound,
        format!("Lifecycle policy not found: {name}"),
    )
}
