//! Source of a pipeline whose events requests hand over ([`super::Runner::submit`]), so it only waits.

use async_trait::async_trait;
use firn_model::Result;

use crate::sources::{Source, SourceOutput};

/// See the module.
pub(super) struct PushedSource;

#[async_trait]
impl Source for PushedSource {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        output.stopped().await;
        Ok(())
    }
}
