//! Periodic check of the caller's rights during streamed answers, which may outlive those rights.

use std::sync::Arc;
use std::time::Duration;

use firn_auth::{Control, Identity, SessionToken};

/// Check interval: after a revocation the client sees at most the data of this time.
const EVERY: Duration = Duration::from_secs(1);

/// Authenticated caller, and the session if there is one.
#[derive(Debug)]
pub(crate) struct Revocation {
    control: Arc<Control>,
    identity: Arc<Identity>,
    session: Option<SessionToken>,
}

impl Revocation {
    pub(crate) fn of(control: &Arc<Control>, identity: &Arc<Identity>, session: Option<&SessionToken>) -> Self {
        Self {
            control: Arc::clone(control),
            identity: Arc::clone(identity),
            session: session.cloned(),
        }
    }

    /// Completes when the caller would no longer be authenticated, or no longer with the same rights.
    pub(crate) async fn lost(self) {
        while self.control.still_admits(&self.identity, self.session.as_ref()) {
            tokio::time::sleep(EVERY).await;
        }
    }
}
