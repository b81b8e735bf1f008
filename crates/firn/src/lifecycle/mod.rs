//! The clock of [`Life`]: drops what is too old, and goes on with deletions of tenants, beside the server.

pub(crate) mod policies;

use std::time::Duration;

use firn_control::Life;

use crate::serve::now_ms;

/// Between two looks for deletions of tenants, each of which costs nothing if there is none.
const TICK: Duration = Duration::from_secs(1);

/// Runs until the task is aborted. What is under way then is taken up again after the next start.
pub(crate) async fn run(life: Life, poll_interval: Duration) {
    // A deletion rewrites snapshots at the pace of their repository: what is too old does not wait for that.
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
