//! Errors of packs.

use std::fmt;

/// Reason why a pack is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackError {
    /// Name of the pack or of its file.
    pub pack: String,
    /// Place in the pack (`section [logon]: field [IpAddress]`); empty for the file as a whole.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pack, place, reason } = self;
        match place.as_str() {
            "" => write!(f, "pack [{pack}]: {reason}"),
            place => write!(f, "pack [{pack}]: {place}: {reason}"),
        }
    }
}

impl std::error::Error for PackError {}
