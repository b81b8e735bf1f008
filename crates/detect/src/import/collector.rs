//! Rules that were read from a text so far.

use std::collections::HashMap;

use firn_model::metadata::check_detection_rule_id;
use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::{Import, ImportOptions, ImportedRule, NotTaken, RefusedRule};
use crate::definition::DetectionRule;

/// Most rules of a text, as many as a node stores.
const RULES_MAX: usize = 20_000;
/// Most bytes of all definitions of a text: those of Kibana repeat the exceptions that they share.
const DEFINITIONS_BYTES_MAX: usize = 128 << 20;

/// Where a rule is in its text, and what it is called there.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    pub(super) line: usize,
    pub(super) id: String,
    pub(super) name: String,
}

impl Origin {
    pub(super) fn refused(self, reason: impl Into<String>) -> RefusedRule {
        RefusedRule {
            line: self.line,
            id: self.id,
            name: self.name,
            reason: reason.into(),
        }
    }
}

/// Checks rules, and collects them.
pub(super) struct Collector<'o> {
    options: &'o ImportOptions,
    pub(super) import: Import,
    lines: HashMap<String, usize>,
    definitions_bytes: usize,
}

impl<'o> Collector<'o> {
    pub(super) fn new(options: &'o ImportOptions) -> Self {
        Self {
            options,
            import: Import::default(),
            lines: HashMap::new(),
            definitions_bytes: 0,
        }
    }

    pub(super) fn refuse(&mut self, origin: Origin, reason: impl Into<String>) {
        self.import.refused.push(origin.refused(reason));
    }

    /// Adds a rule, or why it is refused.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`]: the text has too many rules.
    pub(super) fn add(
        &mut self,
        origin: Origin,
        mut definition: Map<String, Value>,
        not_taken: Vec<NotTaken>,
    ) -> Result<()> {
        if self.import.rules.len() == RULES_MAX {
            return Err(Error::illegal_argument(format!(
                "an import has at most [{RULES_MAX}] rules"
            )));
        }
        if let Err(reason) = self.check(&origin, &mut definition) {
            self.refuse(origin, reason);
            return Ok(());
        }
        self.lines.insert(origin.id.clone(), origin.line);
        self.import.rules.push(ImportedRule {
            line: origin.line,
            id: origin.id,
            name: origin.name,
            definition,
            not_taken,
        });
        Ok(())
    }

    fn check(&mut self, origin: &Origin, definition: &mut Map<String, Value>) -> Result<(), String> {
        let reason = |error: Error| error.reason().to_owned();
        check_detection_rule_id(&origin.id).map_err(reason)?;
        if let Some(line) = self.lines.get(&origin.id) {
            return Err(format!("the rule of line {line} has the same id"));
        }
        for (name, value) in &self.options.members {
            definition.insert(name.clone(), value.clone());
        }
        let bytes = serde_json::to_string(definition).map_or(0, |printed| printed.len());
        if self.definitions_bytes + bytes > DEFINITIONS_BYTES_MAX {
            return Err(format!(
                "the definitions of one import have at most [{DEFINITIONS_BYTES_MAX}] bytes"
            ));
        }
        DetectionRule::parse(&origin.id, definition).map_err(reason)?;
        self.definitions_bytes += bytes;
        Ok(())
    }
}
