//! Rules over several events against models that look at all events again, and journals that are read again at any moment.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::tests::{Journal, PIPELINE, of_user, rules};
use super::*;

/// Event of a user at a time (ms), to a port, of the steps with these bits.
fn at(time: i64, user: &str, port: u64, steps: u64) -> Value {
    json!({"@timestamp": time, "user": {"name": user}, "port": port, "tenant": "t", "steps": steps})
}

fn key_of(user: &str) -> String {
    format!("[\"t\",\"{user}\"]")
}

/// Alerts of a rule: the key, the times of the window (ms), and what else they say.
fn found<'j>(journal: &'j Journal, rule: &'static str) -> impl Iterator<Item = &'j WindowAlert> {
    let alerts = journal.emissions.iter().filter_map(|emission| match &emission.content {
        EmissionContent::Alert(alert) => Some(alert),
        EmissionContent::Event { .. } => None,
    });
    alerts.filter(move |alert| alert.definition.rule.as_ref().unwrap().id == rule)
}

/// All rules that the tests look at, with few keys.
fn all_rules(max_keys: usize) -> BTreeMap<String, std::sync::Arc<AggregateDefinition>> {
    let steps = json!([{"query": "a: 1"}, {"query": "a: 2"}, {"query": "a: 3"}]);
    let sequence = |ordered: bool| json!({"type": "sequence", "query": null, "within": "60s", "lateness": "60s", "ordered": ordered, "steps": steps, "max_keys": max_keys});
    let threshold = |threshold: Value| json!({"type": "threshold", "window": "60s", "lateness": "60s", "max_keys": max_keys, "threshold": threshold});
    rules([
        ("scan", threshold(json!({"distinct": "port", "at_least": 3}))),
        ("bytes", threshold(json!({"sum": "port", "at_least": 9}))),
        ("many", threshold(json!({"count": 4}))),
        (
            "silent",
            json!({"type": "absence", "after": "2m", "max_keys": max_keys}),
        ),
        (
            "first",
            json!({"type": "new_value", "learn_for": "2m", "max_keys": max_keys}),
        ),
        ("ordered", sequence(true)),
        ("any_order", sequence(false)),
        (
            "rate",
            json!({"type": "rate_of_change", "window": "30s", "max_keys": max_keys,
                "change": {"rise_factor": 2.0, "drop_percent": 60, "baseline_windows": 3, "min_events": 2}}),
        ),
    ])
}

#[test]
fn a_sum_beyond_the_range_of_a_double_has_a_value_and_is_read_again() {
    let mut journal = Journal::with(all_rules(1000));
    let huge = |time: i64| {
        let mut event = at(time, "a", 0, 0);
        event["port"] = 1.5e308.into();
        event
    };
    journal.add("a", Some(1), &[(0, huge(1_000)), (1, huge(1_500))]);
    journal.check();
    journal.base();
    journal.check();
    let alerts: Vec<&WindowAlert> = found(&journal, "bytes").collect();
    assert_eq!(alerts.len(), 1);
    assert!(
        alerts[0].value.as_ref().is_some_and(Value::is_number),
        "{:?}",
        alerts[0].value
    );
}

/// A journal of rules that is read again at any moment leads to the same state and makes the same alerts.
#[test]
fn random_journals_of_rules() {
    let mut alerts = BTreeMap::new();
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut journal = Journal::with(all_rules(random.usize(2..8)));
        let mut next = 0;
        for _ in 0..random.usize(1..50) {
            match random.u8(0..10) {
                0..6 => {
                    let users = ["a", "b", "c", "d", "e", "f"];
                    let batch = (next..next + random.u64(1..20)).map(|offset| {
                        let user = users[random.usize(0..users.len())];
                        let event = at(random.i64(0..1_200_000), user, random.u64(0..5), random.u64(0..8));
                        (offset, event)
                    });
                    let batch: Vec<(u64, Value)> = batch.collect();
                    next += batch.len() as u64;
                    journal.add("a", Some(next - 1), &batch);
                }
                6..9 => journal.close_at(random.i64(0..1_500_000)),
                _ => journal.base(),
            }
            journal.check();
        }
        let offsets = journal.emissions.iter().map(|emission| emission.offset);
        assert!(offsets.eq(0..journal.emissions.len() as u64), "seed {seed}");
        for id in [
            "scan",
            "bytes",
            "many",
            "silent",
            "first",
            "ordered",
            "any_order",
            "rate",
        ] {
            *alerts.entry(id).or_insert(0) += found(&journal, id).count();
        }
    }
    // The journals were of use for each kind.
    assert!(alerts.values().all(|count| *count > 10), "{alerts:?}");
}

/// Runs events of which none is late, in batches, with closings and bases between. The first number says how far an event may be behind
/// those before it, ms.
fn run(
    random: &mut fastrand::Rng,
    behind: i64,
    mut event: impl FnMut(&mut fastrand::Rng, i64) -> Value,
) -> (Journal, Vec<Vec<Value>>) {
    let mut journal = Journal::with(all_rules(1000));
    let (mut batches, mut next, mut now) = (Vec::new(), 0, 100_000);
    for _ in 0..random.usize(10..60) {
        let batch: Vec<Value> = (0..random.usize(1..12))
            .map(|_| {
                now += random.i64(0..8_000);
                let time = now - random.i64(0..=behind);
                event(random, time)
            })
            .collect();
        let numbered: Vec<(u64, Value)> = (next..).zip(batch.iter().cloned()).collect();
        next += batch.len() as u64;
        journal.add("a", Some(next - 1), &numbered);
        batches.push(batch);
        match random.u8(0..4) {
            // Events that come later are not earlier than this.
            0 => journal.close_at(now - behind),
            1 => journal.base(),
            _ => {}
        }
    }
    journal.check();
    (journal, batches)
}

/// What a threshold measures of events.
type MeasureOf = fn(&[&Value]) -> f64;

fn time_of(event: &Value) -> i64 {
    event["@timestamp"].as_i64().unwrap()
}

fn user_of(event: &Value) -> &str {
    event["user"]["name"].as_str().unwrap()
}

/// A threshold is reached in each window of its length that has enough, and no alert is for less than a window that is longer by one
/// in sixty.
#[test]
fn thresholds_miss_no_window_and_make_none_up() {
    let window = 60_000;
    let pane = window / 60;
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let behind = [0, 5_000, 40_000][random.usize(0..3)];
        let users = ["a", "b"];
        let (journal, batches) = run(&mut random, behind, |random, time| {
            at(time, users[random.usize(0..2)], random.u64(0..6), 0)
        });
        let measures: [(&str, f64, MeasureOf); 3] = [
            ("many", 4.0, |events| events.len() as f64),
            ("bytes", 9.0, |events| {
                events.iter().map(|event| event["port"].as_f64().unwrap()).sum()
            }),
            ("scan", 3.0, |events| {
                let ports: std::collections::BTreeSet<u64> =
                    events.iter().map(|event| event["port"].as_u64().unwrap()).collect();
                ports.len() as f64
            }),
        ];
        for (rule, at_least, measure) in measures {
            for user in users {
                let own: Vec<&Value> = batches
                    .iter()
                    .flatten()
                    .filter(|event| user_of(event) == user)
                    .collect();
                let key = key_of(user);
                let alerts: Vec<&WindowAlert> = found(&journal, rule).filter(|alert| *alert.key == *key).collect();
                let within = |start: i64, end: i64| -> Vec<&Value> {
                    own.iter()
                        .copied()
                        .filter(|event| (start..end).contains(&time_of(event)))
                        .collect()
                };
                for alert in &alerts {
                    assert_eq!(alert.end_ms - alert.start_ms, window + pane);
                    let of_alert = measure(&within(alert.start_ms, alert.end_ms));
                    assert!(of_alert >= at_least, "seed {seed}: {rule} of {user}: {alert:?}");
                }
                // At most one in each length.
                for (number, one) in alerts.iter().enumerate() {
                    let mut others = alerts[number + 1..].iter();
                    assert!(
                        others.all(|other| one.end_ms.abs_diff(other.end_ms) >= window as u64),
                        "seed {seed}: {rule}"
                    );
                }
                for event in &own {
                    let end = time_of(event) + 1;
                    if measure(&within(end - window, end)) >= at_least {
                        let near = |alert: &&WindowAlert| alert.end_ms.abs_diff(end) <= (window + 2 * pane) as u64;
                        assert!(
                            alerts.iter().any(near),
                            "seed {seed}: {rule} of {user} at {end}: {alerts:?}"
                        );
                    }
                }
            }
        }
    }
}

/// A threshold raises its alert with the batch in which it is reached.
#[test]
fn a_burst_of_the_whole_length_is_found_wherever_it_begins() {
    for start in (0..60_000).step_by(777) {
        let mut journal = Journal::with(all_rules(100));
        for (offset, time) in [0, 20_000, 40_000, 59_999].into_iter().enumerate() {
            assert_eq!(found(&journal, "many").count(), 0);
            let offset = offset as u64;
            journal.add("a", Some(offset), &[(offset, at(start + time, "a", 1, 0))]);
        }
        assert_eq!(found(&journal, "many").count(), 1, "{start}");
        // What is longer by more than two panes is no burst.
        let mut journal = Journal::with(all_rules(100));
        for (offset, time) in [0, 20_000, 40_000, 62_000].into_iter().enumerate() {
            let offset = offset as u64;
            journal.add("a", Some(offset), &[(offset, at(start + time, "a", 1, 0))]);
        }
        assert_eq!(found(&journal, "many").count(), 0, "{start}");
    }
}

#[test]
fn many_values_are_a_sample_and_bounded() {
    let threshold = |at_least: u64| {
        let threshold = json!({"distinct": "port", "at_least": at_least});
        rules([(
            "scan",
            json!({"type": "threshold", "window": "60s", "threshold": threshold}),
        )])
    };
    for at_least in [500_u64, 20_000] {
        let mut journal = Journal::with(threshold(at_least));
        for batch in 0..2 * at_least / 100 {
            let events: Vec<(u64, Value)> = (0..100)
                .map(|n| (batch * 100 + n, at(1000 + batch as i64 / 8, "a", batch * 100 + n, 0)))
                .collect();
            journal.add("a", Some(batch * 100 + 99), &events);
            if let Some(alert) = found(&journal, "scan").next() {
                let reached = ((batch + 1) * 100) as f64 / at_least as f64;
                assert!((0.85..1.2).contains(&reached), "{at_least}: {reached} {alert:?}");
                break;
            }
        }
        assert_eq!(found(&journal, "scan").count(), 1, "{at_least}");
    }
    // A scan that does not end takes a bounded place, and raises an alert in each length.
    let mut journal = Journal::with(threshold(20));
    for second in 0..300 {
        let events: Vec<(u64, Value)> = (0..200)
            .map(|n| (second * 200 + n, at(second as i64 * 1000, "a", second * 200 + n, 0)))
            .collect();
        journal.add("a", Some(second * 200 + 199), &events);
    }
    let bytes: usize = journal
        .windows
        .to_base()
        .iter()
        .map(|base| serde_json::to_string(base).unwrap().len())
        .sum();
    assert!(bytes < 30_000, "{bytes}");
    assert_eq!(found(&journal, "scan").count(), 5);
    journal.check();
}

/// Returns the alerts of sequences: for each, the number of the event that completes it, in the order in which they come. Events since the
/// last alert are looked at anew for each event.
fn model_of_sequence(batches: &[Vec<Value>], user: &str, within: i64, is_ordered: bool) -> Vec<usize> {
    let steps = 3;
    let mut since: Vec<(i64, u16)> = Vec::new();
    let mut alerts = Vec::new();
    let own = batches.iter().flatten().filter(|event| user_of(event) == user);
    for (number, event) in own.enumerate() {
        let mask = event["steps"].as_u64().unwrap() as u16;
        if mask == 0 {
            continue;
        }
        since.push((time_of(event), mask));
        since.sort_by_key(|(time, mask)| (*time, mask.trailing_zeros(), *mask));
        let is_complete = (0..since.len()).any(|first| {
            let start = since[first].0;
            let rest = since[first..].iter().take_while(|(time, _)| *time <= start + within);
            let mut reached = 0;
            let mut met = 0_u16;
            for (place, (_, mask)) in rest.enumerate() {
                // The chain begins with the first one.
                if is_ordered && place == 0 && mask & 1 == 0 {
                    return false;
                }
                if mask & (1 << reached) != 0 {
                    reached += 1;
                }
                met |= mask;
                if (is_ordered && reached == steps) || (!is_ordered && met == (1 << steps) - 1) {
                    return true;
                }
            }
            false
        });
        if is_complete {
            alerts.push(number);
            since.clear();
        }
    }
    alerts
}

#[test]
fn sequences_are_those_of_a_model_that_looks_at_all_events() {
    let mut alerts = 0;
    for seed in 0..80 {
        let mut random = fastrand::Rng::with_seed(seed);
        let behind = [0, 5_000, 60_000][random.usize(0..3)];
        let users = ["a", "b"];
        // Times that are often the same.
        let unit = [1, 4_000][random.usize(0..2)];
        let (journal, batches) = run(&mut random, behind, |random, time| {
            at(
                time / unit * unit,
                users[random.usize(0..2)],
                0,
                [1, 2, 4, random.u64(0..8)][random.usize(0..4)],
            )
        });
        for user in users {
            for (rule, is_ordered) in [("ordered", true), ("any_order", false)] {
                let expected = model_of_sequence(&batches, user, 60_000, is_ordered);
                let key = key_of(user);
                let found: Vec<&WindowAlert> = found(&journal, rule).filter(|alert| *alert.key == *key).collect();
                assert_eq!(found.len(), expected.len(), "seed {seed}: {rule} of {user}: {found:?}");
                alerts += found.len();
                for alert in found {
                    assert_eq!((alert.events, alert.steps.len()), (3, 3));
                    assert!(!is_ordered || alert.steps.is_sorted(), "seed {seed}: {alert:?}");
                    assert!(alert.end_ms - alert.start_ms <= 60_000, "seed {seed}: {alert:?}");
                    // Each step has an event at its time.
                    for (step, time) in alert.steps.iter().enumerate() {
                        let has_step = |event: &&Value| {
                            user_of(event) == user
                                && time_of(event) == *time
                                && event["steps"].as_u64().unwrap() & (1 << step) != 0
                        };
                        assert!(
                            batches.iter().flatten().any(|event| has_step(&event)),
                            "seed {seed}: {alert:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(alerts > 200, "{alerts}");
}

#[test]
fn a_sequence_says_when_its_steps_were_and_starts_anew() {
    let mut journal = Journal::with(all_rules(100));
    let events = [(10, 1), (20, 1), (30, 2), (40, 1), (50, 4), (55, 4)];
    let events: Vec<(u64, Value)> = (0..)
        .zip(events.map(|(second, steps)| at(second * 1000, "a", 0, steps)))
        .collect();
    journal.add("a", Some(5), &events);
    let alerts: Vec<&WindowAlert> = found(&journal, "ordered").collect();
    assert_eq!(alerts.len(), 1);
    assert_eq!(alerts[0].steps, [20_000, 30_000, 50_000]);
    assert_eq!(
        (alerts[0].start_ms, alerts[0].end_ms, alerts[0].events),
        (20_000, 50_000, 3)
    );
    // The last event alone is no sequence, and is forgotten.
    assert_eq!(found(&journal, "any_order").count(), 1);
    journal.close_at(55_000 + 60_000 + 60_000 + 1_000);
    let keys: Vec<_> = journal
        .windows
        .to_base()
        .into_iter()
        .flat_map(|base| base.keys)
        .collect();
    assert!(keys.iter().all(|key| !key.aggregate.contains("order")), "{keys:?}");
}

#[test]
fn keys_of_sequences_beyond_the_maximum_are_counted() {
    let mut journal = Journal::with(rules([(
        "ordered",
        json!({"type": "sequence", "query": null, "within": "60s", "max_keys": 2, "steps": [{"query": "a: 1"}, {"query": "a: 2"}]}),
    )]));
    let users = ["a", "b", "c"];
    let events: Vec<(u64, Value)> = (0..).zip(users.map(|user| at(1000, user, 0, 1))).collect();
    journal.add("a", Some(2), &events);
    assert_eq!(journal.windows.counts().overflowed, 1);
    // A key with an alert makes place.
    journal.add("a", Some(4), &[(3, at(2000, "a", 0, 2)), (4, at(3000, "c", 0, 1))]);
    journal.add("a", Some(5), &[(5, at(4000, "c", 0, 2))]);
    assert_eq!(found(&journal, "ordered").count(), 2);
    assert_eq!(journal.windows.counts().overflowed, 1);
    journal.check();
}

/// Windows of a rate, by a model that counts the events of each window and of those before it.
fn model_of_rate(batches: &[Vec<Value>], user: &str, through: i64) -> Vec<(i64, u64)> {
    let (window, baseline) = (30_000, 3);
    let own = batches.iter().flatten().filter(|event| user_of(event) == user);
    let times: Vec<i64> = own.map(time_of).collect();
    let count = |start: i64| {
        times
            .iter()
            .filter(|time| (start..start + window).contains(*time))
            .count() as u64
    };
    let Some(first) = times.iter().min().map(|time| time - time % window) else {
        return Vec::new();
    };
    let (mut alerts, mut last) = (Vec::new(), 0);
    let mut start = first + baseline * window;
    while start + window + 10_000 <= through {
        let before: u64 = (1..=baseline).map(|n| count(start - n * window)).sum();
        let (mean, own) = (before as f64 / baseline as f64, count(start));
        let found = if own >= 2 && own as f64 >= 2.0 * mean {
            1
        } else if mean >= 2.0 && own as f64 <= mean * 0.4 {
            2
        } else {
            0
        };
        if found != 0 && found != last {
            alerts.push((start, own));
        }
        last = found;
        start += window;
    }
    alerts
}

#[test]
fn rates_of_change_are_those_of_a_model_that_counts_all_windows() {
    let mut alerts = 0;
    for seed in 0..80 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pace = 1;
        let (mut journal, batches) = run(&mut random, 8_000, |random, time| {
            // Bursts and pauses of a user that is never away for as long as a baseline.
            if random.u8(0..20) == 0 {
                pace = random.u64(1..6);
            }
            at(time, if random.u64(0..6) < pace { "a" } else { "b" }, 0, 0)
        });
        let latest = batches.iter().flatten().map(time_of).max().unwrap();
        journal.close_at(latest);
        for user in ["a", "b"] {
            let own = batches.iter().flatten().filter(|event| user_of(event) == user);
            let mut times: Vec<i64> = own.map(time_of).collect();
            times.sort_unstable();
            if times.is_empty() || times.windows(2).any(|pair| pair[1] - pair[0] > 60_000) {
                continue;
            }
            let key = key_of(user);
            let found = found(&journal, "rate").filter(|alert| *alert.key == *key);
            let found: Vec<(i64, u64)> = found.map(|alert| (alert.start_ms, alert.events)).collect();
            assert_eq!(found, model_of_rate(&batches, user, latest), "seed {seed}: {user}");
            alerts += found.len();
        }
    }
    assert!(alerts > 50, "{alerts}");
}

#[test]
fn a_rate_is_judged_once_its_key_is_known_for_long_enough() {
    let mut journal = Journal::with(all_rules(100));
    let mut next = 0;
    let mut add = |journal: &mut Journal, window: i64, count: u64| {
        let events = (0..count).map(|n| (next + n, at(window * 30_000 + n as i64, "a", 0, 0)));
        let events: Vec<(u64, Value)> = events.collect();
        next += count;
        journal.add("a", Some(next - 1), &events);
    };
    // A rise in the third window, when there is no baseline of three yet; another one in the fifth.
    for (window, count) in [(0, 2), (1, 2), (2, 50), (3, 2), (4, 60)] {
        add(&mut journal, window, count);
        journal.close_at((window + 1) * 30_000 + 9_999);
    }
    assert_eq!(found(&journal, "rate").count(), 1, "a drop from the window of 50");
    journal.close_at(5 * 30_000 + 10_000);
    let alerts: Vec<&WindowAlert> = found(&journal, "rate").collect();
    let last = alerts[1];
    assert_eq!((last.start_ms, last.end_ms, last.events), (120_000, 150_000, 60));
    assert_eq!((last.value.as_ref(), last.baseline), (Some(&json!(60)), Some(18.0)));
    // Silence is one drop, and then the key is forgotten.
    journal.close_at(30 * 30_000);
    assert_eq!(found(&journal, "rate").count(), 3);
    let keys: Vec<_> = journal
        .windows
        .to_base()
        .into_iter()
        .flat_map(|base| base.keys)
        .collect();
    assert!(keys.iter().all(|key| key.aggregate != "#rule rate"), "{keys:?}");
    journal.check();
}

/// A journal that an earlier build wrote: thresholds counted in windows that overlap by quarters.
#[test]
fn a_journal_of_an_earlier_build_is_read_to_its_end_and_goes_on() {
    let body = json!({"type": "threshold", "name": "many", "query": "*", "group_by": ["user.name"], "window": "60s", "threshold": {"count": 3}});
    let old = json!({"index": "", "every": "60000ms", "by": ["tenant", "user.name"], "metrics": {}, "lateness": "10000ms", "max_keys": 100_000,
        "rule": {"id": "many", "body": body, "kind": {"threshold": {"at_least": 3.0}}}});
    let silent = json!({"index": "", "every": "12000ms", "by": ["tenant", "user.name"], "metrics": {}, "lateness": "10000ms", "max_keys": 100_000,
        "rule": {"id": "silent", "body": {"type": "absence", "name": "silent", "query": "*", "group_by": ["user.name"], "after": "2m"},
            "kind": {"absence": {"after": 120_000}}}});
    let base = json!({"base": {"part": 0, "parts": 1, "generation": "g", "definitions": {"#rule many": old, "#rule silent": silent}, "emitted": 7,
        "partitions": {"a": {"through": 9, "max_ms": 1000}}, "rows": [
            {"a": "#rule many", "w": 0, "k": "[\"t\",\"ann\"]", "r": {"n": 1, "v": []}}],
        "keys": [{"a": "#rule many", "k": "[\"t\",\"bob\"]", "s": {"alerted": 0}}, {"a": "#rule silent", "k": "[\"t\",\"ann\"]", "s": {"seen": 12_000}}]}});
    let delta = json!({"delta": {"partition": "a", "through": 12, "max_ms": 40_000, "rows": [
        {"a": "#rule many", "w": 0, "k": "[\"t\",\"ann\"]", "r": {"n": 2, "v": []}},
        {"a": "#rule many", "w": 0, "k": "[\"t\",\"bob\"]", "r": {"n": 9, "v": []}},
        {"a": "#rule silent", "w": 36_000, "k": "[\"t\",\"ann\"]", "r": {"n": 2, "v": []}}]}});
    let records = [base, delta].into_iter().enumerate().map(|(order, content)| {
        let document =
            json!({"pipeline": PIPELINE, "order": order, "token": order.to_string(), "state": content.to_string()});
        Record::of_document(document.to_string().as_bytes()).unwrap()
    });
    let records: Vec<Record> = records.collect();
    let (windows, emissions) = Windows::of_journal(&PIPELINE.into(), &BTreeMap::new(), &records);
    // The alert of the delta is the one that the earlier build numbered so.
    assert_eq!((emissions.len(), emissions[0].offset, windows.emitted()), (1, 7, 8));

    let next = rules([
        (
            "many",
            json!({"type": "threshold", "window": "60s", "threshold": {"count": 3}}),
        ),
        ("silent", json!({"type": "absence", "after": "2m"})),
    ]);
    assert_eq!(windows.changed(&next), ["#rule many"]);
    assert!(windows.has_open(&windows.changed(&next)));
    let mut journal = Journal::with(next.clone());
    journal.windows = windows;
    journal.append(Content::Closing {
        watermark: i64::MIN,
        retired: vec!["#rule many".to_owned()],
    });
    journal.windows.define(&next);
    journal.base();
    journal.check();
    // The threshold counts anew, and who is absent is known.
    journal.add(
        "a",
        Some(15),
        &(13..16).map(|n| (n, of_user(50, "bob", 1))).collect::<Vec<_>>(),
    );
    journal.close_at(170_000);
    let many = found(&journal, "many").count();
    let silent: Vec<(&str, i64)> = found(&journal, "silent")
        .map(|alert| (&*alert.key, alert.start_ms))
        .collect();
    assert_eq!((many, &silent[..]), (1, &[("[\"t\",\"ann\"]", 48_000)][..]));
    journal.check();
}
