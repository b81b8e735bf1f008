use super::*;
use crate::repository::RepositoryMetadata;
use crate::slm::Invocation;

fn slm(command: SlmCommand) -> Command {
    Command::Slm(command)
}

fn repository(name: &str) -> Command {
    Command::PutRepository {
        name: name.to_owned(),
        repository: RepositoryMetadata {
            kind: "fs".to_owned(),
            ..RepositoryMetadata::default()
        },
    }
}

fn put(id: &str) -> Command {
    slm(SlmCommand::PutPolicy {
        id: id.to_owned(),
        policy: json!({
            "schedule": "0 30 1 * * ?",
            "name": "<nightly-{now/d}>",
            "repository": "objects",
            "config": {"indices": ["a", "b-*"], "include_global_state": false, "metadata": {"who": "ann"}},
            "retention": {"expire_after": "30d", "min_count": 5, "max_count": 50},
        }),
    })
}

#[test]
fn a_policy_counts_what_it_has_done() {
    let mut world = World::new();
    world.refused(
        put("nightly"),
        ErrorKind::IllegalArgument,
        "no such repository [objects]",
    );
    world.ok(repository("objects"));
    world.ok(put("nightly"));
    let stored = |world: &World| Arc::clone(&world.metadata.slm.by_id["nightly"]);
    let policy = stored(&world).policy.clone();
    assert_eq!(
        crate::slm::SnapshotPolicy::parse("nightly", &policy.print()).unwrap(),
        policy
    );
    let config = policy.config.unwrap();
    assert_eq!(
        (config.indices.len(), config.include_global_state, config.partial),
        (2, false, false)
    );
    let begin = slm(SlmCommand::Begin {
        id: "nightly".to_owned(),
        snapshot: "nightly-1".to_owned(),
    });
    world.ok(begin.clone());
    world.refused(
        begin,
        ErrorKind::Conflict,
        "policy [nightly] is already creating snapshot [nightly-1]",
    );
    let end = |details: Option<&str>| {
        slm(SlmCommand::End {
            id: "nightly".to_owned(),
            invocation: Invocation {
                snapshot: "nightly-1".to_owned(),
                start_ms: NOW_MS,
                end_ms: NOW_MS + 5,
                details: details.map(str::to_owned),
            },
        })
    };
    world.ok(end(None));
    world.ok(end(Some("the store is gone")));
    world.ok(slm(SlmCommand::NoteRetention {
        removed: vec![("nightly".to_owned(), 3, 1), ("gone".to_owned(), 1, 0)],
        took_ms: 7,
    }));
    world.ok(put("nightly"));
    let stored = stored(&world);
    assert_eq!((stored.version, stored.running.clone()), (2, None), "what it did stays");
    let stats = stored.stats;
    assert_eq!(
        (stats.taken, stats.failed, stats.deleted, stats.deletion_failures),
        (1, 1, 3, 1)
    );
    let retention = world.metadata.slm.retention;
    assert_eq!((retention.runs, retention.failed, retention.deletion_ms), (1, 1, 7));
    let delete = slm(SlmCommand::DeletePolicy {
        id: "nightly".to_owned(),
    });
    world.ok(delete.clone());
    world.refused(
        delete,
        ErrorKind::ResourceNotFound,
        "snapshot lifecycle policy or policies [nightly] not found",
    );
    assert!(!world.run(end(None)).unwrap().changed);
}

#[test]
fn policies_that_make_no_sense_are_refused() {
    let mut world = World::new();
    world.ok(repository("objects"));
    let good = json!({"schedule": "30m", "name": "s", "repository": "objects"});
    for (id, change, reason) in [
        ("_x", json!({}), "must not start with '_'"),
        ("a b", json!({}), "must not contain"),
        ("p", json!({"schedule": "often"}), "invalid schedule [often]"),
        ("p", json!({"schedule": "14m"}), "executing more than every [15m]"),
        (
            "p",
            json!({"schedule": "* * * * * ?"}),
            "executing more than every [15m]",
        ),
        ("p", json!({"schedule": null}), "Required [schedule]"),
        ("p", json!({"name": "A B"}), "A B"),
        ("p", json!({"x": 1}), "unknown field [x]"),
        ("p", json!({"config": {"x": 1}}), "[config] [x] cannot be"),
        ("p", json!({"config": {"partial": 1}}), "[config] [partial] cannot be"),
        ("p", json!({"retention": {"min_count": 0}}), "must be at least 1"),
    ] {
        let mut policy = good.clone();
        for (key, value) in change.as_object().unwrap() {
            policy[key] = value.clone();
        }
        let id = id.to_owned();
        let error = world.run(slm(SlmCommand::PutPolicy { id, policy })).unwrap_err();
        assert!(error.reason().contains(reason), "{change}: {error}");
    }
}
