use super::*;

#[test]
fn composes_templates() {
    let mut world = World::new();
    world.ok(put_component(
        "base",
        json!({
            "settings": {"number_of_shards": 3, "refresh_interval": "5s"},
            "mappings": {"properties": {"a": {"type": "keyword"}, "o": {"properties": {"x": {"type": "long"}}}}},
            "aliases": {"everything": {}},
        }),
    ));
    world.ok(put_template(
        "logs",
        json!({
            "index_patterns": ["logs-*"], "composed_of": ["base"], "priority": 5,
            "template": {
                "settings": {"index": {"refresh_interval": "9s"}},
                "mappings": {"properties": {"a": {"type": "ip"}, "o.y": {"type": "long"}}},
            },
        }),
    ));
    world.ok(put_template(
        "all",
        json!({"index_patterns": "*", "template": {"settings": {"number_of_shards": 7}}}),
    ));
    world.ok(create_with(
        "logs-1",
        json!({"settings": {"number_of_shards": 2}, "mappings": {"properties": {"b": {"type": "ip"}}}}),
    ));
    let index = world.index("logs-1");
    assert_eq!(index.settings.number_of_shards, 2);
    assert_eq!(index.settings.refresh_interval_ms, Some(9000));
    assert_eq!(
        index.mapping.print(),
        json!({"properties": {
            "a": {"type": "ip"}, "b": {"type": "ip"},
            "o": {"properties": {"x": {"type": "long"}, "y": {"type": "long"}}},
        }})
    );
    assert!(index.aliases.contains_key("everything"));
    world.ok(auto_create("other"));
    assert_eq!(world.index("other").settings.number_of_shards, 7);
    world.ok(create_with("hidden", json!({"settings": {"hidden": true}})));
    assert_eq!(world.index("hidden").settings.number_of_shards, 1);
    assert_eq!(
        world.metadata.find_index_template("logs-1").map(|(name, _)| name),
        Some("logs")
    );

    world.refused(
        put_template("clash", json!({"index_patterns": ["*-1"], "priority": 5})),
        ErrorKind::IllegalArgument,
        "index template [clash] has index patterns [*-1] matching patterns from existing templates [logs] with patterns \
         (logs => [logs-*]) that have the same priority [5], multiple index templates may not match during index \
         creation, please use a different priority",
    );
    world.refused(
        put_template("x", json!({"index_patterns": ["x"], "composed_of": ["gone"]})),
        ErrorKind::IllegalArgument,
        "index_template [x] invalid, cause [Validation Failed: 1: index template [x] specifies component templates \
         [gone] that do not exist;]",
    );
    world.ok(put_template(
        "x",
        json!({"index_patterns": ["x"], "composed_of": ["gone"], "priority": 1, "ignore_missing_component_templates": ["gone"]}),
    ));
    world.refused(
        put_template("x", json!({"index_patterns": []})),
        ErrorKind::IllegalArgument,
        "index_template [x] invalid, cause [Validation Failed: 1: index patterns are missing;]",
    );
    world.refused(
        put_template("x", json!({"index_patterns": ["x"], "foo": 1})),
        ErrorKind::Parsing,
        "[index_template] unknown field [foo]",
    );
    world.refused(
        put_component("base", json!({"mappings": {"properties": {"o": {"type": "keyword"}}}})),
        ErrorKind::IllegalArgument,
        "updating component template [base] results in invalid composable template [logs] after templates are merged",
    );
    let delete_component = |name: &str| Command::DeleteComponentTemplate { names: owned(&[name]) };
    world.refused(
        delete_component("base"),
        ErrorKind::IllegalArgument,
        "component templates [base] cannot be removed as they are still in use by index templates [logs]",
    );
    let delete_template = |name: &str| Command::DeleteIndexTemplate { names: owned(&[name]) };
    world.refused(
        delete_template("gone"),
        ErrorKind::ResourceNotFound,
        "index_template [gone] missing",
    );
    world.ok(delete_template("lo*"));
    world.ok(delete_component("base"));
    world.refused(
        delete_component("base"),
        ErrorKind::ResourceNotFound,
        "component_template [base] missing",
    );
    world.refused(
        Command::PutIndexTemplate {
            name: "x".to_owned(),
            body: json!({"index_patterns": ["x"]}),
            create: true,
        },
        ErrorKind::IllegalArgument,
        "index template [x] already exists",
    );
}

#[test]
fn auto_creates_what_is_allowed() {
    let mut world = World::new();
    let setting = |value: Value| Command::PutClusterSettings {
        settings: json!({"action": {"auto_create_index": value}}),
    };
    world.ok(auto_create("a"));
    assert!(!world.ok(auto_create("a")).changed);
    world.ok(setting(json!("false")));
    world.refused(
        auto_create("b"),
        ErrorKind::IndexNotFound,
        "no such index [b] and [action.auto_create_index] is [false]",
    );
    world.ok(setting(json!("+b*,-c*,d")));
    world.ok(auto_create("b"));
    world.ok(auto_create("d"));
    world.refused(
        auto_create("c"),
        ErrorKind::IndexNotFound,
        "no such index [c] and [action.auto_create_index] contains [-c*] which forbids automatic creation of the index",
    );
    world.refused(
        auto_create("e"),
        ErrorKind::IndexNotFound,
        "no such index [e] and [action.auto_create_index] ([+b*,-c*,d]) doesn't match",
    );
    world.ok(put_template(
        "e",
        json!({"index_patterns": ["e*"], "allow_auto_create": true}),
    ));
    world.ok(auto_create("e"));
    world.ok(put_template(
        "f",
        json!({"index_patterns": ["b*"], "allow_auto_create": false}),
    ));
    world.refused(
        auto_create("bb"),
        ErrorKind::IndexNotFound,
        "no such index [bb] and composable template [f] forbids index auto creation",
    );
    world.ok(setting(Value::Null));
    world.ok(auto_create("z"));
}
