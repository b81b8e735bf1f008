//! Kafka source against a real broker: order, groups, positions, and bad days.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use support::{BROKER, Member, Stored, records, wait_for};

/// Asserts that a partition holds exactly `expect`, at offsets from `from` on.
fn check_partition(found: &[(u64, String)], from: u64, expect: &[Option<String>]) {
    let expect: Vec<(u64, String)> = (from..)
        .zip(expect)
        .filter_map(|(offset, record)| Some((offset, record.clone()?)))
        .collect();
    assert_eq!(found.len(), expect.len());
    for (found, expect) in found.iter().zip(&expect) {
        assert_eq!(found, expect);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_compressed_batches_of_all_partitions_in_order() {
    let broker = BROKER.read().await;
    broker.create_topic("order", 3).await;
    let stored = Arc::new(Stored::default());
    let mut expect: Vec<Vec<Option<String>>> = vec![Vec::new(); 3];
    for (round, codec) in ["gzip", "lz4", "zstd", "snappy", "none"].into_iter().enumerate() {
        for (number, expect) in expect.iter_mut().enumerate() {
            let mut written = records(&format!("{codec} of {number}"), round * 1000..(round + 1) * 1000);
            written[round * 7] = None;
            broker.produce("order", number as i32, codec, written.clone()).await;
            expect.extend(written);
        }
    }
    let member = Member::start(broker.config("order", "order", &[]), &stored);
    wait_for("all events", || stored.count() >= 3 * 4995).await;
    let partitions = stored.by_partition();
    assert_eq!(partitions.len(), 3);
    for (name, found) in &partitions {
        let number: usize = name
            .rsplit('/')
            .next()
            .and_then(|number| number.parse().ok())
            .expect("a number");
        check_partition(found, 0, &expect[number]);
    }
    assert_eq!(stored.delivered(), 3 * 4995, "none came twice");
    assert_eq!(member.counter("tombstones"), 15);
    assert_eq!(member.counter("offsets_lost"), 0);
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_partitions_with_a_member_that_joins_and_is_killed() {
    let broker = BROKER.read().await;
    broker.create_topic("group", 4).await;
    let stored = Arc::new(Stored::default());
    let produce = async |range: std::ops::Range<usize>| {
        for number in 0..4 {
            let written = records(&format!("of {number}"), range.clone());
            broker.produce("group", number, "lz4", written).await;
        }
    };
    produce(0..500).await;
    let first = Member::start(broker.config("group", "group", &[]), &stored);
    wait_for("the first member's events", || stored.count() == 2000).await;
    let settings = [("group.instance.id", "second")];
    let second = Member::start(broker.config("group", "group", &settings), &stored);
    wait_for("a second member", || second.counter("rebalances") > 0).await;
    produce(500..1000).await;
    wait_for("events of both", || stored.count() == 4000).await;
    wait_for("batches of the second", || second.batches.load(Ordering::Relaxed) > 0).await;
    second.kill().await;
    produce(1000..1500).await;
    wait_for("events of the partitions of the killed member", || {
        stored.count() >= 6000
    })
    .await;
    let partitions = stored.by_partition();
    assert_eq!(partitions.len(), 4);
    for (name, found) in &partitions {
        let number = name.rsplit('/').next().expect("a number");
        check_partition(found, 0, &records(&format!("of {number}"), 0..1500));
    }
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn continues_where_the_stored_events_end() {
    let broker = BROKER.read().await;
    broker.create_topic("positions", 1).await;
    let expect = records("event", 0..1000);
    broker.produce("positions", 0, "zstd", expect.clone()).await;
    let stored = Arc::new(Stored::default());
    let member = Member::start(broker.config("positions", "positions", &[]), &stored);
    wait_for("all events", || stored.count() == 1000).await;
    // Commits 1000 to Kafka.
    member.stop().await;
    // The engine has lost the end; the broker's committed offset does not matter.
    stored.forget_from(400);
    let member = Member::start(broker.config("positions", "positions", &[]), &stored);
    wait_for("the events from 400 on", || stored.count() == 1000).await;
    assert_eq!(stored.delivered(), 600);
    member.stop().await;
    // Another group, of which the broker knows nothing.
    stored.forget_from(900);
    let member = Member::start(broker.config("positions", "positions-2", &[]), &stored);
    wait_for("the events from 900 on", || stored.count() == 1000).await;
    assert_eq!(stored.delivered(), 100);
    member.stop().await;
    let partitions = stored.by_partition();
    check_partition(partitions.values().next().expect("a partition"), 0, &expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_continues_within_two_seconds_of_its_kill() {
    let broker = BROKER.read().await;
    broker.create_topic("static", 2).await;
    let stored = Arc::new(Stored::default());
    let settings = [("group.instance.id", "worker-1"), ("session.timeout.ms", "30000")];
    let member = Member::start(broker.config("static", "static", &settings), &stored);
    broker.produce("static", 0, "none", records("a", 0..10)).await;
    wait_for("the first events", || stored.count() == 10).await;
    member.kill().await;
    broker.produce("static", 0, "none", records("a", 10..20)).await;
    let started = Instant::now();
    let member = Member::start(broker.config("static", "static", &settings), &stored);
    wait_for("the other events", || stored.count() == 20).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_restart_of_the_broker() {
    let mut broker = BROKER.write().await;
    broker.create_topic("restart", 1).await;
    let stored = Arc::new(Stored::default());
    let member = Member::start(broker.config("restart", "restart", &[]), &stored);
    broker.produce("restart", 0, "gzip", records("event", 0..500)).await;
    wait_for("the first events", || stored.count() == 500).await;
    broker.kafka.kill();
    wait_for("an error of the client", || member.counter("kafka_errors") > 0).await;
    broker.kafka.start_again().expect("Kafka starts again");
    broker.produce("restart", 0, "gzip", records("event", 500..1000)).await;
    wait_for("the other events", || stored.count() >= 1000).await;
    let partitions = stored.by_partition();
    assert_eq!(partitions.len(), 1);
    check_partition(
        partitions.values().next().expect("a partition"),
        0,
        &records("event", 0..1000),
    );
    assert_eq!(member.counter("offsets_lost"), 0);
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_topic_that_was_made_again_from_its_start() {
    let broker = BROKER.read().await;
    broker.create_topic("again", 1).await;
    broker.produce("again", 0, "none", records("old", 0..100)).await;
    let stored = Arc::new(Stored::default());
    let member = Member::start(broker.config("again", "again", &[]), &stored);
    wait_for("the old events", || stored.count() == 100).await;
    let old = stored.by_partition().into_keys().next().expect("a partition");
    broker.delete_topic("again").await;
    broker.create_topic("again", 1).await;
    // More than the old topic had: the old place exists in the new topic.
    broker.produce("again", 0, "none", records("new", 0..250)).await;
    let new_events = || {
        stored
            .by_partition()
            .into_iter()
            .filter(|(name, _)| *name != old)
            .collect::<BTreeMap<_, _>>()
    };
    wait_for("the new events", || {
        new_events().values().map(Vec::len).sum::<usize>() >= 250
    })
    .await;
    let partitions = new_events();
    assert_eq!(partitions.len(), 1, "one new topic id");
    check_partition(
        partitions.values().next().expect("a partition"),
        0,
        &records("new", 0..250),
    );
    check_partition(&stored.by_partition()[&old][..100], 0, &records("old", 0..100));
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_events_that_retention_removed() {
    let broker = BROKER.read().await;
    broker.create_topic("lost", 1).await;
    broker.produce("lost", 0, "none", records("event", 0..100)).await;
    let stored = Arc::new(Stored::default());
    let member = Member::start(broker.config("lost", "lost", &[]), &stored);
    wait_for("all events", || stored.count() == 100).await;
    assert_eq!(member.counter("offsets_lost"), 0);
    member.stop().await;
    stored.forget_from(10);
    stored.allow_lost_offsets();
    broker.delete_records("lost", 60).await;
    let member = Member::start(broker.config("lost", "lost", &[]), &stored);
    wait_for("the remaining events", || stored.count() >= 50).await;
    assert_eq!(member.counter("offsets_lost"), 50);
    let partitions = stored.by_partition();
    let found = partitions.values().next().expect("a partition");
    check_partition(&found[..10], 0, &records("event", 0..10));
    check_partition(&found[10..], 60, &records("event", 60..100));
    member.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_at_offsets_that_a_broker_lost_are_other_records() {
    let broker = BROKER.read().await;
    broker.create_topic("reused", 1).await;
    broker.produce("reused", 0, "none", records("event", 0..100)).await;
    let stored = Arc::new(Stored::default());
    let config = || broker.config("reused", "reused", &[]);
    let member = Member::start(config(), &stored);
    wait_for("all events", || stored.count() == 100).await;
    member.stop().await;
    // The broker had fifty more, which were stored, and lost them.
    stored.resume_at(150);
    let member = Member::start(config(), &stored);
    wait_for("a lookup", || member.counter("rebalances") > 0).await;
    broker.produce("reused", 0, "none", records("other", 100..160)).await;
    wait_for("the new events", || stored.count() == 160).await;
    member.stop().await;
    // A later member finds the new record, though the log now reaches beyond the old one.
    broker.produce("reused", 0, "none", records("other", 160..170)).await;
    let member = Member::start(config(), &stored);
    wait_for("the last events", || stored.count() == 170).await;
    member.stop().await;
    let partitions = stored.by_partition();
    let names: Vec<&String> = partitions.keys().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(*names[1], format!("{}+1", names[0]));
    check_partition(&partitions[names[1]], 100, &records("other", 100..170));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_pipeline_loses_neither_events_nor_its_member() {
    let broker = BROKER.read().await;
    broker.create_topic("slow", 2).await;
    let stored = Arc::new(Stored::default());
    let settings = [("max.poll.interval.ms", "1500")];
    let member = Member::start(broker.config("slow", "slow", &settings), &stored);
    member.takes_batches(false);
    for number in 0..2 {
        broker
            .produce("slow", number, "lz4", records(&format!("of {number}"), 0..8000))
            .await;
    }
    wait_for("a pause", || member.counter("pauses") > 0).await;
    let rebalances = member.counter("rebalances");
    // A member that does not poll would be out of the group twice over.
    let paused = Instant::now();
    wait_for("two poll intervals", || paused.elapsed() > Duration::from_millis(3200)).await;
    member.takes_batches(true);
    wait_for("all events", || stored.count() >= 16000).await;
    for (name, found) in stored.by_partition() {
        let number = name.rsplit('/').next().expect("a number");
        check_partition(&found, 0, &records(&format!("of {number}"), 0..8000));
    }
    assert_eq!(stored.delivered(), 16000, "none came twice");
    assert_eq!(member.counter("rebalances"), rebalances);
    member.stop().await;
}
