//! What an endpoint asks of its caller, and the names under which roles grant it.

use firn_model::{Error, ErrorKind, Result};

/// What an endpoint asks of its caller. Every route of the edge has one.
///
/// The first nine concern indices: a role grants them for names, and what the caller then sees is narrowed to
/// those. The others concern the node as a whole. Which of firn's own roles have which:
///
/// | privilege | reader | writer | tenant admin | for |
/// |---|---|---|---|---|
/// | `Any` | yes | yes | yes | what tells nothing about events: `GET /`, who am I |
/// | `Read` | yes | – | yes | documents, searches, aggregations, contexts |
/// | `Write` | – | yes | yes | bulk, index, update, delete; making the index that a write needs |
/// | `ViewMetadata` | yes | yes | yes | mappings, settings, aliases, names |
/// | `MonitorIndices` | yes | – | yes | counts and sizes |
/// | `Refresh` | – | yes | yes | making writes searchable |
/// | `CreateIndex` | – | – | yes | an index or data stream of the tenant's own |
/// | `ManageOwnIndex` | – | – | yes | changing or deleting an index of the tenant's own; of others `Manage` is asked |
/// | `Maintain` | – | – | – | flush and merge, which cost all tenants of an index |
/// | `Manage` | – | – | – | changing or deleting indices, which several tenants share |
/// | `ManageOwnKeys` | – | – | yes | API keys made by the caller |
/// | `ManageTenant` | – | – | yes | users, keys and usage of the caller's tenant |
/// | `Monitor` | – | – | – | the node and everything on it |
/// | `ManageTemplates` | – | – | – | templates, which hold for all tenants |
/// | `ManageApiKeys`, `ManageSecurity` | – | – | – | keys, users and roles of everybody |
/// | `ManageCluster` | – | – | – | settings of the node, tenants, placement |
/// | `ReadIlm`, `ReadSlm` | – | – | – | lifecycle policies of indices, of snapshots |
/// | `ManageIlm`, `ManageSlm` | – | – | – | making and changing those |
/// | `MonitorSnapshot` | – | – | – | what repositories and snapshots there are |
/// | `CreateSnapshot` | – | – | – | making a snapshot |
///
/// Operators have all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table above says what each is for")]
pub enum Privilege {
    Any,
    Read,
    Write,
    ViewMetadata,
    MonitorIndices,
    Refresh,
    CreateIndex,
    ManageOwnIndex,
    Maintain,
    Manage,
    ManageOwnKeys,
    ManageTenant,
    Monitor,
    ManageTemplates,
    ManageApiKeys,
    ManageSecurity,
    ManageCluster,
    ReadIlm,
    ReadSlm,
    ManageIlm,
    ManageSlm,
    MonitorSnapshot,
    CreateSnapshot,
}

use Privilege as P;

impl Privilege {
    /// Whether it is granted for names of indices.
    pub fn is_of_indices(self) -> bool {
        PrivilegeSet::of_indices().contains(self)
    }

    /// Names of privileges that grant it, as errors list them.
    pub(crate) fn granted_by(self) -> Vec<&'static str> {
        let names = if self.is_of_indices() {
            INDEX_NAMES
        } else {
            CLUSTER_NAMES
        };
        names
            .iter()
            .filter(|(_, set)| set.contains(self))
            .map(|(name, _)| *name)
            .collect()
    }
}

/// Several privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrivilegeSet(u32);

impl PrivilegeSet {
    const fn of(privileges: &[Privilege]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < privileges.len() {
            bits |= 1 << privileges[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Every privilege.
    pub const fn all() -> Self {
        Self::of(ALL)
    }

    /// Those that are granted for names of indices.
    pub const fn of_indices() -> Self {
        ALL_OF_INDICES
    }

    /// The most that anybody who belongs to a tenant can have, whatever his roles say.
    pub const fn within_tenant() -> Self {
        Self::of(&[
            P::Any,
            P::Read,
            P::Write,
            P::ViewMetadata,
            P::MonitorIndices,
            P::Refresh,
            P::CreateIndex,
            P::ManageOwnIndex,
            P::ManageOwnKeys,
            P::ManageTenant,
        ])
    }

    /// Whether `privilege` is among them.
    pub const fn contains(self, privilege: Privilege) -> bool {
        self.0 & (1 << privilege as u32) != 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        ALL.iter().copied().filter(move |privilege| self.contains(*privilege))
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The index privilege of this name in Elasticsearch.
    pub fn of_index_name(name: &str) -> Result<Self> {
        Self::named(name, "index", INDEX_NAMES, OTHER_INDEX_NAMES)
    }

    /// The cluster privilege of this name in Elasticsearch.
    pub fn of_cluster_name(name: &str) -> Result<Self> {
        Self::named(name, "cluster", CLUSTER_NAMES, OTHER_CLUSTER_NAMES)
    }

    /// A known name's set. What Elasticsearch has and firn lacks is refused as such: a grant that is
    /// quietly smaller than it reads would be found out in production.
    fn named(name: &str, kind: &str, ours: &[(&'static str, Self)], others: &[&str]) -> Result<Self> {
        if let Some((_, set)) = ours.iter().find(|(candidate, _)| *candidate == name) {
            return Ok(*set);
        }
        if others.contains(&name) {
            return Err(Error::not_implemented(format!("the {kind} privilege [{name}]")));
        }
        let known: Vec<&str> = ours.iter().map(|(name, _)| *name).collect();
        Err(Error::new(
            ErrorKind::IllegalArgument,
            format!(
                "unknown {kind} privilege [{name}]. a privilege must be either one of the predefined {kind} \
                 privileges [{}] or a pattern over one of the available {kind} actions",
                known.join(",")
            ),
        ))
    }
}

const ALL: &[Privilege] = &[
    P::Any,
    P::Read,
    P::Write,
    P::ViewMetadata,
    P::MonitorIndices,
    P::Refresh,
    P::CreateIndex,
    P::ManageOwnIndex,
    P::Maintain,
    P::Manage,
    P::ManageOwnKeys,
    P::ManageTenant,
    P::Monitor,
    P::ManageTemplates,
    P::ManageApiKeys,
    P::ManageSecurity,
    P::ManageCluster,
    P::ReadIlm,
    P::ReadSlm,
    P::ManageIlm,
    P::ManageSlm,
    P::MonitorSnapshot,
    P::CreateSnapshot,
];

const ALL_OF_INDICES: PrivilegeSet = PrivilegeSet::of(&[
    P::Read,
    P::Write,
    P::ViewMetadata,
    P::MonitorIndices,
    P::Refresh,
    P::CreateIndex,
    P::ManageOwnIndex,
    P::Maintain,
    P::Manage,
]);

/// Privileges for names of indices; `refresh` is firn's own, a part of `maintenance`, and so is `manage_own_index`, the
/// part of `manage` that a tenant's admin has.
const INDEX_NAMES: &[(&str, PrivilegeSet)] = &[
    ("read", PrivilegeSet::of(&[P::Read])),
    ("write", PrivilegeSet::of(&[P::Write])),
    ("view_index_metadata", PrivilegeSet::of(&[P::ViewMetadata])),
    ("monitor", PrivilegeSet::of(&[P::MonitorIndices])),
    ("refresh", PrivilegeSet::of(&[P::Refresh])),
    ("maintenance", PrivilegeSet::of(&[P::Refresh, P::Maintain])),
    ("create_index", PrivilegeSet::of(&[P::CreateIndex])),
    ("manage_own_index", PrivilegeSet::of(&[P::ManageOwnIndex])),
    ("auto_configure", PrivilegeSet::of(&[P::CreateIndex])),
    (
        "manage",
        PrivilegeSet::of(&[
            P::ViewMetadata,
            P::MonitorIndices,
            P::Refresh,
            P::CreateIndex,
            P::ManageOwnIndex,
            P::Maintain,
            P::Manage,
        ]),
    ),
    ("none", PrivilegeSet::of(&[])),
    ("all", ALL_OF_INDICES),
];

#[rustfmt::skip]
const OTHER_INDEX_NAMES: &[&str] = &[
    "create", "create_doc", "cross_cluster_replication", "cross_cluster_replication_internal", "delete",
    "delete_index", "index", "manage_data_stream_lifecycle", "manage_failure_store", "manage_follow_index",
    "manage_ilm", "manage_leader_index", "read_cross_cluster", "read_failure_store",
];

/// Privileges for the node as a whole; `manage_tenant` is firn's own, what a tenant's admin has.
const CLUSTER_NAMES: &[(&str, PrivilegeSet)] = &[
    ("manage_own_api_key", PrivilegeSet::of(&[P::ManageOwnKeys])),
    ("manage_tenant", PrivilegeSet::of(&[P::ManageTenant])),
    ("monitor", PrivilegeSet::of(&[P::Monitor, P::ReadIlm, P::ReadSlm])),
    ("read_ilm", PrivilegeSet::of(&[P::ReadIlm])),
    ("read_slm", PrivilegeSet::of(&[P::ReadSlm])),
    ("manage_ilm", PrivilegeSet::of(&[P::ReadIlm, P::ManageIlm])),
    ("manage_slm", PrivilegeSet::of(&[P::ReadSlm, P::ManageSlm])),
    ("monitor_snapshot", PrivilegeSet::of(&[P::MonitorSnapshot])),
    (
        "create_snapshot",
        PrivilegeSet::of(&[P::MonitorSnapshot, P::CreateSnapshot]),
    ),
    ("manage_index_templates", PrivilegeSet::of(&[P::ManageTemplates])),
    (
        "manage_api_key",
        PrivilegeSet::of(&[P::ManageOwnKeys, P::ManageApiKeys]),
    ),
    (
        "manage_security",
        PrivilegeSet::of(&[P::ManageOwnKeys, P::ManageTenant, P::ManageApiKeys, P::ManageSecurity]),
    ),
    (
        "manage",
        PrivilegeSet::of(&[P::Monitor, P::ManageTemplates, P::ManageCluster]).and(LIFECYCLES_AND_SNAPSHOTS),
    ),
    ("none", PrivilegeSet::of(&[])),
    (
        "all",
        PrivilegeSet::of(&[
            P::ManageOwnKeys,
            P::ManageTenant,
            P::Monitor,
            P::ManageTemplates,
            P::ManageApiKeys,
            P::ManageSecurity,
            P::ManageCluster,
        ])
        .and(LIFECYCLES_AND_SNAPSHOTS),
    ),
];

/// What managing the cluster includes.
const LIFECYCLES_AND_SNAPSHOTS: PrivilegeSet = PrivilegeSet::of(&[
    P::ReadIlm,
    P::ReadSlm,
    P::ManageIlm,
    P::ManageSlm,
    P::MonitorSnapshot,
    P::CreateSnapshot,
]);

#[rustfmt::skip]
const OTHER_CLUSTER_NAMES: &[&str] = &[
    "cancel_task", "cross_cluster_replication", "cross_cluster_search", "delegate_pki",
    "grant_api_key", "manage_autoscaling", "manage_behavioral_analytics", "manage_ccr", "manage_connector",
    "manage_data_frame_transforms", "manage_data_stream_global_retention", "manage_enrich",
    "manage_inference", "manage_ingest_pipelines", "manage_logstash_pipelines", "manage_ml", "manage_oidc",
    "manage_pipeline", "manage_rollup", "manage_saml", "manage_search_application", "manage_search_query_rules",
    "manage_search_synonyms", "manage_service_account", "manage_token", "manage_transform",
    "manage_user_profile", "manage_watcher", "monitor_connector", "monitor_data_frame_transforms",
    "monitor_data_stream_global_retention", "monitor_enrich", "monitor_inference", "monitor_ml", "monitor_rollup",
    "monitor_stats", "monitor_text_structure", "monitor_transform", "monitor_watcher",
    "post_behavioral_analytics_event", "read_ccr", "read_connector_secrets", "read_fleet_secrets",
    "read_pipeline", "read_security", "transport_client", "write_connector_secrets",
    "write_fleet_secrets",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_sets() {
        let manage = PrivilegeSet::of_index_name("manage").unwrap();
        assert!(manage.contains(P::Manage) && manage.contains(P::CreateIndex) && !manage.contains(P::Read));
        assert!(ALL.iter().enumerate().all(|(at, privilege)| at == *privilege as usize));
        assert_eq!(PrivilegeSet::of_index_name("all").unwrap(), PrivilegeSet::of_indices());
        assert!(
            PrivilegeSet::of_cluster_name("manage_security")
                .unwrap()
                .contains(P::ManageOwnKeys)
        );
        assert!(
            !PrivilegeSet::of_cluster_name("manage")
                .unwrap()
                .contains(P::ManageSecurity)
        );
    }

    #[test]
    fn roles_of_shippers_and_curators_can_be_made() {
        let set = |names: &[&str]| {
            let sets = names.iter().map(|name| PrivilegeSet::of_cluster_name(name).unwrap());
            sets.fold(PrivilegeSet::default(), PrivilegeSet::and)
        };
        let setup = set(&["monitor", "manage_ilm", "manage_index_templates"]);
        assert!(setup.contains(P::ManageIlm) && setup.contains(P::ManageTemplates) && !setup.contains(P::ManageSlm));
        let reads = set(&["read_ilm", "read_slm"]);
        assert_eq!(reads.iter().collect::<Vec<_>>(), [P::ReadIlm, P::ReadSlm]);
        let curator = set(&["create_snapshot", "manage_slm"]);
        assert!(curator.contains(P::MonitorSnapshot) && curator.contains(P::CreateSnapshot));
        assert!(!curator.contains(P::ManageCluster) && !curator.contains(P::ManageIlm));
        assert!(!set(&["monitor_snapshot"]).contains(P::CreateSnapshot));
        for privilege in LIFECYCLES_AND_SNAPSHOTS.iter() {
            assert!(
                set(&["manage"]).contains(privilege) && set(&["all"]).contains(privilege),
                "{privilege:?}"
            );
        }
    }

    #[test]
    fn what_is_lacking_is_told_from_what_is_unknown() {
        let kind = |name| PrivilegeSet::of_index_name(name).unwrap_err().kind();
        assert_eq!(kind("create_doc"), ErrorKind::NotImplemented);
        assert_eq!(kind("raed"), ErrorKind::IllegalArgument);
    }

    #[test]
    fn no_privilege_of_the_node_is_within_a_tenant() {
        for privilege in [
            P::Monitor,
            P::ManageTemplates,
            P::ManageCluster,
            P::ManageSecurity,
            P::Manage,
            P::Maintain,
            P::ReadIlm,
            P::ReadSlm,
            P::ManageIlm,
            P::ManageSlm,
            P::MonitorSnapshot,
            P::CreateSnapshot,
        ] {
            assert!(!PrivilegeSet::within_tenant().contains(privilege), "{privilege:?}");
        }
    }

    #[test]
    fn errors_name_what_would_have_helped() {
        assert_eq!(P::Read.granted_by(), ["read", "all"]);
        assert_eq!(P::ManageSecurity.granted_by(), ["manage_security", "all"]);
    }
}
