//! Settings on the command line: the configuration file, `-E` and the short options, loaded and validated.

use std::path::{Path, PathBuf};

use crate::settings::load::{Sources, Typed};
use crate::settings::{ServeSettings, SettingsError};
use crate::{keystore, logging};

/// Sources of settings.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SettingsArgs {
    /// Settings in YAML
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A setting; may be repeated
    #[arg(short = 'E', value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Short for -E path.data=DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Short for -E http.port=PORT
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
}

impl SettingsArgs {
    /// Collects and validates all settings; starts logging with them.
    pub(crate) fn load(&self) -> anyhow::Result<ServeSettings> {
        let typed = self.typed()?;
        let mut settings = ServeSettings::validate(&typed)?;
        settings.secrets = keystore::load(self.config.as_deref(), &settings.path_data)?;
        logging::start(&settings.log_level, settings.log_format);
        for warning in &typed.warnings {
            tracing::warn!("{warning}");
        }
        Ok(settings)
    }

    /// Returns the configuration file and the data folder: the places of a keystore.
    pub(crate) fn places(&self) -> anyhow::Result<(Option<&Path>, PathBuf)> {
        let settings = ServeSettings::validate(&self.typed()?)?;
        Ok((self.config.as_deref(), settings.path_data))
    }

    fn typed(&self) -> Result<Typed, SettingsError> {
        let mut flags = Vec::new();
        if let Some(data) = &self.data {
            flags.push(("--data", "path.data", data.display().to_string()));
        }
        if let Some(port) = self.port {
            flags.push(("--port", "http.port", port.to_string()));
        }
        Typed::load(Sources {
            file: self.config.as_deref(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            options: &self.options,
            flags,
        })
    }
}
