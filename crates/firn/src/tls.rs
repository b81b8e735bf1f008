//! Files of the server's certificate: read at start, and again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use firn_api::Tls;

use crate::settings::SettingsError;

/// Interval between checks of the files: Elasticsearch's `resource.reload.interval.high`.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A chain of certificates has some KB; a larger file is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Paths of certificate and key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Modification time and length of a file; if one differs, the content may have changed.
type Stamp = (Option<SystemTime>, u64);

impl TlsFiles {
    /// Reads both files. An error in them is an error of the settings.
    pub(crate) fn load(&self) -> Result<Tls, SettingsError> {
        let (certificate, key) = self.read().map_err(SettingsError)?;
        Tls::new(&certificate, &key).map_err(|error| SettingsError(self.name(error.reason())))
    }

    fn reload(&self, tls: &Tls) -> Result<(), String> {
        let (certificate, key) = self.read()?;
        tls.replace(&certificate, &key)
            .map_err(|error| self.name(error.reason()))
    }

    fn read(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        Ok((
            read_small(&self.certificate, "xpack.security.http.ssl.certificate")?,
            read_small(&self.key, "xpack.security.http.ssl.key")?,
        ))
    }

    fn name(&self, reason: &str) -> String {
        format!("{reason} ({} and {})", self.certificate.display(), self.key.display())
    }

    fn stamps(&self) -> [Stamp; 2] {
        [&self.certificate, &self.key].map(|path| match std::fs::metadata(path) {
            Ok(metadata) => (metadata.modified().ok(), metadata.len()),
            Err(_) => (None, 0),
        })
    }

    /// Checks the files as long as the server lives. If new files are invalid, the old certificate stays in use, and
    /// the files are read again only after another change.
    pub(crate) async fn watch(self, tls: Arc<Tls>) {
        let mut seen = self.stamps();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (files, tls) = (self.clone(), Arc::clone(&tls));
            let looked = tokio::task::spawn_blocking(move || {
                let now = files.stamps();
                if now != seen {
                    files.report(&tls);
                }
                now
            });
            match looked.await {
                Ok(now) => seen = now,
                Err(_) => return,
            }
        }
    }

    fn report(&self, tls: &Tls) {
        match self.reload(tls) {
            Ok(()) => tracing::info!(
                certificate = %self.certificate.display(),
                "the certificate has changed: new connections use the new one"
            ),
            Err(error) => tracing::error!("cannot use the changed certificate, the old one stays in use: {error}"),
        }
    }
}

fn read_small(path: &Path, setting: &str) -> Result<Vec<u8>, String> {
    let fail = |reason: String| format!("cannot read {} of [{setting}]: {reason}", path.display());
    let size = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fail(format!(
            "it has {size} bytes, more than the {FILE_BYTES_MAX} allowed"
        )));
    }
    std::fs::read(path).map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_the_file_and_the_setting() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = TlsFiles {
            certificate: folder.path().join("cert.pem"),
            key: folder.path().join("key.pem"),
        };
        let check = |parts: &[&str]| {
            let error = files.load().expect_err("an error").0;
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        check(&["cert.pem", "xpack.security.http.ssl.certificate", "No such file"]);
        std::fs::write(&files.certificate, "nonsense").expect("a file");
        check(&["key.pem", "xpack.security.http.ssl.key", "No such file"]);
        std::fs::write(&files.key, "nonsense").expect("a file");
        check(&["holds no PEM certificate", "cert.pem"]);
    }
}
