//! What a request may know of: the node's metadata as its scope shows it.

use std::collections::HashMap;
use std::sync::Arc;

use firn_engine::{RequestContext, Scope};
use firn_model::Result;
use firn_model::metadata::{AliasAction, Command, Metadata, Viewer};
use firn_model::tenant::TenantId;
use parking_lot::Mutex;

use super::Core;
use super::state::State;

/// Views that are kept: some hundred tenants with a few roles each. A view shares nearly all of its
/// parts with the metadata, so one costs a few kilobytes.
const VIEWS_MAX: usize = 1024;

/// Views of one version of the metadata.
#[derive(Default)]
pub(crate) struct Views(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    version: u64,
    by_reach: HashMap<Reach, Arc<Metadata>>,
}

/// What a view depends on.
type Reach = (Option<TenantId>, Vec<Arc<[String]>>);

impl Core {
    /// What there is as far as a scope reaches. Every name that a request brings is resolved against
    /// this and nothing else.
    pub(crate) fn view(&self, state: &State, scope: &Scope) -> Arc<Metadata> {
        let metadata = &state.metadata;
        if scope.is_unlimited() {
            return Arc::clone(metadata);
        }
        let reach = (scope.tenant_id().cloned(), scope.names().to_vec());
        {
            let kept = self.views.0.lock();
            if kept.version == metadata.version
                && let Some(view) = kept.by_reach.get(&reach)
            {
                return Arc::clone(view);
            }
        }
        let view = Arc::new(metadata.view(&Viewer {
            tenant: scope.tenant_id(),
            allows_name: &|name| scope.allows_name(name),
        }));
        let mut kept = self.views.0.lock();
        if kept.version < metadata.version || kept.by_reach.len() >= VIEWS_MAX {
            kept.by_reach.clear();
            kept.version = metadata.version;
        }
        if kept.version == metadata.version {
            kept.by_reach.insert(reach, Arc::clone(&view));
        }
        view
    }
}

/// Refuses commands that reach past a request's scope. Tenants change no metadata by command: their
/// writes make what they need. Who is limited to some names changes only what has such a name.
pub(super) fn check_command(ctx: &RequestContext, command: &Command) -> Result<()> {
    let scope = &ctx.scope;
    if scope.is_unlimited() {
        return Ok(());
    }
    let names = names_of(command);
    let refused: Vec<&str> = match scope.tenant_id() {
        Some(_) => names,
        None if names.is_empty() => vec!["*"],
        None => names.into_iter().filter(|name| !scope.allows_name(name)).collect(),
    };
    match refused.is_empty() && scope.tenant_id().is_none() {
        true => Ok(()),
        false => Err(scope.refusal(ctx.action, &refused.join(","))),
    }
}

/// The names of indices, aliases and data streams that a command changes. None: it is about the node
/// as a whole.
fn names_of(command: &Command) -> Vec<&str> {
    match command {
        Command::CreateIndex { name, .. } | Command::AutoCreate { name, .. } | Command::CreateDataStream { name } => {
            vec![name]
        }
        Command::MountIndex(mount) => vec![&mount.name],
        Command::DeleteIndices { names }
        | Command::SetClosed { names, .. }
        | Command::PutMapping { names, .. }
        | Command::PutSettings { names, .. }
        | Command::DeleteDataStream { names } => names.iter().map(String::as_str).collect(),
        Command::Rollover { target, new_index, .. } => {
            let new_index = new_index.as_deref();
            [target.as_str()].into_iter().chain(new_index).collect()
        }
        Command::UpdateAliases { actions } => actions.iter().flat_map(names_of_action).collect(),
        _ => Vec::new(),
    }
}

fn names_of_action(action: &AliasAction) -> Vec<&str> {
    match action {
        AliasAction::Add { index, alias, .. } | AliasAction::Remove { index, alias, .. } => vec![index, alias],
        AliasAction::RemoveIndex { index } => vec![index],
    }
}
