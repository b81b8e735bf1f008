use serde_json::json;

use super::*;

/// Example of the documentation: hot until a day has passed or 50 GB are full, frozen an hour later, deleted after 60
/// days.
fn example() -> Value {
    json!({"phases": {
        "hot": {"actions": {
            "rollover": {"max_age": "24h", "max_primary_shard_size": "50gb"},
            "forcemerge": {"max_num_segments": 1},
        }},
        "frozen": {"min_age": "1h", "actions": {"searchable_snapshot": {"snapshot_repository": "objects"}}},
        "delete": {"min_age": "60d", "actions": {"delete": {}}},
    }})
}

fn keys(policy: &Policy, phase: PhaseName) -> Vec<String> {
    let steps = steps_of(phase, &policy.phases[&phase]);
    steps.iter().map(|key| format!("{}/{}", key.action, key.step)).collect()
}

#[test]
fn the_example_is_read_and_printed_with_defaults() {
    let policy = Policy::parse(&example()).unwrap();
    assert_eq!(
        policy.print(),
        json!({"phases": {
            "hot": {"min_age": "0ms", "actions": {
                "rollover": {"max_primary_shard_size": "50gb", "max_age": "24h"},
                "forcemerge": {"max_num_segments": 1},
            }},
            "frozen": {"min_age": "1h", "actions": {
                "searchable_snapshot": {"snapshot_repository": "objects", "force_merge_index": true},
            }},
            "delete": {"min_age": "60d", "actions": {"delete": {"delete_searchable_snapshot": true}}},
        }})
    );
    assert_eq!(Policy::parse(&policy.print()).unwrap(), policy);
}

#[test]
fn every_action_comes_back() {
    for (phase, kind, body) in [
        ("hot", "set_priority", json!({"priority": 100})),
        ("warm", "set_priority", json!({"priority": null})),
        ("hot", "unfollow", json!({})),
        (
            "hot",
            "rollover",
            json!({"max_size": "1gb", "max_docs": 5, "min_docs": 1}),
        ),
        ("warm", "readonly", json!({})),
        (
            "warm",
            "shrink",
            json!({"number_of_shards": 1, "allow_write_after_shrink": false}),
        ),
        (
            "warm",
            "forcemerge",
            json!({"max_num_segments": 2, "index_codec": "best_compression"}),
        ),
        (
            "cold",
            "allocate",
            json!({"number_of_replicas": 0, "include": {"_tier": "a"}, "exclude": {}, "require": {}}),
        ),
        ("warm", "migrate", json!({"enabled": false})),
        (
            "cold",
            "searchable_snapshot",
            json!({"snapshot_repository": "r", "force_merge_index": false}),
        ),
        ("delete", "wait_for_snapshot", json!({"policy": "nightly"})),
        ("delete", "delete", json!({"delete_searchable_snapshot": false})),
    ] {
        let phase = PhaseName::find(phase).unwrap();
        let action = Action::parse(phase, kind, &body).unwrap();
        assert_eq!((action.kind(), action.print()), (kind, body));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let phases = |phases: Value| json!({"phases": phases});
    let hot = |actions: Value| phases(json!({"hot": {"actions": actions}}));
    let warm = |actions: Value| phases(json!({"warm": {"actions": actions}}));
    let mount = json!({"searchable_snapshot": {"snapshot_repository": "r"}});
    for (policy, reason) in [
        (json!([]), "[policy] must be an object"),
        (json!({"x": 1}), "[policy] unknown field [x]"),
        (phases(json!({"icy": {}})), "does not support phase [icy]"),
        (phases(json!({"hot": {"x": 1}})), "[hot] unknown field [x]"),
        (phases(json!({"hot": {"min_age": "soon"}})), "unit is missing"),
        (
            warm(json!({"rollover": {"max_docs": 1}})),
            "invalid action [rollover] defined in phase [warm]",
        ),
        (warm(json!({"nap": {}})), "invalid action [nap] defined in phase [warm]"),
        (
            warm(json!({"downsample": {"fixed_interval": "1h"}})),
            "[downsample] in phase [warm] is not implemented",
        ),
        (hot(json!({"rollover": {}})), "At least one max_* rollover condition"),
        (
            hot(json!({"rollover": {"min_docs": 1}})),
            "At least one max_* rollover condition",
        ),
        (hot(json!({"rollover": {"max_age": "1 fortnight"}})), "unit is missing"),
        (
            hot(json!({"rollover": {"max_docs": "many"}})),
            "failed to parse field [max_docs]",
        ),
        (
            hot(json!({"forcemerge": {"max_num_segments": 1}})),
            "without an accompanying [rollover]",
        ),
        (json!({}), "Required [phases]"),
        (warm(json!({"forcemerge": {}})), "Required [max_num_segments]"),
        (
            warm(json!({"forcemerge": {"max_num_segments": 0}})),
            "must be a positive integer",
        ),
        (
            warm(json!({"forcemerge": {"max_num_segments": 1, "index_codec": "x"}})),
            "unknown index codec",
        ),
        (warm(json!({"shrink": {}})), "Either [number_of_shards]"),
        (warm(json!({"allocate": {}})), "At least one of include"),
        (warm(json!({"set_priority": {"priority": -1}})), "must be 0 or greater"),
        (warm(json!({"readonly": {"x": 1}})), "[readonly] unknown field [x]"),
        (
            phases(json!({"frozen": {"actions": {}}})),
            "a searchable snapshot action is required",
        ),
        (
            phases(json!({"frozen": {"actions": {"searchable_snapshot": {}}}})),
            "Required [snapshot_repository]",
        ),
        (
            phases(json!({
                "cold": {"actions": mount.clone()},
                "frozen": {"actions": {"searchable_snapshot": {"snapshot_repository": "other"}}},
            })),
            "differing repositories [other, r]",
        ),
        (
            phases(json!({
                "hot": {"actions": {"rollover": {"max_docs": 1}, "searchable_snapshot": {"snapshot_repository": "r"}}},
                "warm": {"actions": {"forcemerge": {"max_num_segments": 1}}},
            })),
            "not allowed after a managed index is mounted",
        ),
        (
            phases(json!({"warm": {"min_age": "2d"}, "delete": {"min_age": "1d", "actions": {"delete": {}}}})),
            "phases [delete] configure a [min_age] value less than",
        ),
    ] {
        let error = Policy::parse(&policy).unwrap_err();
        assert!(error.reason().contains(reason), "{policy}: {error}");
    }
    for name in [
        "",
        ".",
        "..",
        "_x",
        "a,b",
        "a b",
        "a/b",
        "a\\b",
        "a\0b",
        "a\nb",
        &"x".repeat(256),
    ] {
        assert!(validate_policy_name(name).is_err(), "{name}");
    }
    validate_policy_name("60-days").unwrap();
}

#[test]
fn phases_have_elasticsearchs_steps_in_its_order() {
    let policy = Policy::parse(&example()).unwrap();
    assert_eq!(
        keys(&policy, PhaseName::Hot),
        [
            "rollover/check-rollover-ready",
            "rollover/attempt-rollover",
            "rollover/wait-for-active-shards",
            "rollover/update-rollover-lifecycle-date",
            "rollover/set-indexing-complete",
            "forcemerge/check-not-write-index",
            "forcemerge/readonly",
            "forcemerge/forcemerge",
            "forcemerge/segment-count",
        ]
    );
    assert_eq!(
        keys(&policy, PhaseName::Delete),
        ["delete/cleanup-snapshot", "delete/delete"]
    );
    let tiers = json!({"phases": {
        "warm": {"actions": {"forcemerge": {"max_num_segments": 1}, "readonly": {}}},
        "cold": {"actions": {"allocate": {"include": {"box": "a"}}}},
    }});
    let policy = Policy::parse(&tiers).unwrap();
    let warm = keys(&policy, PhaseName::Warm);
    assert_eq!(
        warm[1..5],
        [
            "readonly/readonly",
            "migrate/migrate",
            "migrate/check-migration",
            "forcemerge/check-not-write-index"
        ]
    );
    assert_eq!(
        keys(&policy, PhaseName::Cold),
        ["allocate/allocate", "allocate/check-allocation"],
        "rules say where it goes"
    );
}

#[test]
fn steps_follow_each_other() {
    let policy = Policy::parse(&example()).unwrap();
    let steps = steps_of(PhaseName::Delete, &policy.phases[&PhaseName::Delete]);
    assert_eq!(step_after(&steps, &steps[0]), Some(steps[1].clone()));
    assert_eq!(step_after(&steps, &steps[1]), Some(StepKey::complete("delete")));
    assert_eq!(step_after(&steps, &StepKey::new("delete", "x", "y")), None);
    let hot = &policy.phases[&PhaseName::Hot];
    let first = |action, step| first_of(PhaseName::Hot, hot, action, step).map(|key| key.step);
    assert_eq!(first(None, None).as_deref(), Some("check-rollover-ready"));
    assert_eq!(
        first(Some("forcemerge"), None).as_deref(),
        Some("check-not-write-index")
    );
    assert_eq!(
        first(Some("forcemerge"), Some("forcemerge")).as_deref(),
        Some("forcemerge")
    );
    assert_eq!(first(Some("rollover"), Some("forcemerge")), None);
    assert_eq!(policy.phase_after(None).unwrap().0, PhaseName::Hot);
    assert_eq!(policy.phase_after(Some(PhaseName::Hot)).unwrap().0, PhaseName::Frozen);
    assert_eq!(policy.phase_after(Some(PhaseName::Delete)), None);
}

#[test]
fn an_execution_comes_back_and_knows_when_it_came_where() {
    let policy = Policy::parse(&example()).unwrap();
    let stored = StoredPolicy {
        policy,
        version: 3,
        modified_ms: 5,
    };
    assert_eq!(StoredPolicy::from_json(&stored.to_json()).unwrap(), stored);
    let fresh = Execution::new(100, 110);
    let hot = Execution {
        phase: stored.definition("example", PhaseName::Hot),
        ..fresh
            .clone()
            .at(StepKey::new("hot", "rollover", "check-rollover-ready"), 120)
    };
    let next = hot.clone().at(StepKey::new("hot", "rollover", "attempt-rollover"), 130);
    assert_eq!((next.phase_ms, next.action_ms, next.step_ms), (120, 120, 130));
    let failed = next.clone().failed(json!({"type": "t", "reason": "r"}), 140);
    assert_eq!(
        (failed.key.step.as_str(), failed.failed_step.as_deref()),
        (ERROR, Some("attempt-rollover"))
    );
    let again = failed.clone().tried_again(150);
    assert_eq!((&again.key, again.retries, again.step_ms), (&next.key, 1, 150));
    assert_eq!(again.step_info, None, "that was about the try before");
    assert_eq!(again.previous_step_info, failed.step_info);
    let done = again
        .clone()
        .at(StepKey::new("hot", "rollover", "update-rollover"), 160);
    assert_eq!(done.previous_step_info, None);
    for execution in [fresh, hot, next, failed, again, done] {
        assert_eq!(Execution::from_json(&execution.to_json()).unwrap(), execution);
    }
}
