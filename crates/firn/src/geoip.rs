//! MaxMind databases of the processor `geoip`, read from the folder `path.geoip`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firn_pipeline::processors::{NoTables, Tables};
use firn_pipeline::tables::{GeoDatabases, TableError};

use crate::settings::ServeSettings;

/// How often the folder is checked for changed files.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Loads the databases, if the folder is set. Files that cannot be loaded are logged; the others are used.
pub(crate) fn load(settings: &ServeSettings) -> Arc<dyn Tables + Send> {
    let Some(folder) = &settings.path_geoip else {
        return Arc::new(NoTables);
    };
    let (databases, errors) = GeoDatabases::open(folder);
    log(&errors);
    for (file, kind) in databases.databases() {
        tracing::info!(file, kind, "loaded a GeoIP database");
    }
    let databases = Arc::new(databases);
    tokio::spawn(refresh(Arc::clone(&databases), folder.clone()));
    databases
}

/// Loads changed files until the process ends.
async fn refresh(databases: Arc<GeoDatabases>, folder: PathBuf) {
    let mut reported = Vec::new();
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let refreshed = Arc::clone(&databases);
        let Ok(errors) = tokio::task::spawn_blocking(move || refreshed.refresh()).await else {
            tracing::error!(folder = %folder.display(), "the check of the GeoIP databases ended because of a bug");
            return;
        };
        // A file that stays damaged is reported once.
        if errors != reported {
            log(&errors);
        }
        reported = errors;
    }
}

fn log(errors: &[TableError]) {
    for error in errors {
        tracing::warn!("cannot load the GeoIP database [{}]: {}", error.table, error.reason);
    }
}
