//! Settings of the server: their sources, values and validation.
//!
//! Two steps: [`load`] collects the *raw* values (file, environment, command line), then [`ServeSettings::validate`]
//! converts them once to the values that the program *uses*. The table in [`definitions`] is the only place with a
//! setting's name, default, unit, help and validation; `--help`, `docs/operate/settings.md` and the error messages are
//! printed from it.

pub(crate) mod accepted;
pub(crate) mod address;
pub(crate) mod definitions;
mod kinds;
pub(crate) mod load;
pub(crate) mod markdown;
mod rule_budget_definitions;
mod serve;
pub(crate) mod value;

pub(crate) use serve::{FloodStage, KeepRecords, LogFormat, ServeSettings};

use std::fmt;

/// The settings are invalid. The program exits with 78 (`EX_CONFIG` of sysexits.h), so that a supervisor can
/// distinguish it from a crash.
#[derive(Debug)]
pub(crate) struct SettingsError(pub(crate) String);

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}
