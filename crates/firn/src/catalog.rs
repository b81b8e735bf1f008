//! `firn catalog`: rebuilds the catalog of a data folder.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use firn_embedded::{RebuildReport, rebuild_catalog};
use firn_storage::RealDisk;

use crate::serve::tier_paths;
use crate::settings_args::SettingsArgs;

/// Arguments of `firn catalog`.
#[derive(Debug, clap::Args)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Rebuild the catalog from the index folders and the copies of metadata in the data folder; the server must be
    /// stopped
    Rebuild {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Replace the old catalog, which stays beside the new one; without this option nothing is changed
        #[arg(long)]
        apply: bool,
    },
}

/// Runs the command.
pub(crate) fn run(args: &CatalogArgs) -> anyhow::Result<ExitCode> {
    let Command::Rebuild { settings, apply } = &args.command;
    let settings = settings.load()?;
    let report = rebuild_catalog(Arc::new(RealDisk), &settings.path_data, &tier_paths(&settings), *apply)
        .with_context(|| format!("cannot rebuild the catalog of {}", settings.path_data.display()))?;
    // `firn catalog rebuild | head` closes the pipe early, which is no error.
    let _ = std::io::stdout().write_all(print(&report, &settings.path_data, *apply).as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn print(report: &RebuildReport, path_data: &Path, apply: bool) -> String {
    let mut text = String::from("Found:\n");
    let lines = |lines: &[String]| match lines {
        [] => "  nothing\n".to_owned(),
        lines => lines.iter().map(|line| format!("  {line}\n")).collect(),
    };
    text += &lines(&report.found);
    text += "Problems:\n";
    text += &lines(&report.problems);
    text += &match (apply, &report.replaced) {
        (false, _) => format!(
            "The new catalog would have {} indices and version {}. Nothing was changed: use --apply to install it in {}.\n",
            report.index_count,
            report.version,
            path_data.display()
        ),
        (true, replaced) => {
            let old = replaced
                .as_ref()
                .map(|old| format!("; the old one is {}", old.display()));
            format!(
                "The catalog of {} has {} indices and version {}{}.\n",
                path_data.display(),
                report.index_count,
                report.version,
                old.unwrap_or_default()
            )
        }
    };
    text
}
