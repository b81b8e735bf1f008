//! View of the metadata that a request may see, by its scope.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::Scope;
use firn_model::metadata::{Metadata, Viewer};
use firn_model::tenant::TenantId;
use parking_lot::Mutex;

use super::state::State;

/// Maximum number of cached views: some hundred tenants with a few roles each. A view shares nearly all of its
/// parts with the metadata, so one costs a few kilobytes.
const VIEWS_MAX: usize = 1024;

/// Views of one version of the metadata.
#[derive(Default)]
pub(crate) struct Views(Mutex<CachedView>);

#[derive(Default)]
struct CachedView {
    version: u64,
    by_reach: HashMap<ViewKey, Arc<Metadata>>,
}

/// Parts of a scope that a view depends on.
type ViewKey = (Option<TenantId>, Vec<Arc<[String]>>);

impl Views {
    /// Returns the metadata that a scope may see.
    pub(super) fn of(&self, state: &State, scope: &Scope) -> Arc<Metadata> {
        let metadata = &state.metadata;
        if scope.is_unlimited() {
            return Arc::clone(metadata);
        }
        let reach = (scope.tenant_id().cloned(), scope.names().to_vec());
        {
            let cached = self.0.lock();
            if cached.version == metadata.version
                && let Some(view) = cached.by_reach.get(&reach)
            {
                return Arc::clone(view);
            }
        }
        let view = Arc::new(metadata.view(&Viewer {
            tenant: scope.tenant_id(),
            allows_name: &|name| scope.allows_name(name),
        }));
        let mut cached = self.0.lock();
        if cached.version < metadata.version || cached.by_reach.len() >= VIEWS_MAX {
            cached.by_reach.clear();
            cached.version = metadata.version;
        }
        if cached.version == metadata.version {
            cached.by_reach.insert(reach, Arc::clone(&view));
        }
        view
    }
}
