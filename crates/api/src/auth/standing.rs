//! Whether whoever was let in would be let in still: answers that are written as they come may outlive the right to them.

use std::sync::Arc;
use std::time::Duration;

use firn_control::{Control, Identity, SessionToken};

use super::Known;

/// How often is asked: whoever was shut out sees no more than what comes in this time.
const EVERY: Duration = Duration::from_secs(1);

/// Who was let in, and by what.
#[derive(Debug)]
pub(crate) struct Standing {
    control: Arc<Control>,
    identity: Arc<Identity>,
    session: Option<SessionToken>,
}

impl Standing {
    pub(crate) fn of(control: &Arc<Control>, known: &Known) -> Self {
        Self {
            control: Arc::clone(control),
            identity: Arc::clone(&known.identity),
            session: known.session.as_ref().map(|session| session.token.clone()),
        }
    }

    /// Ready once he would not be let in any more, or not to do the same.
    pub(crate) async fn lost(self) {
        while self.control.still_admits(&self.identity, self.session.as_ref()) {
            tokio::time::sleep(EVERY).await;
        }
    }
}
