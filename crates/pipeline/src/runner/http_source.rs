//! Source of a pipeline that takes events by HTTP: requests hand them over ([`super::Runner::submit`]), so it only waits.

use async_trait::async_trait;
use firn_model::Result;

use crate::sources::{Source, SourceOutput};

/// See the module.
pub(super) struct HttpSource;

#[async_trait]
impl Source for HttpSource {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        output.stopped().await;
        Ok(())
    }
}
