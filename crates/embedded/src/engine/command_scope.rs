//! Commands as executed in the scope of a request.

use firn_engine::{RequestContext, Scope};
use firn_model::metadata::{AliasAction, Command};
use firn_model::names::{known_as, resolve_date_math};
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};

use super::commands::CommandService;

impl CommandService {
    /// Returns a command as executed in a request's scope, or refuses it if it exceeds the scope. Tenants create,
    /// change and delete their indices, and change nothing else by command. A caller limited to some names changes only
    /// objects with such names.
    pub(super) fn command_of(&self, ctx: &RequestContext, command: Command) -> Result<Command> {
        let scope = &ctx.scope;
        if scope.is_unlimited() {
            return Ok(command);
        }
        let names = names_of(&command);
        let refused: Vec<&str> = match scope.tenant_id() {
            Some(tenant) => {
                if let Some(own) = self.own_command(scope, tenant, &command)? {
                    return Ok(own);
                }
                names
            }
            None if names.is_empty() => vec!["*"],
            None => names.into_iter().filter(|name| !scope.allows_name(name)).collect(),
        };
        match refused.is_empty() && scope.tenant_id().is_none() {
            true => Ok(command),
            false => Err(scope.refusal(ctx.action, &refused.join(","))),
        }
    }

    /// Returns a tenant's command about the tenant's indices; `None`: it is about something else.
    fn own_command(&self, scope: &Scope, tenant: &TenantId, command: &Command) -> Result<Option<Command>> {
        let state = self.node.state();
        let view = self.node.view(&state, scope);
        let is_own = |name: &String| {
            let index = view.indices.get(name);
            index.is_some_and(|index| index.name_of_owner(tenant).is_some())
        };
        Ok(match command {
            Command::CreateIndex {
                name,
                settings,
                mappings,
                aliases,
            } => {
                let made = resolve_date_math(name, self.node.now_ms())?;
                let called = known_as(tenant, &made).unwrap_or(&made).to_owned();
                let is_named = view.indices.with_alias(&called).any(|index| is_own(&index.name));
                let is_shared = view.has_name(&called) && !is_named;
                if is_shared || !scope.allows_name(&called) {
                    return Ok(None);
                }
                if aliases
                    .as_ref()
                    .and_then(|aliases| aliases.as_object())
                    .is_some_and(|aliases| !aliases.is_empty())
                {
                    return Err(Error::illegal_argument(
                        "[aliases] are for operators: all tenants share their names",
                    ));
                }
                Some(Command::CreateOwnIndex {
                    name: called,
                    tenant: tenant.clone(),
                    settings: settings.clone(),
                    mappings: mappings.clone(),
                })
            }
            // The list is empty if all names are missing and may be missing.
            Command::DeleteIndices { names } | Command::PutMapping { names, .. } if names.iter().all(is_own) => {
                Some(command.clone())
            }
            _ => None,
        })
    }
}

/// Returns the names of indices, aliases and data streams that a command changes. Empty: the command changes the node
/// as a whole.
fn names_of(command: &Command) -> Vec<&str> {
    match command {
        Command::CreateIndex { name, .. }
        | Command::CreateOwnIndex { name, .. }
        | Command::AutoCreate { name, .. }
        | Command::CreateDataStream { name } => vec![name],
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
