//! Validation of names. Follows Elasticsearch's `MetadataCreateIndexService`.

use crate::{Error, ErrorKind, Result};

/// Maximum bytes of a name; also the limit of file systems.
const NAME_BYTES_MAX: usize = 255;

/// Checks a new index's name by Elasticsearch's rules ([`ErrorKind::InvalidIndexName`]).
pub fn validate_index_name(name: &str) -> Result<()> {
    let invalid = |why: String| {
        let error = Error::new(
            ErrorKind::InvalidIndexName,
            format!("Invalid index name [{name}], {why}"),
        );
        Err(error.with_index(name))
    };
    if let Some(why) = problem(name) {
        return invalid(why);
    }
    if name.chars().any(char::is_uppercase) {
        return invalid("must be lowercase".to_owned());
    }
    Ok(())
}

/// Checks a new alias's name ([`ErrorKind::InvalidAliasName`]). Capitals are allowed.
pub fn validate_alias_name(name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::illegal_argument("alias name is required"));
    }
    match problem(name) {
        Some(why) => Err(Error::new(
            ErrorKind::InvalidAliasName,
            format!("Invalid alias name [{name}]: {why}"),
        )),
        None => Ok(()),
    }
}

/// Checks a new data stream's name ([`ErrorKind::InvalidIndexName`], or
/// [`ErrorKind::IllegalArgument`] for the prefix of backing indices).
pub fn validate_data_stream_name(name: &str) -> Result<()> {
    validate_index_name(name)?;
    if name.starts_with(".ds-") {
        return Err(Error::illegal_argument(format!(
            "data_stream [{name}] must not start with '.ds-'"
        )));
    }
    Ok(())
}

/// Returns why a name cannot be part of a path, independent of its characters.
pub fn problem_as_file_name(name: &str) -> Option<&'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Some("name is too long, at most 255 bytes are allowed");
    }
    matches!(name, "." | "..").then_some("must not be '.' or '..'")
}

fn problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("must not be empty".to_owned());
    }
    if name.contains([' ', '"', '*', '\\', '<', '|', ',', '>', '/', '?']) {
        return Some("must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]".to_owned());
    }
    if name.chars().any(char::is_control) {
        return Some("must not contain control characters".to_owned());
    }
    if name.contains('#') {
        return Some("must not contain '#'".to_owned());
    }
    if name.contains(':') {
        return Some("must not contain ':'".to_owned());
    }
    if name.starts_with(['_', '-', '+']) {
        return Some("must not start with '_', '-', or '+'".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Some(format!("index name is too long, ({} > {NAME_BYTES_MAX})", name.len()));
    }
    if name == "." || name == ".." {
        return Some("must not be '.' or '..'".to_owned());
    }
    None
}
