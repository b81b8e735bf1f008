//! Registered snapshot repositories, and rules for names of snapshots.
//!
//! This module stores the settings as the user typed them; `storage::object`, which knows the object stores, interprets
//! them.

use serde_json::{Value, json};

use crate::names::problem_as_file_name;
use crate::settings::SettingsMap;
use crate::{Error, ErrorKind, Result};

/// Maximum bytes of the `metadata` of a snapshot, as JSON.
pub const SNAPSHOT_METADATA_BYTES_MAX: usize = 1024;

/// A registered repository.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RepositoryMetadata {
    /// `fs`, `s3`, `gcs`, `azure` or `url`.
    pub kind: String,
    /// As the user typed them, flat.
    pub settings: SettingsMap,
    /// The uuid that is stored in the repository; `None`: firn has not read or written the repository yet.
    pub uuid: Option<String>,
}

impl RepositoryMetadata {
    /// Returns whether firn may only read the repository.
    pub fn is_readonly(&self) -> bool {
        let set = self.settings.get("readonly");
        self.kind == "url" || set.is_some_and(|value| *value == json!(true) || *value == json!("true"))
    }

    /// Returns whether both registrations mean the same place, so that one may replace the other.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let place = |repository: &Self| {
            let mut settings = repository.settings.clone();
            settings.retain(|name, _| !is_about_work(name));
            settings
        };
        self.kind == other.kind && place(self) == place(other)
    }

    /// Prints the repository as the catalog stores it.
    pub fn to_json(&self) -> Value {
        json!({"format": FORMAT, "type": self.kind, "settings": self.settings, "uuid": self.uuid})
    }

    /// Reads the output of [`RepositoryMetadata::to_json`]; other JSON fails with [`ErrorKind::Internal`].
    pub fn from_json(json: &Value) -> Result<Self> {
        if json["format"] != FORMAT {
            return Err(Error::internal(format!(
                "stored repository has format [{}], this firn reads [{FORMAT}]",
                json["format"]
            )));
        }
        let wrong = |field: &str| Error::internal(format!("stored repository lacks a valid [{field}]"));
        let settings = json["settings"].as_object().ok_or_else(|| wrong("settings"))?;
        Ok(Self {
            kind: json["type"].as_str().ok_or_else(|| wrong("type"))?.to_owned(),
            settings: settings.clone().into_iter().collect(),
            uuid: json["uuid"].as_str().map(str::to_owned),
        })
    }
}

const FORMAT: u32 = 1;

/// Whether a setting says how firn works with a repository, and not where the repository is.
fn is_about_work(name: &str) -> bool {
    matches!(
        name,
        "readonly" | "max_snapshot_bytes_per_sec" | "max_restore_bytes_per_sec" | "chunk_size" | "compress"
    )
}

/// Characters that file names must not contain, in the order in which Elasticsearch prints them.
const NOT_IN_FILE_NAMES: [char; 11] = ['\\', '/', '*', '?', '"', '<', '>', '|', ' ', ',', '#'];

/// Checks the name of a new repository by Elasticsearch's rules ([`ErrorKind::IllegalArgument`]).
pub fn validate_repository_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "cannot be empty"
    } else if name.contains('#') {
        "must not contain '#'"
    } else if name.contains(NOT_IN_FILE_NAMES) || name.chars().any(char::is_control) {
        "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]"
    } else if let Some(why) = problem_as_file_name(name) {
        why
    } else {
        return Ok(());
    };
    Err(Error::illegal_argument(format!(
        "[{name}] Invalid repository name [{name}], {why}"
    )))
}

/// Checks the name of a new snapshot by Elasticsearch's rules ([`ErrorKind::InvalidSnapshotName`]).
pub fn validate_snapshot_name(repository: &str, name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "cannot be empty"
    } else if name.chars().any(char::is_whitespace) {
        "must not contain whitespace"
    } else if name.contains(',') {
        "must not contain ','"
    } else if name.contains('#') {
        "must not contain '#'"
    } else if name.starts_with('_') {
        "must not start with '_'"
    } else if name.chars().any(char::is_uppercase) {
        "must be lowercase"
    } else if name.contains(NOT_IN_FILE_NAMES) || name.chars().any(char::is_control) {
        "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]"
    } else if let Some(why) = problem_as_file_name(name) {
        why
    } else {
        return Ok(());
    };
    Err(invalid_snapshot_name(repository, name, why))
}

/// Creates the error of an invalid snapshot name.
pub fn invalid_snapshot_name(repository: &str, name: &str, why: &str) -> Error {
    let reason = format!("[{repository}:{name}] Invalid snapshot name [{name}], {why}");
    Error::new(ErrorKind::InvalidSnapshotName, reason)
}

/// Creates the error of a repository that is not registered.
pub fn repository_missing(name: &str) -> Error {
    Error::new(ErrorKind::RepositoryMissing, format!("[{name}] missing"))
}

/// Creates the error of a missing snapshot.
pub fn snapshot_missing(repository: &str, snapshot: &str) -> Error {
    Error::new(
        ErrorKind::SnapshotMissing,
        format!("[{repository}:{snapshot}] is missing"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["nightly-2026.07.12", "a", "with:colon"] {
            validate_snapshot_name("r", name).unwrap();
        }
        for (name, why) in [
            ("", "cannot be empty"),
            ("a b", "must not contain whitespace"),
            ("a,b", "must not contain ','"),
            ("a#b", "must not contain '#'"),
            ("_all", "must not start with '_'"),
            ("Upper", "must be lowercase"),
            ("a*", "must not contain the following characters"),
            ("a/b", "must not contain the following characters"),
            ("a\u{1}b", "must not contain the following characters"),
            (".", "must not be '.' or '..'"),
            ("..", "must not be '.' or '..'"),
            (&"x".repeat(256), "name is too long"),
        ] {
            let error = validate_snapshot_name("r", name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSnapshotName);
            assert!(error.reason().contains(why), "{error}");
        }
        validate_repository_name("Backups_1").unwrap();
        for name in [
            "",
            "a#b",
            "a/b",
            "a,b",
            "a*",
            ".",
            "..",
            "a\0b",
            "a\nb",
            &"x".repeat(256),
        ] {
            assert!(validate_repository_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_repository_survives_the_catalog() {
        let repository = RepositoryMetadata {
            kind: "fs".to_owned(),
            settings: [
                ("location".to_owned(), json!("old")),
                ("readonly".to_owned(), json!("true")),
            ]
            .into(),
            uuid: Some("u".to_owned()),
        };
        assert_eq!(
            RepositoryMetadata::from_json(&repository.to_json()).unwrap(),
            repository
        );
        assert!(repository.is_readonly());
        let mut writable = repository.clone();
        writable.settings.remove("readonly");
        assert!(!writable.is_readonly() && writable.is_same_place(&repository));
        writable.settings.insert("location".to_owned(), json!("new"));
        assert!(!writable.is_same_place(&repository));
        assert!(RepositoryMetadata::from_json(&json!({"format": 2})).is_err());
    }
}
