use super::*;

fn put(id: &str, body: Value, if_version: Option<i64>) -> Command {
    let Value::Object(body) = body else {
        panic!("not an object: {body}")
    };
    let id = id.to_owned();
    Command::Ingest(IngestCommand::PutPipeline { id, body, if_version })
}

fn delete(id: &str) -> Command {
    Command::Ingest(IngestCommand::DeletePipelines { id: id.to_owned() })
}

#[test]
fn pipelines_are_replaced_by_version() {
    let mut world = World::new();
    let body = |version: i64| json!({"version": version, "processors": []});
    let conflict = ErrorKind::IllegalArgument;
    world.refused(
        put("p", body(1), Some(1)),
        conflict,
        "version conflict, required version [1] for pipeline [p] but no pipeline was found",
    );
    assert!(world.ok(put("p", body(1), None)).changed);
    assert!(!world.ok(put("p", body(1), None)).changed);
    world.refused(
        put("p", body(3), Some(2)),
        conflict,
        "version conflict, required version [2] for pipeline [p] but current version is [1]",
    );
    world.refused(
        put("p", body(1), Some(1)),
        conflict,
        "cannot update pipeline [p] with the same version [1]",
    );
    world.ok(put("p", json!({"processors": []}), Some(1)));
    assert_eq!(world.metadata.ingest.by_id["p"]["version"], 2);
    world.refused(
        put("a*", body(1), None),
        ErrorKind::IllegalArgument,
        "the id [a*] of a pipeline must not contain [*]",
    );
    let long = "x".repeat(256);
    assert!(world.run(put(&long, body(1), None)).is_err());
}

#[test]
fn pipelines_are_deleted_unless_an_index_uses_them() {
    let mut world = World::new();
    for id in ["p", "q-1", "q-2"] {
        world.ok(put(id, json!({"processors": []}), None));
    }
    world.ok(Command::CreateIndex {
        name: "i".to_owned(),
        settings: json!({"default_pipeline": "p", "final_pipeline": "q-1"}),
        mappings: None,
        aliases: None,
    });
    let ids = |world: &World| world.metadata.ingest.by_id.keys().cloned().collect::<Vec<_>>();
    world.refused(
        delete("p"),
        ErrorKind::IllegalArgument,
        "pipeline [p] cannot be deleted because it is the default pipeline for 1 index(es) including [i]",
    );
    world.refused(
        delete("q-*"),
        ErrorKind::IllegalArgument,
        "pipeline [q-1] cannot be deleted because it is the final pipeline for 1 index(es) including [i]",
    );
    world.ok(delete("q-2"));
    assert_eq!(ids(&world), ["p", "q-1"]);
    world.refused(delete("x"), ErrorKind::ResourceNotFound, "pipeline [x] is missing");
    world.refused(delete("x*"), ErrorKind::ResourceNotFound, "pipeline [x*] is missing");
    world.ok(Command::DeleteIndices {
        names: vec!["i".to_owned()],
    });
    world.ok(delete("*"));
    assert!(ids(&world).is_empty());
    assert!(!world.ok(delete("*")).changed);
}

#[test]
fn a_target_has_the_pipelines_of_its_index_or_template() {
    let mut world = World::new();
    world.ok(Command::CreateIndex {
        name: "i".to_owned(),
        settings: json!({"default_pipeline": "p", "final_pipeline": "_none"}),
        mappings: None,
        aliases: Some(json!({"a": {}})),
    });
    world.ok(Command::PutIndexTemplate {
        name: "t".to_owned(),
        body: json!({
            "index_patterns": ["logs-*"],
            "template": {"settings": {"final_pipeline": "f"}},
            "data_stream": {},
        }),
        create: false,
    });
    let check = |world: &World, target: &str, default: Option<&str>, last: Option<&str>| {
        let all = &world.metadata;
        let found = TargetPipelines::of(target, all, all, NOW_MS);
        assert_eq!(
            (found.default.as_deref(), found.last.as_deref()),
            (default, last),
            "{target}"
        );
    };
    check(&world, "i", Some("p"), None);
    check(&world, "a", Some("p"), None);
    check(&world, "logs-x", None, Some("f"));
    check(&world, "<logs-{now/d}>", None, Some("f"));
    check(&world, "other", None, None);
    world.ok(Command::CreateDataStream {
        name: "logs-x".to_owned(),
    });
    check(&world, "logs-x", None, Some("f"));
}

#[test]
fn event_pipelines_are_stored_and_removed() {
    let mut world = World::new();
    let put = |id: &str, body: Value| {
        Command::EventPipeline(EventPipelineCommand::Put {
            id: id.to_owned(),
            body: body.as_object().unwrap().clone(),
        })
    };
    let delete = |id: &str| Command::EventPipeline(EventPipelineCommand::Delete { id: id.to_owned() });
    assert!(world.ok(put("p", json!({"index": "a"}))).changed);
    assert!(!world.ok(put("p", json!({"index": "a"}))).changed);
    assert!(world.ok(put("p", json!({"index": "b"}))).changed);
    assert_eq!(world.metadata.event_pipelines.by_id["p"]["index"], "b");
    for id in ["_p", "a,b", ""] {
        assert!(world.run(put(id, json!({}))).is_err(), "{id}");
    }
    world.refused(delete("q"), ErrorKind::ResourceNotFound, "pipeline [q] is missing");
    world.ok(delete("p"));
    assert!(world.metadata.event_pipelines.by_id.is_empty());
}

#[test]
fn detection_rules_and_alert_channels_are_stored_and_removed() {
    let mut world = World::new();
    let body = |value: Value| value.as_object().unwrap().clone();
    let put = |ids: &[&str], value: Value| {
        let rules = ids.iter().map(|id| ((*id).to_owned(), body(value.clone())));
        Command::Detection(DetectionCommand::PutRules(rules.collect()))
    };
    let delete = |ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Command::Detection(DetectionCommand::DeleteRules(ids))
    };
    assert!(world.ok(put(&["a", "b"], json!({"name": "x"}))).changed);
    assert!(!world.ok(put(&["a", "b"], json!({"name": "x"}))).changed);
    assert!(world.ok(put(&["b", "c"], json!({"name": "y"}))).changed);
    let names = |world: &World| -> Vec<String> {
        let rules = world.metadata.detection_rules.by_id.iter();
        rules.map(|(id, body)| format!("{id} {}", body["name"])).collect()
    };
    assert_eq!(names(&world), ["a \"x\"", "b \"y\"", "c \"y\""]);
    // All or none.
    for id in ["_p", "a,b", ""] {
        assert!(world.run(put(&["d", id], json!({}))).is_err(), "{id}");
    }
    world.refused(
        delete(&["a", "q"]),
        ErrorKind::ResourceNotFound,
        "detection rule [q] is missing",
    );
    assert_eq!(names(&world).len(), 3);
    world.ok(delete(&["a", "c"]));
    assert_eq!(names(&world), ["b \"y\""]);

    let put = DetectionCommand::PutChannel {
        id: "mail".to_owned(),
        body: body(json!({"type": "email"})),
    };
    assert!(world.ok(Command::Detection(put)).changed);
    assert_eq!(world.metadata.alert_channels.by_id["mail"]["type"], "email");
    let delete = || Command::Detection(DetectionCommand::DeleteChannel { id: "mail".to_owned() });
    world.ok(delete());
    world.refused(delete(), ErrorKind::ResourceNotFound, "alert channel [mail] is missing");
}

#[test]
fn maintenance_windows_are_stored_and_removed_and_bounded() {
    let mut world = World::new();
    let put = |id: &str| {
        let body = json!({"title": "x"}).as_object().unwrap().clone();
        let id = id.to_owned();
        Command::Detection(DetectionCommand::PutMaintenanceWindow { id, body })
    };
    let delete = |id: &str| Command::Detection(DetectionCommand::DeleteMaintenanceWindow { id: id.to_owned() });
    for number in 0..500 {
        assert!(world.ok(put(&format!("w{number}"))).changed);
    }
    world.refused(
        put("more"),
        ErrorKind::IllegalArgument,
        "a node has at most [500] maintenance windows",
    );
    assert!(!world.ok(put("w0")).changed);
    world.ok(delete("w0"));
    world.refused(
        delete("w0"),
        ErrorKind::ResourceNotFound,
        "maintenance window [w0] is missing",
    );
    assert_eq!(world.metadata.maintenance_windows.by_id["w1"]["title"], "x");
}
