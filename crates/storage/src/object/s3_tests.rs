//! S3 tests with the real protocol: versitygw behind the fault injection proxy.

use std::time::Duration;

use bytes::Bytes;
use firn_model::settings::SettingsMap;
use firn_testkit::{Fault, FaultProxy, Faults, Gateway, Method, Rule};
use serde_json::json;

use super::tests::{conforms, kind};
use super::*;

/// Gateway with a bucket, behind a fault injection proxy.
struct Place {
    _folder: tempfile::TempDir,
    gateway: Gateway,
    proxy: FaultProxy,
}

impl Place {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = Gateway::start(folder.path(), &["bucket"]).expect("a gateway");
        let proxy = FaultProxy::start(gateway.port(), firn_testkit::seed("s3 faults")).expect("a proxy");
        Self {
            _folder: folder,
            gateway,
            proxy,
        }
    }

    /// Opens a repository as an operator registers it, through the proxy.
    fn repository(&self, settings: serde_json::Value) -> Guarded {
        let mut config = StoresConfig::new(1);
        let secrets = [
            ("s3.client.default.access_key", self.gateway.access_key()),
            ("s3.client.default.secret_key", self.gateway.secret_key()),
        ];
        config.clients = secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut all: SettingsMap = [
            ("bucket".to_owned(), json!("bucket")),
            ("base_path".to_owned(), json!("some/where")),
            ("endpoint".to_owned(), json!(self.proxy.endpoint())),
            ("read_timeout".to_owned(), json!("300ms")),
            ("max_snapshot_bytes_per_sec".to_owned(), json!("-1")),
        ]
        .into();
        let extra = settings.as_object().cloned().unwrap_or_default();
        all.extend(extra);
        ObjectStores::new(config).open("r", "s3", &all).expect("a repository")
    }

    fn faults(&self, rules: impl IntoIterator<Item = Rule>) {
        self.proxy.set(Faults {
            silence: Duration::from_millis(500),
            ..Faults::rules(rules)
        });
    }
}

#[tokio::test]
async fn s3_conforms() {
    let place = Place::start();
    conforms(&place.repository(json!({"buffer_size": "5mb", "read_timeout": "20s"}))).await;
    let upload = place.proxy.stats();
    let begun = upload
        .request_log
        .iter()
        .filter(|request| request.target.ends_with("?uploads="));
    assert_eq!(begun.count(), 2, "large files go in parts");
    let stored = place.gateway.object_file("bucket", "some/where/up/load");
    assert_eq!(stored.metadata().expect("the object").len(), 11 << 20);
}

#[tokio::test]
async fn wrong_keys_and_buckets_are_reported() {
    let place = Place::start();
    let objects = place.repository(json!({"bucket": "missing"}));
    assert_eq!(kind(objects.list("").await), ObjectErrorKind::NotFound);
    let config = StoresConfig {
        clients: [
            ("s3.client.default.access_key", "no"),
            ("s3.client.default.secret_key", "body"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        ..StoresConfig::new(1)
    };
    let settings: SettingsMap = [
        ("bucket".to_owned(), json!("bucket")),
        ("endpoint".to_owned(), json!(place.gateway.endpoint())),
    ]
    .into();
    let objects = ObjectStores::new(config).open("r", "s3", &settings).expect("open");
    let error = objects.list("").await.expect_err("an unknown key");
    assert_eq!(error.kind, ObjectErrorKind::Denied);
    assert!(!error.to_string().contains("body"), "{error}");
}

/// Each fault on each kind of request: the answer is correct while retries suffice.
#[tokio::test]
async fn every_fault_ends_in_the_right_answer_or_a_typed_error() {
    let place = Place::start();
    let objects = place.repository(json!({}));
    let body = Bytes::from(vec![b'x'; 70_000]);
    for fault in Fault::ALL {
        let name = format!("{fault:?}");
        let key = name.as_str();
        place.faults([Rule::next(fault, 1).of(Method::Put)]);
        let written = objects.write(key, body.clone(), PutMode::Create).await.expect(key);
        assert_eq!(objects.info(key).await.expect(key).etag, written, "{fault:?}");
        let again = objects.write(key, body.clone(), PutMode::Create).await;
        assert_eq!(kind(again), ObjectErrorKind::Exists, "{fault:?}");

        place.faults([Rule::next(fault, 1)]);
        let read = objects.read(key, 100..60_100).await.expect(key);
        let is_damaged = read != body[100..60_100];
        // Only the reader of the content can detect this; splits and manifests carry checksums for it.
        assert_eq!(is_damaged, fault == Fault::BitFlip, "{fault:?}");

        place.faults([Rule::next(fault, 1).of(Method::List)]);
        let listed = objects.list("").await.expect(key);
        let is_listed = listed.iter().any(|info| info.key == key);
        assert_eq!(is_listed, fault != Fault::StaleListing, "{fault:?}");

        place.faults([Rule::next(fault, 1).of(Method::Head)]);
        assert_eq!(objects.info(key).await.expect(key).len, 70_000);
    }
    for fault in Fault::ALL {
        place.faults([Rule::next(fault, 1).of(Method::Delete)]);
        let key = format!("{fault:?}");
        objects.delete(&key).await.expect("deleted");
        assert_eq!(kind(objects.info(&key).await), ObjectErrorKind::NotFound);
    }
    let stats = place.proxy.stats();
    for fault in Fault::ALL {
        assert!(stats.met(fault) > 0, "{fault:?} affected no request");
    }
}

#[tokio::test]
async fn a_store_that_stays_away_is_unavailable_after_so_many_requests() {
    let place = Place::start();
    let objects = place.repository(json!({"max_retries": 2}));
    for (fault, expected, requests) in [
        (Fault::SlowDown, ObjectErrorKind::Busy, 3..=3),
        // The HTTP client itself retries a pooled connection that ends before it answers.
        (Fault::Reset, ObjectErrorKind::Unavailable, 3..=6),
    ] {
        place.faults([]);
        objects
            .write("k", Bytes::from_static(b"0123456789"), PutMode::Overwrite)
            .await
            .expect("write");
        place.faults([Rule::share(fault, 1.0)]);
        place.proxy.reset();
        let outcome = kind(objects.read("k", 0..10).await);
        assert_eq!(outcome, expected, "{fault:?}");
        let made = place.proxy.stats().requests;
        assert!(requests.contains(&made), "{fault:?}: {made}");
    }
}

#[tokio::test]
async fn a_real_gateway_passes_the_analysis_and_verification() {
    let place = Place::start();
    let objects = place.repository(json!({"read_timeout": "20s"}));
    verify("r", &objects, "token").await.expect("verified");
    let options = AnalyzeOptions {
        blob_count: 30,
        blob_bytes_max: 1 << 20,
        total_bytes_max: 8 << 20,
        timeout: Duration::from_secs(120),
        ..AnalyzeOptions::new("token", firn_testkit::seed("s3 faults"))
    };
    let found = analyze("r", &objects, &options).await.expect("an analysis");
    assert_eq!((&found.violations, &found.notes), (&vec![], &vec![]));
    assert!(found.conditional_writes.count() > 30);
    assert!(objects.list("").await.expect("a list").is_empty());
}

/// Conditional writes stay atomic while answers are lost.
#[tokio::test]
async fn races_have_one_winner_through_faults() {
    let place = Place::start();
    let objects = place.repository(json!({}));
    place.faults([
        Rule::share(Fault::TimeoutAfterSuccess, 0.1).of(Method::Put),
        Rule::share(Fault::SlowDown, 0.1),
        Rule::share(Fault::Reset, 0.05),
    ]);
    for race in 0..8 {
        let key = format!("log/{race}");
        let writes = (0..6).map(|writer| {
            let content = Bytes::from(format!("writer {writer}"));
            objects.write(&key, content, PutMode::Create)
        });
        let outcomes = futures_util::future::join_all(writes).await;
        let winners: Vec<usize> = (0..6).filter(|writer| outcomes[*writer].is_ok()).collect();
        assert_eq!(winners.len(), 1, "race {race}: {outcomes:?}");
        let (content, _) = objects.read_all(&key, 99).await.expect("the winner's");
        assert_eq!(content, format!("writer {}", winners[0]));
    }
    assert!(place.proxy.stats().faults > 0);
}
