use super::*;
use crate::ilm::{Execution, OperationMode, PhaseName, StepKey, steps_of};

fn put(name: &str, phases: Value) -> Command {
    Command::Ilm(IlmCommand::PutPolicy {
        name: name.to_owned(),
        policy: json!({"phases": phases}),
    })
}

fn managed(world: &mut World, name: &str, settings: Value) {
    world.ok(Command::CreateIndex {
        name: name.to_owned(),
        settings,
        mappings: None,
        aliases: None,
    });
}

fn advance(world: &World, index: &str, to: Execution) -> Command {
    let index = world.index(index);
    Command::Ilm(IlmCommand::Advance {
        index: index.name.clone(),
        uuid: index.uuid.clone(),
        from: index.execution.as_ref().map(|execution| execution.key.clone()),
        to: Box::new(to),
    })
}

/// An index at the first step of a phase.
fn within(world: &World, index: &str, policy: &str, phase: PhaseName) -> Execution {
    let stored = &world.metadata.ilm.by_name[policy];
    let first = steps_of(phase, &stored.policy.phases[&phase]).remove(0);
    Execution {
        phase: stored.definition(policy, phase),
        ..Execution::new(world.index(index).created_ms, NOW_MS).at(first, NOW_MS)
    }
}

#[test]
fn policies_are_counted_and_cannot_be_deleted_while_in_use() {
    let mut world = World::new();
    let phases = json!({"delete": {"min_age": "1d", "actions": {"delete": {}}}});
    world.ok(put("short", phases.clone()));
    assert!(!world.ok(put("short", phases)).changed, "the same again");
    assert_eq!(world.metadata.ilm.by_name["short"].version, 1);
    world.ok(put(
        "short",
        json!({"delete": {"min_age": "2d", "actions": {"delete": {}}}}),
    ));
    assert_eq!(world.metadata.ilm.by_name["short"].version, 2);
    managed(&mut world, "logs", json!({"index.lifecycle.name": "short"}));
    let delete = |name: &str| Command::Ilm(IlmCommand::DeletePolicy { name: name.to_owned() });
    world.refused(
        delete("short"),
        ErrorKind::IllegalArgument,
        "Cannot delete policy [short]. It is in use by one or more indices: [logs]",
    );
    world.ok(Command::Ilm(IlmCommand::Remove {
        names: vec!["logs".to_owned()],
    }));
    assert_eq!(world.index("logs").lifecycle_policy(), None);
    world.ok(delete("short"));
    world.refused(
        delete("short"),
        ErrorKind::ResourceNotFound,
        "Lifecycle policy not found: short",
    );
    let stop = Command::Ilm(IlmCommand::SetMode {
        mode: OperationMode::Stopping,
    });
    assert!(world.ok(stop.clone()).changed);
    assert!(!world.ok(stop).changed);
}

#[test]
fn a_running_phase_changes_only_if_its_steps_stay() {
    let mut world = World::new();
    world.ok(put(
        "p",
        json!({"warm": {"actions": {"set_priority": {"priority": 1}}}}),
    ));
    managed(&mut world, "logs", json!({"index.lifecycle.name": "p"}));
    let to = within(&world, "logs", "p", PhaseName::Warm);
    world.ok(advance(&world, "logs", to));
    let running = |world: &World| {
        let execution = world.index("logs").execution.clone().unwrap();
        execution.phase.clone().unwrap()
    };
    world.ok(put(
        "p",
        json!({"warm": {"actions": {"set_priority": {"priority": 2}}}}),
    ));
    assert_eq!(
        (
            running(&world).version,
            running(&world).phase.print()["actions"]["set_priority"]["priority"].clone()
        ),
        (2, json!(2))
    );
    world.ok(put("p", json!({"warm": {"actions": {"readonly": {}}}})));
    assert_eq!(running(&world).version, 2, "it ends as it began");
}

#[test]
fn an_index_goes_on_only_from_where_it_is() {
    let mut world = World::new();
    world.ok(put(
        "p",
        json!({"delete": {"min_age": "1d", "actions": {"delete": {}}}}),
    ));
    managed(&mut world, "logs", json!({"index.lifecycle.name": "p"}));
    let first = advance(&world, "logs", Execution::new(NOW_MS, NOW_MS));
    world.ok(first.clone());
    world.refused(
        first,
        ErrorKind::Conflict,
        "index [logs] has moved to another lifecycle step in the meantime",
    );
    let to = |current: StepKey, phase: &str, action: Option<&str>, step: Option<&str>| {
        Command::Ilm(IlmCommand::Move {
            index: "logs".to_owned(),
            current,
            phase: phase.to_owned(),
            action: action.map(str::to_owned),
            step: step.map(str::to_owned),
        })
    };
    let new = StepKey::complete("new");
    world.refused(
        to(StepKey::complete("hot"), "delete", None, None),
        ErrorKind::IllegalArgument,
        "index [logs] is not on current step [{\"phase\":\"hot\",\"action\":\"complete\",\"name\":\"complete\"}], \
         currently: [{\"phase\":\"new\",\"action\":\"complete\",\"name\":\"complete\"}]",
    );
    for (phase, action, step) in [
        ("warm", None, None),
        ("delete", Some("shrink"), None),
        ("new", Some("x"), None),
    ] {
        let error = world.run(to(new.clone(), phase, action, step)).unwrap_err();
        assert!(error.reason().ends_with("with policy [p] does not exist"), "{error}");
    }
    world.ok(to(new, "delete", Some("delete"), Some("delete")));
    let execution = world.index("logs").execution.clone().unwrap();
    assert_eq!(execution.key, StepKey::new("delete", "delete", "delete"));
    assert!(execution.phase.is_some());

    let retry = Command::Ilm(IlmCommand::Retry {
        names: vec!["logs".to_owned()],
    });
    let error = world.run(retry.clone()).unwrap_err();
    assert!(error.reason().contains("that has not encountered an error"), "{error}");
    let failed = Execution::clone(&execution).failed(json!({"reason": "r"}), NOW_MS);
    world.ok(advance(&world, "logs", failed));
    world.ok(retry);
    assert_eq!(world.index("logs").execution.as_ref().unwrap().key, execution.key);
}

#[test]
fn the_age_counts_from_what_the_settings_say() {
    let mut world = World::new();
    managed(&mut world, "plain", json!({}));
    managed(&mut world, "given", json!({"index.lifecycle.origination_date": 5}));
    let parsed = json!({"index.lifecycle.parse_origination_date": true});
    managed(&mut world, "logs-2025.12.31-000007", parsed.clone());
    managed(&mut world, "logs-2025.12.30", parsed.clone());
    let age = |name: &str| world.index(name).origination_ms();
    assert_eq!(age("plain"), Some(NOW_MS));
    assert_eq!(age("given"), Some(5));
    assert_eq!(age("logs-2025.12.31-000007"), Some(NOW_MS - DAY_MS));
    assert_eq!(age("logs-2025.12.30"), Some(NOW_MS - 2 * DAY_MS));
    let nameless = |settings: Value| Command::CreateIndex {
        name: "nameless".to_owned(),
        settings,
        mappings: None,
        aliases: None,
    };
    let error = world.run(nameless(parsed)).unwrap_err();
    assert!(error.reason().contains("[nameless] has no date"), "{error}");
    world.ok(nameless(json!({
        "index.lifecycle.parse_origination_date": true,
        "index.lifecycle.origination_date": 7,
    })));
    assert_eq!(world.index("nameless").origination_ms(), Some(7));
}

#[test]
fn another_index_takes_a_place_in_one_step() {
    let mut world = World::new();
    world.ok(put("p", json!({"delete": {"actions": {"delete": {}}}})));
    world.ok(Command::PutIndexTemplate {
        name: "t".to_owned(),
        body: json!({
            "index_patterns": ["s"],
            "data_stream": {},
            "template": {"settings": {"index.lifecycle.name": "p"}},
        }),
        create: false,
    });
    world.ok(Command::CreateDataStream { name: "s".to_owned() });
    let old = world.metadata.data_streams["s"].indices[0].clone();
    managed(&mut world, "partial-old", json!({}));
    let replace = Command::Ilm(IlmCommand::Replace {
        old: old.clone(),
        new: "partial-old".to_owned(),
        to: Box::new(Execution::new(NOW_MS, NOW_MS)),
    });
    let error = world.run(replace.clone()).unwrap_err();
    assert!(
        error.reason().contains("is the write index for data stream [s]"),
        "{error}"
    );
    world.now_ms += 1000;
    world.ok(Command::Rollover {
        target: "s".to_owned(),
        new_index: None,
        conditions: Default::default(),
        body: Value::Null,
        dry_run: false,
        facts: RolloverFacts::default(),
    });
    world.ok(replace);
    let stream = &world.metadata.data_streams["s"];
    assert_eq!((stream.indices[0].as_str(), stream.indices.len()), ("partial-old", 2));
    assert!(!world.metadata.indices.contains_key(&old));
    let new = world.index("partial-old");
    assert_eq!(new.rolled_over_ms, Some(NOW_MS + 1000));
    assert_eq!(
        (new.created_ms, new.lifecycle_policy(), new.settings.hidden),
        (NOW_MS, Some("p"), true)
    );
    assert_eq!(new.data_stream.as_deref(), Some("s"));

    world.ok(Command::CreateIndex {
        name: "logs-000001".to_owned(),
        settings: json!({"index.lifecycle.origination_date": 5}),
        mappings: None,
        aliases: Some(json!({"logs": {"is_write_index": false}})),
    });
    managed(&mut world, "partial-logs-000001", json!({}));
    world.ok(Command::Ilm(IlmCommand::Replace {
        old: "logs-000001".to_owned(),
        new: "partial-logs-000001".to_owned(),
        to: Box::new(Execution::new(NOW_MS, NOW_MS)),
    }));
    let new = world.index("partial-logs-000001");
    assert_eq!(new.lifecycle_ms(), 5);
    let aliases: Vec<&str> = new.aliases.keys().map(String::as_str).collect();
    assert_eq!(aliases, ["logs", "logs-000001"]);
    assert_eq!(new.aliases["logs"].is_write_index, None);
}
