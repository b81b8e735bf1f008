mod ilm;
mod ingest;
mod mounts;
mod periods;
mod repositories;
mod resolve;
mod rollover;
mod slm;
mod templates;
mod view;

use serde_json::json;

use super::*;
use crate::ilm::Policies;
use crate::slm::SnapshotPolicies;
use crate::{Error, ErrorKind};

const DAY_MS: i64 = 86_400_000;
const NOW_MS: i64 = 1_767_225_600_000;

/// State on which commands run one after the other.
struct World {
    metadata: Arc<Metadata>,
    now_ms: i64,
    ids: u32,
}

impl World {
    fn new() -> Self {
        Self {
            metadata: Arc::new(Metadata::default()),
            now_ms: NOW_MS,
            ids: 0,
        }
    }

    fn run(&mut self, command: impl Into<EmbeddedCommand>) -> Result<Outcome, Error> {
        let ids = &mut self.ids;
        let (next, outcome) = self.metadata.apply_embedded(&command.into(), self.now_ms, &mut || {
            *ids += 1;
            format!("{ids:022}")
        })?;
        assert_eq!(outcome.changed, next.version > self.metadata.version);
        if !outcome.changed {
            assert_eq!(next, self.metadata);
        }
        stored_and_read_again(&next);
        self.metadata = next;
        Ok(outcome)
    }

    fn ok(&mut self, command: impl Into<EmbeddedCommand>) -> Outcome {
        self.run(command).unwrap()
    }

    fn refused(&mut self, command: impl Into<EmbeddedCommand>, kind: ErrorKind, reason: &str) {
        let before = Arc::clone(&self.metadata);
        let error = self.run(command).unwrap_err();
        assert_eq!((error.reason(), error.kind()), (reason, kind));
        assert_eq!(before, self.metadata);
    }

    fn index(&self, name: &str) -> &IndexMetadata {
        &self.metadata.indices[name]
    }

    fn names(&self) -> Vec<&str> {
        self.metadata.indices.keys().map(String::as_str).collect()
    }
}

/// Checks that a state is unchanged after a write to storage and a read.
fn stored_and_read_again(metadata: &Metadata) {
    fn same<'a, T: PartialEq + std::fmt::Debug + 'a>(
        entities: impl Iterator<Item = &'a Arc<T>>,
        print: impl Fn(&T) -> Value,
        read: impl Fn(&Value) -> crate::Result<T>,
    ) {
        for entity in entities {
            let text = print(entity).to_string();
            assert_eq!(read(&serde_json::from_str(&text).unwrap()).unwrap(), **entity);
        }
    }
    let slm = metadata.slm.to_json().to_string();
    assert_eq!(
        SnapshotPolicies::from_json(&serde_json::from_str(&slm).unwrap()).unwrap(),
        *metadata.slm
    );
    let ingest = metadata.ingest.to_json().to_string();
    assert_eq!(
        PipelineBodies::from_json(&serde_json::from_str(&ingest).unwrap()).unwrap(),
        *metadata.ingest
    );
    let ilm = metadata.ilm.to_json().to_string();
    assert_eq!(
        Policies::from_json(&serde_json::from_str(&ilm).unwrap()).unwrap(),
        *metadata.ilm
    );
    same(
        metadata.indices.values(),
        IndexMetadata::to_json,
        IndexMetadata::from_json,
    );
    same(
        metadata.data_streams.values(),
        DataStream::to_json,
        DataStream::from_json,
    );
    same(
        metadata.component_templates.values(),
        ComponentTemplate::to_json,
        ComponentTemplate::from_json,
    );
    same(
        metadata.index_templates.values(),
        IndexTemplate::to_json,
        IndexTemplate::from_json,
    );
    same(metadata.index_templates.values(), IndexTemplate::print, |json| {
        let template = IndexTemplate::parse(json)?;
        // Printed settings are strings and a data stream's options complete, so compare prints.
        let original = metadata
            .index_templates
            .values()
            .find(|other| other.print() == template.print());
        Ok(original.map_or(template, |original| IndexTemplate::clone(original)))
    });
}

fn create(name: &str) -> Command {
    create_with(name, json!({}))
}

fn create_with(name: &str, body: Value) -> Command {
    Command::CreateIndex {
        name: name.to_owned(),
        settings: body.get("settings").cloned().unwrap_or(Value::Null),
        mappings: body.get("mappings").cloned(),
        aliases: body.get("aliases").cloned(),
    }
}

fn auto_create(name: &str) -> Command {
    Command::AutoCreate {
        name: name.to_owned(),
        tenant: None,
    }
}

fn delete(names: &[&str]) -> Command {
    Command::DeleteIndices { names: owned(names) }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn put_template(name: &str, body: Value) -> Command {
    Command::PutIndexTemplate {
        name: name.to_owned(),
        body,
        create: false,
    }
}

fn put_component(name: &str, template: Value) -> Command {
    Command::PutComponentTemplate {
        name: name.to_owned(),
        body: json!({"template": template}),
        create: false,
    }
}

fn put_settings(names: &[&str], settings: Value) -> Command {
    Command::PutSettings {
        names: owned(names),
        settings,
        preserve_existing: false,
    }
}

fn roll_over(target: &str, conditions: Value, facts: RolloverFacts) -> Command {
    Command::Rollover {
        target: target.to_owned(),
        new_index: None,
        conditions: serde_json::from_value(conditions).unwrap(),
        body: Value::Null,
        dry_run: false,
        facts,
    }
}

#[test]
fn creates_and_deletes_indices() {
    let mut world = World::new();
    let outcome = world.ok(create_with(
        "<logs-{now/d}>",
        json!({
            "settings": {"number_of_shards": 2, "index.creation_date": 5},
            "mappings": {"properties": {"a": {"type": "long"}}},
            "aliases": {"all": {"filter": {"term": {"a": 1}}, "routing": 7}},
        }),
    ));
    assert_eq!(outcome.created_index.as_deref(), Some("logs-2026.01.01"));
    let index = world.index("logs-2026.01.01");
    assert_eq!((index.created_ms, index.settings.number_of_shards), (5, 2));
    assert_eq!(index.uuid, "0000000000000000000001");
    assert_eq!(
        index.aliases["all"].print(),
        json!({"filter": {"term": {"a": 1}}, "index_routing": "7", "search_routing": "7"})
    );
    assert_eq!(
        Value::Object(crate::settings::nest(&index.print_settings())),
        json!({"index": {
            "number_of_shards": "2", "number_of_replicas": "0", "creation_date": "5",
            "uuid": "0000000000000000000001", "provided_name": "<logs-{now/d}>",
        }})
    );
    world.refused(
        create("logs-2026.01.01"),
        ErrorKind::ResourceAlreadyExists,
        "index [logs-2026.01.01/0000000000000000000001] already exists",
    );
    world.refused(
        create("all"),
        ErrorKind::InvalidIndexName,
        "Invalid index name [all], already exists as alias",
    );
    world.refused(
        create("Logs"),
        ErrorKind::InvalidIndexName,
        "Invalid index name [Logs], must be lowercase",
    );
    world.refused(
        create_with("x", json!({"mappings": {"properties": {"f": {"type": "sting"}}}})),
        ErrorKind::MapperParsing,
        "Failed to parse mapping: No handler for type [sting] declared on field [f]",
    );
    world.refused(
        create_with("x", json!({"aliases": {"x": {}}})),
        ErrorKind::InvalidAliasName,
        "Invalid alias name [x]: an index or data stream exists with the same name as the alias",
    );
    world.refused(
        create_with("x", json!({"settings": {"mapping.total_fields.limit": 1}, "mappings": {"properties": {"a": {"type": "long"}, "b": {"type": "long"}}}})),
        ErrorKind::IllegalArgument,
        "Limit of total fields [1] has been exceeded",
    );
    world.refused(
        delete(&["logs-2026.01.01", "nowhere"]),
        ErrorKind::IndexNotFound,
        "no such index [nowhere]",
    );
    world.ok(delete(&["logs-2026.01.01", "logs-2026.01.01"]));
    assert!(world.names().is_empty());
}

#[test]
fn bounds_the_number_of_shards() {
    let mut world = World::new();
    world.ok(Command::PutClusterSettings {
        settings: json!({"cluster.max_shards_per_node": 3}),
    });
    world.ok(create_with("a", json!({"settings": {"number_of_shards": 2}})));
    world.refused(
        create_with("b", json!({"settings": {"number_of_shards": 2}})),
        ErrorKind::RequestValidation,
        "Validation Failed: 1: this action would add [2] shards, but this cluster currently has [2]/[3] maximum normal \
         shards open;",
    );
}

#[test]
fn puts_mappings_and_dynamic_fields() {
    let mut world = World::new();
    world.ok(create_with("a", json!({"settings": {"mapping.total_fields.limit": 3}})));
    world.ok(create("b"));
    let put = |names: &[&str], properties: Value| Command::PutMapping {
        names: owned(names),
        mapping: json!({ "properties": properties }),
    };
    world.ok(put(&["a", "b"], json!({"x": {"type": "long"}})));
    assert!(!world.ok(put(&["a", "b"], json!({"x": {"type": "long"}}))).changed);
    world.refused(
        put(&["b", "a"], json!({"x": {"type": "ip"}})),
        ErrorKind::IllegalArgument,
        "mapper [x] cannot be changed from type [long] to [ip]",
    );
    let dynamic = |properties: Value| EmbeddedCommand::AddDynamicFields {
        name: "a".to_owned(),
        mapping: Arc::new(Mapping::parse(&json!({ "properties": properties })).unwrap()),
    };
    let more = json!({"x": {"type": "ip"}, "y": {"type": "long"}, "z": {"type": "long"}, "over": {"type": "long"}});
    assert!(world.ok(dynamic(more.clone())).changed);
    assert!(!world.ok(dynamic(more)).changed);
    assert_eq!(world.index("a").mapping.total_fields(), 3);
    assert!(world.index("a").mapping.resolve("over").is_none());
}

#[test]
fn declared_fields_do_not_include_fields_of_documents() {
    let mut world = World::new();
    world.ok(create_with(
        "a",
        json!({
            "settings": {"index.tenant.field": "tenant"},
            "mappings": {"properties": {"x": {"type": "text", "fields": {"raw": {"type": "keyword"}}}}},
        }),
    ));
    world.ok(create("plain"));
    let declared = |world: &World| {
        let fields = world.index("a").declared_fields.as_ref().unwrap();
        fields.iter().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(declared(&world), "tenant x");
    assert_eq!(world.index("plain").declared_fields, None, "no tenants");
    world.ok(EmbeddedCommand::AddDynamicFields {
        name: "a".to_owned(),
        mapping: Arc::new(Mapping::parse(&json!({"properties": {"brought": {"type": "long"}}})).unwrap()),
    });
    assert_eq!(declared(&world), "tenant x");
    let put = |properties: Value| Command::PutMapping {
        names: owned(&["a"]),
        mapping: json!({ "properties": properties }),
    };
    let before = Arc::clone(&world.index("a").mapping);
    let same = put(json!({"brought": {"type": "long"}}));
    assert!(world.ok(same.clone()).changed);
    assert_eq!(declared(&world), "brought tenant x");
    assert!(!Arc::ptr_eq(&before, &world.index("a").mapping) && before == world.index("a").mapping);
    assert!(!world.ok(same).changed);
    assert!(!world.index("a").to_json()["settings"].to_string().contains("declared"));
    // An older firn did not record them: only fields declared from then on are recorded.
    let mut stored = world.index("a").to_json();
    stored.as_object_mut().unwrap().remove("declared_fields");
    let older = IndexMetadata::from_json(&stored).unwrap();
    assert_eq!(older.declared_fields, None);
    Arc::make_mut(&mut world.metadata).indices.insert(Arc::new(older));
    assert!(!world.ok(put(json!({}))).changed);
    assert_eq!(world.index("a").declared_fields, None);
    world.ok(put(json!({"x": {"type": "text"}})));
    assert_eq!(declared(&world), "x");
}

#[test]
fn changes_settings() {
    let mut world = World::new();
    world.ok(create("a"));
    world.ok(put_settings(&["a"], json!({"index": {"refresh_interval": "30s"}})));
    assert_eq!(world.index("a").settings.refresh_interval_ms, Some(30_000));
    assert!(
        !world
            .ok(put_settings(&["a"], json!({"refresh_interval": "30s"})))
            .changed
    );
    world.ok(put_settings(&["a"], json!({"refresh_interval": null})));
    assert_eq!(world.index("a").settings.refresh_interval_ms, Some(1000));
    world.refused(
        put_settings(&["a"], json!({"number_of_shards": 4})),
        ErrorKind::IllegalArgument,
        "Can't update non dynamic settings [[index.number_of_shards]] for open indices [[a/0000000000000000000001]]",
    );
    world.refused(
        put_settings(&["a"], json!({"nonsense": 4})),
        ErrorKind::IllegalArgument,
        "unknown setting [index.nonsense] please check that any required plugins are installed, or check the breaking \
         changes documentation for removed settings",
    );
    world.refused(
        put_settings(&["a"], json!({})),
        ErrorKind::RequestValidation,
        "Validation Failed: 1: no settings to update;",
    );
    world.ok(Command::SetClosed {
        names: owned(&["a"]),
        closed: true,
    });
    world.ok(put_settings(&["a"], json!({"codec": "best_compression"})));
    assert!(world.index("a").settings.best_compression);
}

#[test]
fn updates_aliases() {
    let mut world = World::new();
    world.ok(create("a-1"));
    world.ok(create("a-2"));
    let add = |index: &str, alias: &str, properties: Value| AliasAction::Add {
        index: index.to_owned(),
        alias: alias.to_owned(),
        metadata: AliasMetadata::parse(alias, &properties).unwrap(),
    };
    let remove = |index: &str, alias: &str| AliasAction::Remove {
        index: index.to_owned(),
        alias: alias.to_owned(),
        must_exist: true,
    };
    let update = |actions: Vec<AliasAction>| Command::UpdateAliases { actions };
    world.ok(update(vec![
        add("a-1", "x", json!({"is_write_index": true})),
        add("a-2", "x", json!({})),
    ]));
    assert!(!world.ok(update(vec![add("a-2", "x", json!({}))])).changed);
    world.refused(
        update(vec![add("a-2", "x", json!({"is_write_index": true}))]),
        ErrorKind::IllegalArgument,
        "alias [x] has more than one write index [a-1,a-2]",
    );
    world.ok(update(vec![
        add("a-1", "x", json!({"is_write_index": false})),
        add("a-2", "x", json!({"is_write_index": true})),
    ]));
    world.refused(
        update(vec![add("a-1", "y", json!({})), remove("a-2", "y2")]),
        ErrorKind::AliasNotFound,
        "aliases [y2] missing",
    );
    world.refused(
        update(vec![add("a-1", "a-2", json!({}))]),
        ErrorKind::InvalidAliasName,
        "Invalid alias name [a-2]: an index or data stream exists with the same name as the alias",
    );
    world.refused(
        update(vec![add("nowhere", "y", json!({}))]),
        ErrorKind::IndexNotFound,
        "no such index [nowhere]",
    );
    world.ok(update(vec![remove("a-1", "x*"), remove("a-2", "x*")]));
    assert!(!world.metadata.has_alias("x"));
    // An alias replaces an index in one step.
    world.ok(update(vec![
        add("a-1", "a-2", json!({})),
        AliasAction::RemoveIndex {
            index: "a-2".to_owned(),
        },
    ]));
    assert!(world.metadata.has_alias("a-2"));
    assert!(AliasMetadata::parse("x", &json!({"filter": 1})).is_err());
    assert!(AliasMetadata::parse("x", &json!({"filtre": {}})).is_err());
}

#[test]
fn cluster_settings_are_known_ones() {
    let mut world = World::new();
    let put = |settings: Value| Command::PutClusterSettings { settings };
    world.ok(put(json!({
        "search.max_buckets": 10, "cluster.routing.allocation.disk.watermark": {"low": "70%", "high": "10gb"},
        "logger.org.elasticsearch": "DEBUG",
    })));
    assert_eq!(world.metadata.cluster_settings.len(), 4);
    world.refused(
        put(json!({"foo.bar": 1})),
        ErrorKind::IllegalArgument,
        "persistent setting [foo.bar], not recognized",
    );
    world.refused(
        put(json!({"search.max_buckets": "x"})),
        ErrorKind::IllegalArgument,
        "Failed to parse value [x] for setting [search.max_buckets]",
    );
    world.ok(put(
        json!({"cluster.routing.*": null, "logger.org.elasticsearch": null}),
    ));
    assert_eq!(world.metadata.cluster_settings.len(), 1);
    assert!(cluster_setting_defaults(&world.metadata.cluster_settings).contains_key("action.auto_create_index"));
    for (name, does, other) in [
        ("search.default_search_timeout", json!("-1"), json!("5s")),
        ("search.default_allow_partial_results", json!(true), json!(false)),
        ("search.allow_expensive_queries", json!("true"), json!(false)),
        ("cluster.indices.close.enable", json!(true), json!("false")),
        (
            "cluster.routing.allocation.disk.threshold_enabled",
            json!(true),
            json!(false),
        ),
    ] {
        world.ok(put(json!({name: does})));
        world.refused(
            put(json!({name: other})),
            ErrorKind::NotImplemented,
            &format!(
                "setting [{name}] with value [{}] is not implemented by firn",
                other.to_string().replace('"', "")
            ),
        );
    }
}

#[test]
fn newer_formats_are_refused() {
    let mut world = World::new();
    world.ok(create("a"));
    let mut json = world.index("a").to_json();
    json["format"] = json!(4);
    let error = IndexMetadata::from_json(&json).unwrap_err();
    assert_eq!(
        error.reason(),
        "stored metadata has format [4], this firn reads up to [3]"
    );
    let error = IndexMetadata::from_json(&json!({"format": 1})).unwrap_err();
    assert_eq!(error.reason(), "stored metadata lacks a valid [aliases]");
}
