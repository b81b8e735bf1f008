//! Settings of a Kafka source are checked before anything connects.

use std::collections::BTreeMap;
use std::fs;

use firn_kafka::{KafkaConfig, KafkaSource};
use firn_model::ErrorKind;
use firn_pipeline::definition::KafkaDefinition;

#[test]
fn refuses_bad_settings_by_name() {
    let check = |name: &str, value: &str| {
        let mut settings = BTreeMap::from([
            ("bootstrap.servers".to_owned(), "127.0.0.1:1".to_owned()),
            ("group.id".to_owned(), "group".to_owned()),
        ]);
        settings.insert(name.to_owned(), value.to_owned());
        let Err(error) = KafkaSource::open(KafkaConfig::new(vec!["topic".to_owned()], settings)) else {
            panic!("[{name}] with [{value}] is taken");
        };
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert!(error.to_string().contains(&format!("[{name}]")), "{error}");
    };
    check("bootstrap.servers", "");
    check("group.id", " ");
    check("no.such.setting", "1");
    check("session.timeout.ms", "soon");
    check("session.timeout.ms", "-1");
    check("security.protocol", "telnet");
    check("isolation.level", "some");
    check("auto.offset.reset", "middle");
    check("enable.auto.commit", "true");
    check("enable.auto.offset.store", "false");
    check("partition.assignment.strategy", "range");
    check("plugin.library.paths", "/tmp/x.so");

    let open = |topics: &[&str], settings: &[(&str, &str)]| {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        KafkaSource::open(KafkaConfig::new(topics, settings.collect())).map(drop)
    };
    let needed = [("bootstrap.servers", "127.0.0.1:1"), ("group.id", "group")];
    assert!(open(&[], &needed).is_err());
    assert!(open(&["a topic"], &needed).is_err());
    assert!(open(&["topic"], &needed[1..]).is_err());
    let secure = [
        ("security.protocol", "sasl_ssl"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "firn"),
        ("sasl.password", "secret"),
        ("group.instance.id", "worker-1"),
        ("auto.offset.reset", "latest"),
    ];
    open(&["topic", "^logs-.*"], &[&needed[..], &secure].concat()).expect("these settings are valid");
}

#[test]
fn reads_secrets_from_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("kafka.properties");
    let open = |text: &str| {
        fs::write(&path, text).expect("the file is written");
        let definition = KafkaDefinition {
            topics: vec!["topic".to_owned()],
            settings: BTreeMap::from([("group.id".to_owned(), "group".to_owned())]),
            settings_file: Some(path.clone()),
        };
        KafkaSource::of_definition(&definition).map(drop)
    };
    let valid = "# a comment\n\nbootstrap.servers = 127.0.0.1:1\nsecurity.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\n\
                 sasl.username=firn\nsasl.password=a=b\n";
    open(valid).expect("these settings are valid");
    let check = |text: &str, words: &str| {
        let error = open(text).expect_err("the settings are refused").to_string();
        assert!(error.contains(words) && !error.contains("hunter2"), "{error}");
    };
    check("hunter2", "line 1 is not [name=value]");
    check("bootstrap.servers=127.0.0.1:1\nno.such=hunter2", "[no.such]");
    check("", "needs the setting [bootstrap.servers]");
    fs::remove_file(&path).expect("the file is removed");
    let definition = KafkaDefinition {
        topics: vec!["topic".to_owned()],
        settings: BTreeMap::new(),
        settings_file: Some(path.clone()),
    };
    let error = KafkaSource::of_definition(&definition)
        .map(drop)
        .expect_err("there is no file");
    assert!(error.to_string().contains("kafka.properties"), "{error}");
}
