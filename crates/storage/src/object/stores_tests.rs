//! Tests of repository settings: their meaning, and the errors for invalid ones.

use firn_model::ErrorKind;
use firn_model::settings::SettingsMap;
use serde_json::{Value, json};

use super::*;

fn stores() -> ObjectStores {
    let mut config = StoresConfig::new(1);
    config.path_repo = vec!["/backups".into(), "/more".into()];
    config.allowed_urls = vec![
        "https://mirror.example/firn/*".to_owned(),
        "http://one.example/".to_owned(),
    ];
    config.clients = [
        ("s3.client.default.access_key", "a"),
        ("s3.client.default.secret_key", "s"),
        ("s3.client.half.access_key", "a"),
        ("s3.client.minio.endpoint", "minio.example:9000"),
        ("azure.client.default.account", "acc"),
        ("azure.client.default.key", "a2V5"),
        ("azure.client.both.account", "acc"),
        ("azure.client.both.key", "a2V5"),
        ("azure.client.both.sas_token", "?sv=1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    ObjectStores::new(config)
}

fn settings(json: Value) -> SettingsMap {
    json.as_object().cloned().unwrap_or_default().into_iter().collect()
}

#[test]
fn settings_of_every_kind_are_understood() {
    let check = |kind: &str, json: Value| {
        let text = json.to_string();
        stores()
            .check("r", kind, &settings(json))
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    };
    check("s3", json!({"bucket": "b"}));
    check(
        "s3",
        json!({"bucket": "b", "client": "minio", "path_style_access": "true", "protocol": "http"}),
    );
    check(
        "s3",
        json!({"bucket": "b", "endpoint": "http://127.0.0.1:9000", "region": "eu-central-1"}),
    );
    check(
        "s3",
        json!({"bucket": "b", "base_path": "a/b", "readonly": true, "compress": "false"}),
    );
    check(
        "s3",
        json!({"bucket": "b", "buffer_size": "100mb", "storage_class": "standard", "canned_acl": "private"}),
    );
    check(
        "s3",
        json!({"bucket": "b", "max_snapshot_bytes_per_sec": "40mb", "max_restore_bytes_per_sec": "0"}),
    );
    check("gcs", json!({"bucket": "b", "base_path": "a"}));
    check(
        "azure",
        json!({"container": "c", "base_path": "a", "location_mode": "primary_only"}),
    );
    check("azure", json!({}));
    check("fs", json!({"location": "/backups/one"}));
    check(
        "fs",
        json!({"location": "two/three", "max_restore_bytes_per_sec": "1gb"}),
    );
    check("fs", json!({"location": "/more", "compress": null}));
    check("url", json!({"url": "https://mirror.example/firn/2026"}));
    check("url", json!({"url": "http://one.example"}));
    check("url", json!({"url": "file:///backups/one"}));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_name() {
    let check = |kind: &str, json: Value, expected: ErrorKind, words: &str| {
        let text = json.to_string();
        let error = stores().check("r", kind, &settings(json)).expect_err(&text);
        assert_eq!(error.kind(), expected, "{text}: {error}");
        assert!(error.reason().contains(words), "{text}: {error}");
    };
    use ErrorKind::{IllegalArgument, NotImplemented, Repository};
    check(
        "hdfs",
        json!({}),
        Repository,
        "[r] repository type [hdfs] does not exist",
    );
    check("s3", json!({}), Repository, "No bucket defined");
    check("s3", json!({"bucket": "b", "bukket": "c"}), IllegalArgument, "[bukket]");
    check("s3", json!({"bucket": ["b"]}), IllegalArgument, "[bucket]");
    check(
        "s3",
        json!({"bucket": "b", "client": "none"}),
        Repository,
        "Unknown s3 client name [none]",
    );
    check(
        "s3",
        json!({"bucket": "b", "client": "half"}),
        Repository,
        "Missing secret key",
    );
    check(
        "s3",
        json!({"bucket": "b", "endpoint": "ftp://x"}),
        Repository,
        "[ftp://x]",
    );
    check(
        "s3",
        json!({"bucket": "b", "protocol": "gopher"}),
        Repository,
        "[gopher]",
    );
    check(
        "s3",
        json!({"bucket": "b", "storage_class": "glacier"}),
        NotImplemented,
        "[storage_class: glacier]",
    );
    check(
        "s3",
        json!({"bucket": "b", "buffer_size": "1mb"}),
        IllegalArgument,
        "[buffer_size]",
    );
    check(
        "s3",
        json!({"bucket": "b", "readonly": "yes"}),
        IllegalArgument,
        "[yes]",
    );
    check(
        "s3",
        json!({"bucket": "b", "max_retries": 99}),
        IllegalArgument,
        "[max_retries]",
    );
    check(
        "s3",
        json!({"bucket": "b", "max_snapshot_bytes_per_sec": "fast"}),
        IllegalArgument,
        "[fast]",
    );
    check("gcs", json!({}), Repository, "No [bucket]");
    check("azure", json!({"client": "both"}), Repository, "Both a secret");
    check(
        "azure",
        json!({"location_mode": "secondary_only"}),
        NotImplemented,
        "secondary_only",
    );
    check("fs", json!({}), Repository, "missing location");
    check(
        "fs",
        json!({"location": "/etc"}),
        Repository,
        "doesn't match any of the locations specified by path.repo",
    );
    check("fs", json!({"location": "../etc"}), Repository, "path.repo");
    check("fs", json!({"location": "/backups/../etc"}), Repository, "path.repo");
    check("fs", json!({"location": "/backups2"}), Repository, "path.repo");
    check(
        "fs",
        json!({"location": "x", "chunk_size": "1gb"}),
        IllegalArgument,
        "[chunk_size]",
    );
    check(
        "url",
        json!({"url": "https://other.example/"}),
        Repository,
        "repositories.url.allowed_urls",
    );
    check(
        "url",
        json!({"url": "https://mirror.example/firn/../secret"}),
        Repository,
        "allowed_urls",
    );
    check(
        "url",
        json!({"url": "https://mirror.example/firn/%2e%2E/secret"}),
        Repository,
        "allowed_urls",
    );
    check("url", json!({"url": "file:///etc"}), Repository, "path.repo");
    check("url", json!({"url": "jar:file:///x"}), NotImplemented, "jar:");
    let nowhere = ObjectStores::new(StoresConfig::new(1));
    let error = nowhere
        .check("r", "fs", &settings(json!({"location": "/x"})))
        .expect_err("nowhere");
    assert!(error.reason().ends_with("because this setting is empty"), "{error}");
}

#[test]
fn secrets_are_never_printed() {
    let options = S3Options {
        credentials: Some(S3Credentials {
            access_key: "akey".to_owned(),
            secret_key: "topsecret".to_owned(),
            session_token: None,
        }),
        ..S3Options::new("b")
    };
    let printed = format!("{options:?} {:?}", stores());
    assert!(!printed.contains("akey") && !printed.contains("topsecret"), "{printed}");
}
