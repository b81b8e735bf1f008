//! Clock of [`RetentionController`]: drops expired data and continues deletions of tenants, beside the server.

pub(crate) mod policies;

use std::time::Duration;

use firn_lifecycle::RetentionController;

use crate::clock::now_ms;

/// Interval between checks for deletions of tenants, which cost nothing if there are none.
const TICK: Duration = Duration::from_secs(1);

/// Runs until the task is aborted. The next start continues interrupted work.
pub(crate) async fn run(life: RetentionController, poll_interval: Duration) {
    // A deletion rewrites snapshots at the rate limit of their repository: the removal of expired data does not wait
    // for that.
    let deletions = async {
        loop {
            life.delete_tenants(now_ms()).await;
            tokio::time::sleep(TICK).await;
        }
    };
    let old = async {
        loop {
            life.drop_old(now_ms()).await;
            tokio::time::sleep(poll_interval.max(TICK)).await;
        }
    };
    tokio::join!(deletions, old);
}
