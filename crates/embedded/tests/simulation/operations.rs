//! Operations of a run on written indices.

use bytes::Bytes;
use firn_engine::admin::{ForceMergeRequest, PurgeRequest};
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::{Engine as _, ErrorKind, Result};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use serde_json::{Value, json};

use crate::model::{Docs, Index, Kind, Presence};
use crate::node::{ctx, target};
use crate::run::Run;

/// Number of event ids; few, so that events are replaced and removed.
const IDS: u64 = 12;
const TENANTS: u64 = 3;
const TEMPLATES: u64 = 4;

/// Item of a bulk, and its effect on the model.
struct Item {
    item: BulkItem,
    key: String,
    value: Option<u64>,
}

impl Run<'_> {
    fn event(&mut self, key: &str, tenant: Option<u64>) -> (Bytes, u64) {
        let n = self.fresh();
        let mut source = json!({
            "key": key, "n": n, "@timestamp": 1_767_225_600_000_i64 + n as i64 * 1000,
            "text": format!("event {n} of {}", n % 5),
            // A new field causes a transaction of the catalog.
            format!("field-{}", n % 9): n,
        });
        if let Some(tenant) = tenant {
            source["tenant"] = format!("t{tenant}").into();
        }
        (Bytes::from(source.to_string()), n)
    }

    fn item(&mut self, index: &str, is_shared: bool) -> Item {
        if is_shared {
            let tenant = self.random.u64(0..TENANTS);
            let key = format!("t{tenant}-{}", self.random.u64(..));
            let (source, n) = self.event(&key, Some(tenant));
            return Item {
                item: bulk_item(index, None, Operation::Create { source }),
                key,
                value: Some(n),
            };
        }
        let key = format!("id-{}", self.random.u64(0..IDS));
        let (operation, value) = match self.random.u8(0..6) {
            0 => (Operation::Delete, None),
            kind => {
                let (source, n) = self.event(&key, None);
                match kind {
                    1 => (Operation::Create { source }, Some(n)),
                    _ => (Operation::Index { source }, Some(n)),
                }
            }
        };
        Item {
            item: bulk_item(index, Some(&key), operation),
            key,
            value,
        }
    }

    /// Writes some items to an index that takes writes.
    pub(crate) fn write(&mut self) {
        let Some(index) = self.pick(|index| index.kind == Kind::Written) else {
            return;
        };
        let is_shared = self.model.indices[&index].is_shared;
        let count = self.random.usize(1..8);
        let items: Vec<Item> = (0..count).map(|_| self.item(&index, is_shared)).collect();
        let request = BulkRequest {
            items: items.iter().map(|item| item.item.clone()).collect(),
            refresh: Refresh::No,
            timeout: None,
            origin: None,
        };
        let response = self.node().run(self.node().engine.bulk(&ctx(), request));
        let results: Vec<std::result::Result<(), ErrorKind>> = match &response {
            Ok(response) => response
                .items
                .iter()
                .map(|item| item.result.as_ref().map(|_| ()).map_err(|error| error.kind()))
                .collect(),
            Err(error) => vec![Err(error.kind()); count],
        };
        let is_down = self.is_down();
        let writes: Vec<String> = items
            .iter()
            .zip(&results)
            .map(|(item, result)| format!("{}={:?} {result:?}", item.key, item.value))
            .collect();
        self.journal.record(format!("write {index}: {}", writes.join(", ")));
        let Some(index) = self.model.indices.get_mut(&index) else {
            return;
        };
        for (item, result) in items.into_iter().zip(results) {
            match result {
                Ok(()) if !is_down => index.docs.set(&item.key, item.value),
                // The item was checked and refused.
                Err(ErrorKind::VersionConflict | ErrorKind::DocumentMissing) => {}
                _ => index.docs.maybe(&item.key, item.value),
            }
        }
    }

    pub(crate) fn refresh(&mut self) {
        let outcome = self.node().run(self.node().engine.refresh(&ctx(), target("*")));
        self.note("refresh", &outcome.map(|outcome| outcome.failures.len()));
    }

    pub(crate) fn flush(&mut self) {
        let outcome = self.node().run(self.node().engine.flush(&ctx(), target("*")));
        self.note("flush", &outcome.map(|outcome| outcome.failures.len()));
    }

    pub(crate) fn merge(&mut self) {
        let request = ForceMergeRequest {
            target: target("*"),
            max_num_segments: Some(self.random.usize(1..3)),
            only_expunge_deletes: self.random.u8(0..4) == 0,
            flush: self.random.bool(),
        };
        let outcome = self.node().run(self.node().engine.force_merge(&ctx(), request));
        self.note("merge", &outcome.map(|outcome| outcome.failures.len()));
    }

    /// Creates an index that takes writes.
    pub(crate) fn create_index(&mut self, is_shared: bool) -> Result<()> {
        let name = format!("{}-{}", if is_shared { "shared" } else { "events" }, self.fresh());
        let mut settings = json!({"index.number_of_shards": self.random.u32(1..3)});
        if is_shared {
            settings["index.tenant.field"] = "tenant".into();
        }
        let command = Command::CreateIndex {
            name: name.clone(),
            settings,
            mappings: Some(json!({"properties": {"text": {"type": "text"}, "tenant": {"type": "keyword"}}})),
            aliases: None,
        };
        let outcome = self.node().execute(command);
        let index = Index {
            docs: Docs::default(),
            presence: self.presence_of(&outcome),
            kind: Kind::Written,
            is_shared,
        };
        self.note(&format!("create {name}"), &outcome.as_ref().map(|_| ()));
        self.model.indices.insert(name, index);
        outcome.map(drop)
    }

    pub(crate) fn delete_index(&mut self) {
        // Some indices always stay.
        if self.model.indices.len() < 4 {
            return;
        }
        let Some(name) = self.pick(|_| true) else { return };
        let outcome = self.node().execute(Command::DeleteIndices {
            names: vec![name.clone()],
        });
        let is_certain = self.presence_of(&outcome) == Presence::Certain;
        self.note(&format!("delete {name}"), &outcome.map(drop));
        self.model.drop_index(&name, is_certain);
    }

    /// Causes a transaction of the catalog and nothing else.
    pub(crate) fn put_template(&mut self) {
        let (name, version) = (format!("template-{}", self.random.u64(0..TEMPLATES)), self.fresh());
        let command = Command::PutIndexTemplate {
            name: name.clone(),
            body: json!({
                "index_patterns": [format!("{name}-*")], "version": version,
                "_meta": {"pad": "x".repeat(self.random.usize(0..3000))},
            }),
            create: false,
        };
        let outcome = self.node().execute(command);
        match self.presence_of(&outcome) {
            Presence::Certain => self.model.templates.set(&name, Some(version)),
            Presence::Doubtful => self.model.templates.maybe(&name, Some(version)),
        }
        self.note(&format!("template {name}={version}"), &outcome.map(drop));
    }

    /// Removes the events of a tenant, from indices and then from snapshots.
    pub(crate) fn delete_tenant(&mut self) {
        let tenant = format!("t{}", self.random.u64(0..TENANTS));
        let prefix = format!("{tenant}-");
        let id = TenantId::parse(&tenant).expect("a name");
        let outcome = self.node().run(
            self.node()
                .engine
                .purge_tenant(&ctx(), PurgeRequest::all_of(id.clone())),
        );
        let is_done = !self.is_down() && outcome.as_ref().is_ok_and(|outcome| outcome.is_complete());
        self.note(
            &format!("purge {tenant}"),
            &outcome.map(|outcome| outcome.shards.failures),
        );
        let written = self.model.indices.values_mut();
        for index in written.filter(|index| index.is_shared && !matches!(index.kind, Kind::Mounted(_))) {
            // For an index that may be gone, nothing is certain.
            index.docs.remove(&prefix, is_done);
        }
        if !is_done {
            return;
        }
        for name in self.model.snapshot_names() {
            if self.is_down() {
                return;
            }
            if !self.model.snapshots[&name]
                .indices
                .values()
                .any(|(_, is_shared)| *is_shared)
            {
                continue;
            }
            self.remove_from_snapshot(&id, &prefix, &name);
        }
    }

    fn remove_from_snapshot(&mut self, id: &TenantId, prefix: &str, name: &str) {
        let engine = &self.node().engine;
        let outcome = self
            .node()
            .run(firn_engine::snapshot::SnapshotErasure::remove_tenant_from_snapshot(
                &**engine,
                &ctx(),
                id,
                "r",
                name,
            ));
        let is_done = !self.is_down() && outcome.is_ok();
        self.note(&format!("rewrite {name}"), &outcome);
        if let Some(snapshot) = self.model.snapshots.get_mut(name) {
            for (docs, _) in snapshot.indices.values_mut().filter(|(_, is_shared)| *is_shared) {
                docs.remove(prefix, is_done);
            }
        }
        let of_it = Kind::Mounted(name.to_owned());
        let mounts = self.model.indices.values_mut();
        for index in mounts.filter(|index| index.is_shared && index.kind == of_it) {
            index.docs.remove(prefix, is_done);
        }
    }
}

pub(crate) fn bulk_item(index: &str, id: Option<&str>, operation: Operation) -> BulkItem {
    BulkItem {
        index: index.to_owned(),
        id: id.map(str::to_owned),
        routing: None,
        operation,
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    }
}

/// Returns the version in a template.
pub(crate) fn version_of(template: &Value) -> u64 {
    template["version"].as_u64().unwrap_or_default()
}
