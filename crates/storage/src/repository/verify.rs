//! Whether a repository can be written to and read back.

use bytes::Bytes;
use firn_model::{Error, Result};

use super::Repository;
use crate::object::{ObjectErrorKind, PutMode};

impl Repository {
    /// Writes an object, reads it back and removes it; and makes sure that of two writers of one
    /// name one is told, because commits stand on that.
    pub async fn verify(&self) -> Result<()> {
        let id = (self.writer.fresh_id)();
        let key = format!("tests/{id}");
        let checked = self.write_and_read(&key, id.into()).await;
        // Also after a failure; what cannot be removed then says nothing new.
        let removed = self.store.delete(&key).await;
        checked.and_then(|()| removed.map_err(|error| self.failed("be verified: an object cannot be removed", error)))
    }

    async fn write_and_read(&self, key: &str, content: Bytes) -> Result<()> {
        let write = async |content: Bytes| self.store.write(key, content, PutMode::Create).await;
        write(content.clone())
            .await
            .map_err(|error| self.failed("be verified: it cannot be written", error))?;
        match write(Bytes::from_static(b"another writer")).await {
            Err(error) if error.kind == ObjectErrorKind::Exists => {}
            Err(error) => return Err(self.failed("be verified: it cannot be written", error)),
            Ok(_) => {
                return Err(self.error(
                    "cannot be verified: its store lets two writers create the same object, so they would lose snapshots of \
                     each other",
                ));
            }
        }
        let read = self.store.read_all(key, content.len() as u64).await;
        let (read, _) = read.map_err(|error| self.failed("be verified: it cannot be read", error))?;
        match read == content {
            true => Ok(()),
            false => Err(Error::new(
                firn_model::ErrorKind::Repository,
                format!(
                    "[{}] cannot be verified: it gave back other bytes than were written",
                    self.name
                ),
            )),
        }
    }
}
