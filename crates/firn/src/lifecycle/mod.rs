//! The clock of [`Life`]: drops what is too old, and goes on with deletions of tenants, beside the server.

pub(crate) mod policies;

use std::time::{Duration, Instant};

use firn_control::Life;

use crate::serve::now_ms;

/// Between two looks for deletions of tenants, each of which costs nothing if there is none.
const TICK: Duration = Duration::from_secs(1);

/// Runs until the task is aborted. What is under way then is taken up again after the next start.
pub(crate) async fn run(life: Life, poll_interval: Duration) {
    let mut looked: Option<Instant> = None;
    loop {
        life.delete_tenants(now_ms()).await;
        if looked.is_none_or(|looked| looked.elapsed() >= poll_interval) {
            life.drop_old(now_ms()).await;
            looked = Some(Instant::now());
        }
        tokio::time::sleep(TICK).await;
    }
}
