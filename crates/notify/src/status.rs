//! State of channels, for operators.

use std::sync::Arc;

use parking_lot::Mutex;

/// State of one channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelStatus {
    /// Alerts that it has not delivered, at the last look.
    pub pending: u64,
    /// Alerts that it has delivered since the start of the node.
    pub delivered: u64,
    /// Messages in which it delivered them.
    pub messages: u64,
    /// Alerts that it has given up since the start of the node.
    pub failed: u64,
    /// Why its last message failed, or why it cannot be used; `None`: the last one was sent.
    pub last_error: Option<String>,
    /// When it is tried again, RFC 3339; `None`: it does not fail.
    pub next_attempt: Option<String>,
}

/// Shared state of a channel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status(Arc<Mutex<ChannelStatus>>);

impl Status {
    pub(crate) fn get(&self) -> ChannelStatus {
        self.0.lock().clone()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut ChannelStatus)) {
        change(&mut self.0.lock());
    }
}
