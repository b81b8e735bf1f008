//! Quarantine API: list, adopt and remove folders.

use std::sync::Arc;

use async_trait::async_trait;
use firn_engine::RequestContext;
use firn_engine::quarantine::{QuarantinedFolder, QuarantinedFolders};
use firn_model::Result;

use super::Embedded;
use crate::node::pools::run_on;
use crate::operators::check_operator;

#[async_trait]
impl QuarantinedFolders for Embedded {
    fn quarantined_count(&self, _ctx: &RequestContext) -> u64 {
        self.services.quarantine.listed.lock().len() as u64
    }

    async fn quarantined_folders(&self, ctx: &RequestContext) -> Result<Vec<QuarantinedFolder>> {
        check_operator(ctx)?;
        Ok(self.services.quarantine.listed.lock().clone())
    }

    async fn adopt_quarantined(&self, ctx: &RequestContext, id: &str, rename: Option<String>) -> Result<String> {
        check_operator(ctx)?;
        let (services, id) = (Arc::clone(&self.services), id.to_owned());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.quarantine.adopt(&id, rename)
        })
        .await
    }

    async fn remove_quarantined(&self, ctx: &RequestContext, id: &str) -> Result<()> {
        check_operator(ctx)?;
        let (services, id) = (Arc::clone(&self.services), id.to_owned());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.quarantine.remove(&id)
        })
        .await
    }
}
