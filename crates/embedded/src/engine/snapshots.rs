//! Snapshot API of the engine.
//!
//! Work that only waits for an object store runs on the I/O runtime; work that reads and writes
//! segments has a separate pool, so that it takes no thread from other requests.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use firn_engine::snapshot::{
    AnalyzeRepository, CleanupOutcome, CloneSnapshot, CreateSnapshot, PutRepository, Repository, RestoreSnapshot,
    Restored, RewrittenSnapshot, SnapshotErasure, SnapshotInfo, SnapshotNames, SnapshotStatus, SnapshotVerification,
    Snapshots, TenantSnapshots, Verification, VerifySnapshot,
};
use firn_engine::{RequestContext, Result};
use firn_model::tenant::TenantId;
use serde_json::{Map, Value};

use super::Embedded;
use super::services::Services;
use crate::node::pools::{panicked, run_on};
use crate::operators::check_operator;

impl Embedded {
    /// Runs a future that waits for an object store, on the I/O runtime.
    async fn on_io<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        ctx: &RequestContext,
        work: impl FnOnce(Arc<Services>) -> F,
    ) -> Result<T> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        let services = Arc::clone(&self.services);
        let io = services.repositories.io()?.clone();
        io.spawn(work(services)).await.unwrap_or_else(|_| Err(panicked()))
    }
}

#[async_trait]
impl Snapshots for Embedded {
    async fn put_repository(&self, ctx: &RequestContext, request: PutRepository) -> Result<()> {
        self.on_io(
            ctx,
            |services| async move { services.snapshots.register(request).await },
        )
        .await
    }

    async fn repositories(&self, ctx: &RequestContext, names: &[String]) -> Result<Vec<Repository>> {
        check_operator(ctx)?;
        self.services.snapshots.registered(names)
    }

    async fn delete_repository(&self, ctx: &RequestContext, names: &[String]) -> Result<()> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        let (services, names) = (Arc::clone(&self.services), names.to_vec());
        run_on(&self.services.pools.maintenance, ctx, move || {
            services.snapshots.unregister(&names)
        })
        .await
    }

    async fn verify_repository(&self, ctx: &RequestContext, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.on_io(ctx, |services| async move {
            let repository = services.repositories.repository(&name)?;
            match repository.is_readonly() {
                // Nothing can be written; verification only checks that the repository can be read.
                true => repository.state().await.map(|_| ()),
                false => services.snapshots.verify(&repository).await,
            }
        })
        .await
    }

    async fn analyze_repository(&self, ctx: &RequestContext, request: AnalyzeRepository) -> Result<Map<String, Value>> {
        self.on_io(ctx, |services| async move { services.snapshots.analyze(request).await })
            .await
    }

    async fn cleanup_repository(&self, ctx: &RequestContext, name: &str) -> Result<CleanupOutcome> {
        let name = name.to_owned();
        self.on_io(ctx, |services| async move { services.snapshots.clean_up(&name).await })
            .await
    }

    async fn create_snapshot(&self, ctx: &RequestContext, request: CreateSnapshot) -> Result<SnapshotInfo> {
        let wait = request.wait;
        let its = ctx.clone();
        let plan = self
            .on_io(ctx, |services| async move {
                services.snapshots.plan_snapshot(&its, request).await
            })
            .await?;
        let services = Arc::clone(&self.services);
        if wait {
            return run_on(&self.services.pools.snapshot, ctx, move || {
                services.snapshots.make_snapshot(plan)
            })
            .await;
        }
        let begun = plan.info();
        // The result is logged, and the status API shows it.
        let job = move || drop(services.snapshots.make_snapshot(plan));
        self.services
            .pools
            .snapshot
            .spawn(&firn_scheduler::Flow::of(&ctx.scope), job)?;
        Ok(begun)
    }

    async fn list_snapshots(
        &self,
        ctx: &RequestContext,
        repository: &str,
        names: &SnapshotNames,
        ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotInfo>> {
        let (repository, names) = (repository.to_owned(), names.clone());
        self.on_io(ctx, |services| async move {
            services
                .snapshots
                .list_snapshots(&repository, &names, ignore_unavailable)
                .await
        })
        .await
    }

    async fn snapshot_status(
        &self,
        ctx: &RequestContext,
        repository: Option<&str>,
        names: &SnapshotNames,
        ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotStatus>> {
        let (repository, names) = (repository.map(str::to_owned), names.clone());
        self.on_io(ctx, |services| async move {
            services
                .snapshots
                .snapshot_statuses(repository.as_deref(), &names, ignore_unavailable)
                .await
        })
        .await
    }

    async fn delete_snapshot(&self, ctx: &RequestContext, repository: &str, names: &SnapshotNames) -> Result<()> {
        let (repository, names) = (repository.to_owned(), names.clone());
        self.on_io(ctx, |services| async move {
            services.snapshots.remove_snapshots(&repository, &names).await
        })
        .await
    }

    async fn clone_snapshot(&self, ctx: &RequestContext, request: CloneSnapshot) -> Result<()> {
        self.on_io(
            ctx,
            |services| async move { services.snapshots.clone_one(request).await },
        )
        .await
    }

    async fn restore_snapshot(&self, ctx: &RequestContext, request: RestoreSnapshot) -> Result<Restored> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        let services = Arc::clone(&self.services);
        // The restore continues when the client disconnects, as in Elasticsearch.
        let task = ctx.lasting.clone();
        let go_on = move |services: &Services| {
            services.node.check_open()?;
            task.as_ref().map_or(Ok(()), |task| task.cancel.check())
        };
        // Errors are returned before the restore is said to have begun; the work itself plans again, from the state at
        // that time. If no index matches the names, there is nothing to wait for.
        let mut wait = request.wait;
        if !wait {
            let (planner, params) = (Arc::clone(&self.services), request.clone());
            let checked = self
                .services
                .repositories
                .io()?
                .spawn_blocking(move || planner.snapshots.check_restore(&params));
            wait = !checked.await.unwrap_or_else(|_| Err(panicked()))?;
        }
        if wait {
            let work = move || services.snapshots.restore(&request, &|| go_on(&services));
            return run_on(&self.services.pools.snapshot, ctx, work).await;
        }
        let begun = Restored {
            snapshot: request.snapshot.clone(),
            ..Restored::default()
        };
        self.services.pools.snapshot.spawn(&firn_scheduler::Flow::of(&ctx.scope), move || {
            if let Err(error) = services.snapshots.restore(&request, &|| go_on(&services)) {
                tracing::warn!(repository = request.repository, snapshot = request.snapshot, %error, "a restore failed");
            }
        })?;
        Ok(begun)
    }
}

#[async_trait]
impl SnapshotErasure for Embedded {
    async fn snapshots_of_tenant(&self, ctx: &RequestContext, tenant: &TenantId) -> Result<TenantSnapshots> {
        check_operator(ctx)?;
        if self.services.snapshots.registered(&[])?.is_empty() {
            return Ok(TenantSnapshots::default());
        }
        let tenant = tenant.clone();
        self.on_io(ctx, |services| async move {
            services.snapshots.snapshots_of_tenant(tenant.as_str()).await
        })
        .await
    }

    async fn remove_tenant_from_snapshot(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        repository: &str,
        snapshot: &str,
    ) -> Result<RewrittenSnapshot> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        let services = Arc::clone(&self.services);
        let (tenant, repository, snapshot) = (tenant.clone(), repository.to_owned(), snapshot.to_owned());
        run_on(&self.services.pools.snapshot, ctx, move || {
            services
                .snapshots
                .remove_tenant_from_snapshot(tenant.as_str(), &repository, &snapshot)
        })
        .await
    }

    async fn remove_leftovers(&self, ctx: &RequestContext, repository: &str) -> Result<u64> {
        let name = repository.to_owned();
        self.on_io(ctx, |services| async move {
            services.snapshots.remove_leftovers(&name).await
        })
        .await
    }
}

#[async_trait]
impl SnapshotVerification for Embedded {
    async fn begin_verification(&self, ctx: &RequestContext, request: VerifySnapshot) -> Result<()> {
        self.services.node.check_open()?;
        check_operator(ctx)?;
        self.services.snapshots.begin_verification(request, ctx.lasting.clone())
    }

    async fn verification(&self, ctx: &RequestContext, request: &VerifySnapshot) -> Result<Option<Verification>> {
        let request = request.clone();
        self.on_io(ctx, |services| async move {
            services.snapshots.verification(&request).await
        })
        .await
    }

    async fn end_verification(&self, ctx: &RequestContext, request: &VerifySnapshot) -> Result<()> {
        check_operator(ctx)?;
        self.services.snapshots.end_verification(request);
        Ok(())
    }
}
