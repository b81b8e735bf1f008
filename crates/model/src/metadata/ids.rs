//! Ids of pipelines, detection rules and alert channels.

use crate::{Error, Result};

/// Maximum bytes of a pipeline's id, the same as for names of indices.
pub(super) const ID_BYTES_MAX: usize = 255;

/// Checks the id of a pipeline.
pub(super) fn check_id(id: &str) -> Result<()> {
    check_id_of("pipeline", id)
}

/// Checks the id of something that is named by `noun` in the error.
pub(super) fn check_id_of(noun: &str, id: &str) -> Result<()> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "the id of a {noun} must have [1] to [{ID_BYTES_MAX}] bytes, not [{}]",
            id.len()
        )));
    }
    if matches!(id, "." | "..") {
        // Clients drop these parts of a path.
        return Err(Error::illegal_argument(format!(
            "the id [{id}] of a {noun} must not be [.] or [..]"
        )));
    }
    if let Some(at) = id.find([',', '*']) {
        return Err(Error::illegal_argument(format!(
            "the id [{id}] of a {noun} must not contain [{}]",
            &id[at..=at]
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_no_part_of_a_path_that_clients_drop() {
        for id in ["web", "a.b", "...", ".a"] {
            assert!(check_id(id).is_ok(), "{id}");
        }
        for id in [".", ".."] {
            let error = check_id(id).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::IllegalArgument);
            let reason = format!("the id [{id}] of a pipeline must not be [.] or [..]");
            assert_eq!(error.reason(), reason);
        }
    }
}
