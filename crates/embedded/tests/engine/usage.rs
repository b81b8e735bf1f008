//! Tests of the usage of tenants by tier.

use firn_engine::mounts::Storage;
use firn_engine::{Engine, StoredByTier};
use firn_model::metadata::Command;
use serde_json::json;

use crate::mounts::{mount_as, node_of, reopened, shards};
use crate::node::{Node, add, ctx};
use crate::snapshots::snapshot;

fn usage(node: &Node, tenant: &str) -> (u64, StoredByTier) {
    let all = node.run(node.engine.tenant_usage(&ctx())).unwrap().require().unwrap();
    let own = all.iter().find(|usage| &*usage.tenant == tenant);
    own.map(|usage| (usage.stored_bytes, usage.by_tier)).unwrap_or_default()
}

#[test]
fn bytes_of_tenants_are_counted_by_tier() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_of(folder.path());
    node.create("logs", json!({"settings": {"index.tenant.field": "tenant"}}))
        .unwrap();
    let tenants = ["a", "a", "a", "b"].into_iter().cycle().take(400);
    let events = tenants.map(|tenant| add("logs", json!({"tenant": tenant, "text": "some words"})));
    for response in node.bulk(events.collect()) {
        response.result.unwrap();
    }
    node.flush("logs");
    node.refresh("logs");
    let (written, of_a) = usage(&node, "a");
    assert!(written > 0);
    let hot = StoredByTier {
        hot: written,
        ..StoredByTier::default()
    };
    assert_eq!(of_a, hot);

    snapshot(&node, "first", "logs").unwrap();
    for name in ["frozen", "again"] {
        mount_as(&node, name, Storage::SharedCache).unwrap();
    }
    let splits: u64 = shards(&node, "frozen")
        .iter()
        .filter_map(|shard| shard.splits)
        .map(|splits| splits.bytes)
        .sum();
    let frozen = splits * 3 / 4;
    let (_, of_a) = usage(&node, "a");
    assert_eq!(
        of_a,
        StoredByTier { frozen, ..hot },
        "once, however often it is mounted"
    );
    mount_as(&node, "cold", Storage::FullCopy).unwrap();
    let expected = StoredByTier {
        frozen,
        cold: frozen,
        ..hot
    };
    assert_eq!(usage(&node, "a"), (written, expected));
    assert_eq!(usage(&node, "b").1.frozen, splits / 4);
    assert_eq!(
        (expected.local(), expected.total()),
        (written + frozen, written + 2 * frozen)
    );

    // It is known after a restart, before the first search, and without the repository.
    std::fs::remove_dir_all(folder.path().join("backups")).unwrap();
    let node = reopened(node, folder.path());
    assert_eq!(usage(&node, "a"), (written, expected));
    let names = ["logs", "cold"].map(str::to_owned).into();
    node.execute(Command::DeleteIndices { names }).unwrap();
    let rest = StoredByTier {
        frozen,
        ..StoredByTier::default()
    };
    assert_eq!(usage(&node, "a"), (0, rest));
}
