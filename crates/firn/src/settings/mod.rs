//! What a user may set, from where, and what the program makes of it.
//!
//! Two steps: [`load`] collects what was *typed* (file, environment, command line), then
//! [`ServeSettings::validate`] turns it into what the program *uses*, once. The table in
//! [`definitions`] is the only place that knows a setting's name, default, unit, help and check;
//! `--help`, `docs/operate/settings.md` and the error messages are printed from it.

pub(crate) mod accepted;
pub(crate) mod address;
pub(crate) mod definitions;
mod kinds;
pub(crate) mod load;
pub(crate) mod markdown;
mod serve;
pub(crate) mod value;

pub(crate) use serve::{FloodStage, KeepRecords, LogFormat, ServeSettings};

use std::fmt;

/// What the user typed cannot be used. The program exits with 78 (`EX_CONFIG` of sysexits.h), so
/// that a supervisor can tell it from a crash.
#[derive(Debug)]
pub(crate) struct SettingsError(pub(crate) String);

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}
