//! Commands of detection rules, of the channels of their alerts, and of maintenance windows. Bodies are checked where their content is known, before a
//! command is made.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::ids::{ID_BYTES_MAX, check_id_of};
use super::pipeline_bodies::PipelineBodies;
use super::state::Metadata;
use crate::{Error, ErrorKind, Result};

/// Maximum detection rules of one node, those of all tenants together.
const RULES_MAX: usize = 20_000;
/// Maximum alert channels of one node.
const CHANNELS_MAX: usize = 1_000;
/// Maximum maintenance windows of one node: each alert is compared with those that are active.
const MAINTENANCE_WINDOWS_MAX: usize = 500;

/// Change of detection rules, alert channels or maintenance windows.
#[derive(Debug, Clone, PartialEq)]
pub enum DetectionCommand {
    /// Stores rules by their ids, all or none. Identical ones change nothing.
    PutRules(Vec<(String, Map<String, Value>)>),
    /// Removes rules. An id that does not exist fails with [`ErrorKind::ResourceNotFound`], and nothing is removed.
    DeleteRules(Vec<String>),
    /// Stores a channel.
    PutChannel {
        /// The id.
        id: String,
        /// The body.
        body: Map<String, Value>,
    },
    /// Removes a channel. An id that does not exist fails with [`ErrorKind::ResourceNotFound`].
    DeleteChannel {
        /// The id.
        id: String,
    },
    /// Stores a maintenance window.
    PutMaintenanceWindow {
        /// The id.
        id: String,
        /// The body.
        body: Map<String, Value>,
    },
    /// Removes a maintenance window. An id that does not exist fails with [`ErrorKind::ResourceNotFound`].
    DeleteMaintenanceWindow {
        /// The id.
        id: String,
    },
}

impl DetectionCommand {
    /// Changes metadata; returns whether anything changed.
    pub(super) fn apply(&self, next: &mut Metadata) -> Result<bool> {
        let (rules, channels) = (&mut next.detection_rules, &mut next.alert_channels);
        let windows = &mut next.maintenance_windows;
        match self {
            Self::PutRules(bodies) => put(rules, "detection rule", bodies, RULES_MAX),
            Self::DeleteRules(ids) => delete(rules, "detection rule", ids),
            Self::PutChannel { id, body } => {
                let one = [(id.clone(), body.clone())];
                put(channels, "alert channel", &one, CHANNELS_MAX)
            }
            Self::DeleteChannel { id } => delete(channels, "alert channel", std::slice::from_ref(id)),
            Self::PutMaintenanceWindow { id, body } => {
                let one = [(id.clone(), body.clone())];
                put(windows, "maintenance window", &one, MAINTENANCE_WINDOWS_MAX)
            }
            Self::DeleteMaintenanceWindow { id } => delete(windows, "maintenance window", std::slice::from_ref(id)),
        }
    }
}

/// Checks the id of a new detection rule. Rules whose ids were accepted before stay.
///
/// # Errors
/// [`ErrorKind::IllegalArgument`] says what an id must not be.
pub fn check_detection_rule_id(id: &str) -> Result<()> {
    check_id("detection rule", id)?;
    // An id is a part of paths and of the ids of generated rules, and is printed in logs.
    let reason = match id
        .chars()
        .find(|letter| matches!(letter, '/' | '\\') || letter.is_control())
    {
        None => return Ok(()),
        Some(letter) if letter.is_control() => "a control character".to_owned(),
        Some(letter) => format!("[{letter}]"),
    };
    let id = id.escape_debug();
    Err(Error::illegal_argument(format!(
        "the id [{id}] of a detection rule must not contain {reason}"
    )))
}

/// Returns the id of a rule that has none: its title with [-] for what an id must not have. Empty: the title has nothing else.
pub fn detection_rule_id_of(title: &str) -> String {
    let is_valid = |letter: char| !letter.is_control() && !matches!(letter, ',' | '*' | '/' | '\\');
    let letters = title.trim().trim_start_matches('_').chars();
    let mut id: String = letters
        .map(|letter| if is_valid(letter) { letter } else { '-' })
        .collect();
    while id.len() > ID_BYTES_MAX {
        id.pop();
    }
    id
}

fn check_id(noun: &str, id: &str) -> Result<()> {
    check_id_of(noun, id)?;
    match id.starts_with('_') {
        true => Err(Error::illegal_argument(format!(
            "the id [{id}] of a {noun} must not start with [_]"
        ))),
        false => Ok(()),
    }
}

/// Returns whether anything changed.
fn put(
    stored: &mut Arc<PipelineBodies>,
    noun: &str,
    bodies: &[(String, Map<String, Value>)],
    most: usize,
) -> Result<bool> {
    for (id, _) in bodies {
        check_id(noun, id)?;
    }
    let is_stored = |(id, body): &(String, Map<String, Value>)| stored.by_id.get(id).is_some_and(|old| **old == *body);
    let changed: Vec<_> = bodies.iter().filter(|body| !is_stored(body)).collect();
    if changed.is_empty() {
        return Ok(false);
    }
    let by_id = &mut Arc::make_mut(stored).by_id;
    for (id, body) in changed {
        by_id.insert(id.clone(), Arc::new(body.clone()));
    }
    match by_id.len() > most {
        true => Err(Error::illegal_argument(format!("a node has at most [{most}] {noun}s"))),
        false => Ok(true),
    }
}

fn delete(stored: &mut Arc<PipelineBodies>, noun: &str, ids: &[String]) -> Result<bool> {
    if let Some(missing) = ids.iter().find(|id| !stored.by_id.contains_key(*id)) {
        let reason = format!("{noun} [{missing}] is missing");
        return Err(Error::new(ErrorKind::ResourceNotFound, reason));
    }
    let by_id = &mut Arc::make_mut(stored).by_id;
    ids.iter().for_each(|id| drop(by_id.remove(id)));
    Ok(!ids.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_rule_is_printable_and_a_part_of_a_path() {
        for id in ["e28a5a99-da44", "Überwachung (neu)", "a:b.c", "..."] {
            assert!(check_detection_rule_id(id).is_ok(), "{id}");
        }
        let long = "x".repeat(513);
        for (id, reason) in [
            ("a/b", "[a/b] of a detection rule must not contain [/]"),
            ("a\\b", "must not contain [\\]"),
            (
                "a\nb",
                "[a\\nb] of a detection rule must not contain a control character",
            ),
            ("a\u{1f}0", "a control character"),
            ("a\u{7f}", "a control character"),
            (long.as_str(), "[1] to [255] bytes, not [513]"),
            ("_a", "must not start with [_]"),
            ("a,b", "must not contain [,]"),
            (".", "[.] of a detection rule must not be [.] or [..]"),
            ("..", "must not be [.] or [..]"),
        ] {
            let error = check_detection_rule_id(id).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IllegalArgument);
            assert!(error.reason().contains(reason), "{id:?}: {}", error.reason());
        }
    }

    #[test]
    fn an_id_is_made_of_a_title() {
        for (title, id) in [
            ("Logon as root", "Logon as root"),
            ("Access to /etc/shadow, by *", "Access to -etc-shadow- by -"),
            ("C:\\Temp\n", "C:-Temp"),
            ("__a\tb", "a-b"),
            ("*", "-"),
        ] {
            assert_eq!(detection_rule_id_of(title), id);
            assert!(check_detection_rule_id(id).is_ok(), "{id}");
        }
        let long = detection_rule_id_of(&"ü".repeat(200));
        assert_eq!(long, "ü".repeat(127));
        assert!(check_detection_rule_id(&long).is_ok());
        assert_eq!(detection_rule_id_of(" _ "), "");
    }
}
