//! Which worker writes each partition of a source: the last one that has claimed it. In memory only: after a restart of the server
//! every worker claims its partitions again.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Partitions that are remembered. Past it, some are forgotten, and their workers claim them again.
const PARTITIONS_MAX: usize = 100_000;

type Claim = Arc<tokio::sync::Mutex<Option<String>>>;

/// Claims by source and partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionClaims {
    claims: Mutex<HashMap<(String, String), Claim>>,
}

impl PartitionClaims {
    /// Gives a partition to a worker, after the bulk of it that goes on, if any.
    pub(crate) async fn claim(&self, source: &str, partition: &str, worker: &str) {
        *self.lock(source, partition).await = Some(worker.to_owned());
    }

    /// Returns the right to write the partition, for one bulk at a time.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: the worker has not claimed the partition, or another one has done so since.
    pub(crate) async fn write(
        &self,
        source: &str,
        partition: &str,
        worker: &str,
    ) -> Result<OwnedMutexGuard<Option<String>>, Error> {
        let claim = self.lock(source, partition).await;
        if claim.as_deref() == Some(worker) {
            return Ok(claim);
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!("the worker must claim partition [{partition}] of [{source}] first: another one may write it"),
        ))
    }

    async fn lock(&self, source: &str, partition: &str) -> OwnedMutexGuard<Option<String>> {
        let claim = {
            let mut claims = self.claims.lock();
            if claims.len() >= PARTITIONS_MAX {
                // Those with a bulk stay: two bulks of one partition must not run at the same time.
                claims.retain(|_, claim| Arc::strong_count(claim) > 1);
            }
            Arc::clone(claims.entry((source.to_owned(), partition.to_owned())).or_default())
        };
        claim.lock_owned().await
    }
}
