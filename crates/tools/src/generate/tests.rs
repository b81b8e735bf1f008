//! Tests of the guarantees of generated events.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::event_type::{COMMON_FIELDS, event_types};
use super::*;

const START_MS: i64 = 1_795_000_000_000;

fn span(events: u64) -> Span {
    Span::Range {
        start_ms: START_MS,
        end_ms: START_MS + 3 * 86_400_000,
        events,
    }
}

fn generated(kind: Kind, events: u64, seed: u64) -> Vec<u8> {
    let weblog = GeneratorConfig::weblog(seed, WeblogShape::default(), span(events));
    all(&match kind {
        Kind::Weblog => weblog,
        Kind::Events => GeneratorConfig {
            kind,
            tenants: 40,
            ..weblog
        },
    })
}

fn profiled(profile: Profile, events: u64) -> Vec<u8> {
    let shape = WeblogShape {
        profile: Some(profile),
        sentence_words: None,
    };
    all(&GeneratorConfig::weblog(1, shape, span(events)))
}

fn all(config: &GeneratorConfig) -> Vec<u8> {
    let mut generator = Generator::new(config).unwrap();
    let mut out = Vec::new();
    let mut count = 0;
    loop {
        match generator.fill(&mut out, 1000, 0) {
            0 => break,
            more => count += more,
        }
    }
    let Span::Range { events, .. } = config.span else {
        panic!("the events have no end");
    };
    assert_eq!(count, events);
    out
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Value> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(line)))
        })
}

/// Collects the dotted paths of all values that are not objects; a point is one value.
fn paths(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.contains_key("lat") => {
            for (name, value) in fields {
                let path = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                paths(value, &path, into);
            }
        }
        _ => {
            into.insert(prefix.to_owned());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    for kind in [Kind::Events, Kind::Weblog] {
        assert_eq!(generated(kind, 2000, 7), generated(kind, 2000, 7));
        assert_ne!(generated(kind, 2000, 7), generated(kind, 2000, 8));
    }
}

/// 64-bit FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn the_bytes_of_a_seed_do_not_change_between_versions() {
    for (kind, expect) in [
        (Kind::Events, 0xdbf5_620b_3cea_f8a0),
        (Kind::Weblog, 0xaddf_f1eb_0520_5a94),
    ] {
        let sum = checksum(&generated(kind, 1000, 1));
        assert_eq!(sum, expect, "{kind:?}: {sum:#x}");
    }
}

#[test]
fn the_tables_have_enough_types_and_fields_and_no_field_has_two_types() {
    let types = event_types().unwrap();
    let mut fields = BTreeMap::new();
    let common = COMMON_FIELDS
        .iter()
        .map(|(path, mapping)| ((*path).to_owned(), *mapping));
    for (path, mapping) in common.chain(types.iter().flat_map(|of| of.fields.clone())) {
        let known = *fields.entry(path.clone()).or_insert(mapping);
        assert_eq!(known, mapping, "{path}");
    }
    assert!(types.len() >= 60, "{} types", types.len());
    assert!(fields.len() >= 250, "{} fields", fields.len());
    let names: BTreeSet<_> = types.iter().map(|of| &of.name).collect();
    assert_eq!(names.len(), types.len(), "a name occurs twice");
}

#[test]
fn events_are_what_the_issue_asks_for() {
    let bytes = generated(Kind::Events, 30_000, 1);
    let mut seen_fields = BTreeSet::new();
    let mut seen_types = BTreeSet::new();
    let mut seen_classes = BTreeSet::new();
    let mut tenants: HashMap<String, u64> = HashMap::new();
    let mut hours = [0_u64; 24];
    let (mut last, mut out_of_order, mut late) = (0_i64, 0, 0);
    for event in lines(&bytes) {
        paths(&event, "", &mut seen_fields);
        seen_types.insert(event["event_type"].as_str().unwrap().to_owned());
        seen_classes.insert(event["event_class"].as_str().unwrap().to_owned());
        *tenants.entry(event["tenant"].as_str().unwrap().to_owned()).or_default() += 1;
        let time = event["@timestamp"].as_str().unwrap();
        hours[time[11..13].parse::<usize>().unwrap()] += 1;
        let time_ms = time_ms(time).unwrap();
        assert!((START_MS..START_MS + 3 * 86_400_000).contains(&time_ms), "{time}");
        out_of_order += u64::from(time_ms < last);
        late += u64::from(time_ms < last - 60_000);
        last = last.max(time_ms);
    }
    assert_eq!(seen_classes.len(), 5);
    assert!(seen_types.len() >= 60, "{} types", seen_types.len());
    assert!(seen_fields.len() >= 250, "{} fields", seen_fields.len());
    let largest = *tenants.values().max().unwrap() as f64 / 30_000.0;
    assert!((0.16..0.26).contains(&largest), "the largest tenant has {largest}");
    assert_eq!(tenants.len(), 40);
    assert!(
        hours.iter().max().unwrap() > &(hours.iter().min().unwrap() * 2),
        "no daily rhythm: {hours:?}"
    );
    assert!((300..3000).contains(&out_of_order), "{out_of_order} out of order");
    assert!(late > 50, "{late} late");
}

#[test]
fn every_field_is_in_the_template() {
    for kind in [Kind::Events, Kind::Weblog] {
        let (_, template) = index_template(kind).unwrap();
        let mut seen = BTreeSet::new();
        lines(&generated(kind, 10_000, 3)).for_each(|event| paths(&event, "", &mut seen));
        for path in seen {
            let pointer = format!(
                "/template/mappings/properties/{}/type",
                path.replace('.', "/properties/")
            );
            assert!(template.pointer(&pointer).is_some(), "{path} has no type");
        }
    }
}

#[test]
fn web_logs_have_their_size_fields_and_cardinalities() {
    let events = 40_000;
    let bytes = generated(Kind::Weblog, events, 1);
    let average = bytes.len() as f64 / events as f64;
    assert!((average - 465.6).abs() < 465.6 * 0.01, "{average} bytes a line");
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut message_bytes = 0;
    for event in lines(&bytes) {
        let fields = event.as_object().unwrap();
        assert_eq!(fields.len(), 14);
        message_bytes += fields["message"].as_str().unwrap().len();
        for (name, value) in fields {
            values.entry(name.clone()).or_default().insert(value.to_string());
        }
    }
    let count = |name: &str| values[name].len();
    assert_eq!(count("tenant"), 13);
    assert!(count("session") > 15_000, "{} sessions", count("session"));
    assert!(count("client_ip") > 15_000, "{} addresses", count("client_ip"));
    assert!((1000..25_000).contains(&count("path")), "{} paths", count("path"));
    assert!((60..100).contains(&(count("city") + count("user_agent"))));
    let average_message = message_bytes / events as usize;
    assert!((25..70).contains(&average_message), "{average_message} bytes of text");
}

/// Counts the events by the values of a field, most frequent first.
fn frequencies(bytes: &[u8], field: &str) -> Vec<u64> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for event in lines(bytes) {
        *counts.entry(event[field].to_string()).or_default() += 1;
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Returns the share of the events with the most frequent word of the messages, and their words on average.
fn words(bytes: &[u8]) -> (f64, f64) {
    let (mut counts, mut words, mut events) = (HashMap::<String, u64>::new(), 0, 0);
    for event in lines(bytes) {
        events += 1;
        let message = event["message"].as_str().unwrap().to_lowercase();
        words += message.split(' ').count();
        let distinct: BTreeSet<&str> = message.split(' ').collect();
        for word in distinct {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let most = counts.values().max().copied().unwrap_or_default();
    (most as f64 / f64::from(events), words as f64 / f64::from(events))
}

#[test]
fn uniform_values_are_even() {
    let bytes = profiled(Profile::Uniform, 20_000);
    for (field, distinct) in [("tenant", 13), ("status", 13), ("host", 48)] {
        let counts = frequencies(&bytes, field);
        assert_eq!(counts.len(), distinct, "{field}");
    }
    for field in ["tenant", "host"] {
        let counts = frequencies(&bytes, field);
        assert!(counts[0] < counts[counts.len() - 1] * 3 / 2, "{field}: {counts:?}");
    }
    assert!(frequencies(&bytes, "client_ip")[0] < 10);
    let (most, average) = words(&bytes);
    assert!(most < 0.01, "a word is in {most}");
    assert!((7.9..8.1).contains(&average), "{average} words");
}

#[test]
fn zipf_values_have_few_frequent_and_many_rare_ones() {
    let bytes = profiled(Profile::Zipf, 20_000);
    let addresses = frequencies(&bytes, "client_ip");
    // 1 / H(2^22) of the events have the first address, and half as many the second one.
    let first = addresses[0] as f64 / 20_000.0;
    assert!((0.055..0.072).contains(&first), "the first address has {first}");
    let ratio = addresses[0] as f64 / addresses[1] as f64;
    assert!(
        (1.7..2.3).contains(&ratio),
        "the first address has {ratio} times as many as the second one"
    );
    let once = addresses.iter().filter(|count| **count == 1).count();
    assert!(once > addresses.len() * 2 / 3, "{once} of {} once", addresses.len());
    let tenants = frequencies(&bytes, "tenant");
    assert!(tenants.len() == 13 && tenants[0] > 3 * tenants[12], "{tenants:?}");
}

#[test]
fn unique_addresses_do_not_repeat_and_one_word_is_in_two_thirds() {
    let bytes = profiled(Profile::Unique, 30_000);
    assert_eq!(frequencies(&bytes, "client_ip").len(), 30_000);
    assert!(frequencies(&bytes, "session").len() > 29_990);
    let (most, average) = words(&bytes);
    assert!((0.63..0.70).contains(&most), "a word is in {most}");
    assert!((12.9..13.1).contains(&average), "{average} words");
    let tenants = frequencies(&bytes, "tenant");
    assert_eq!(tenants.len(), 200);
    assert!(tenants[0] > 100 * tenants[199], "{tenants:?}");
}

#[test]
fn words_are_distinct() {
    let mut seen = BTreeSet::new();
    for rank in 0..=u64::from(u16::MAX) {
        let mut word = Vec::new();
        profile::write_word(&mut word, rank);
        assert!(word.len() >= 4 && seen.insert(word), "{rank}");
    }
}

#[test]
fn sentences_have_the_wanted_length_and_profiles_are_for_web_logs() {
    for wanted in [1, 2, 40] {
        let shape = WeblogShape {
            profile: Some(Profile::Zipf),
            sentence_words: Some(wanted),
        };
        let config = GeneratorConfig::weblog(1, shape, span(5000));
        let (_, average) = words(&all(&config));
        let ratio = average / f64::from(wanted);
        assert!((0.95..1.05).contains(&ratio), "{average} words, wanted {wanted}");
        let refused = Generator::new(&GeneratorConfig {
            kind: Kind::Events,
            ..config
        });
        let error = refused.err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("--profile is for events of --kind weblog"));
    }
}

#[test]
fn bulk_bodies_alternate_actions_and_events() {
    let config = GeneratorConfig {
        seed: 1,
        kind: Kind::Events,
        weblog: WeblogShape::default(),
        format: Format::Bulk {
            index: "events-x".to_owned(),
        },
        tenants: 1,
        span: Span::Live {
            start_ms: START_MS,
            events_per_second: 100.0,
        },
    };
    let mut generator = Generator::new(&config).unwrap();
    let mut out = Vec::new();
    assert_eq!(generator.fill(&mut out, 1000, START_MS + 990), 100);
    assert_eq!(generator.fill(&mut out, 1000, START_MS + 990), 0);
    let lines: Vec<Value> = lines(&out).collect();
    assert_eq!(lines.len(), 200);
    assert_eq!(lines[0], serde_json::json!({ "create": { "_index": "events-x" } }));
    assert_eq!(lines[1]["tenant"], "tenant-001");
}

/// Counts the events of each hour from `start_ms` on.
fn per_hour(generator: &mut Generator, start_ms: i64, hours: usize, now_ms: i64) -> Vec<u64> {
    let mut counts = vec![0; hours];
    let mut out = Vec::new();
    while generator.fill(&mut out, 1000, now_ms) > 0 {
        for event in lines(&out) {
            let hour = (time_ms(event["@timestamp"].as_str().unwrap()).unwrap() - start_ms).div_euclid(3_600_000);
            if let Some(count) = usize::try_from(hour).ok().and_then(|hour| counts.get_mut(hour)) {
                *count += 1;
            }
        }
        out.clear();
    }
    counts
}

#[test]
fn what_goes_on_has_the_rhythm_and_the_volume_of_the_history() {
    const DAY_MS: i64 = 86_400_000;
    // A Monday, 10:30 UTC.
    let end_ms = time_ms("2026-11-23T10:30:00Z").unwrap();
    let (start_ms, events) = (end_ms - 28 * DAY_MS, 28_000);
    let of = |span| {
        let config = GeneratorConfig {
            seed: 28,
            kind: Kind::Events,
            weblog: WeblogShape::default(),
            format: Format::Ndjson,
            tenants: 5,
            span,
        };
        Generator::new(&config).unwrap()
    };
    let mut history = of(Span::Range {
        start_ms,
        end_ms,
        events,
    });
    let mut live = of(Span::Continued {
        range_start_ms: start_ms,
        range_end_ms: end_ms,
        events,
        start_ms: end_ms,
    });
    let hours = 7 * 24;
    let last_week = per_hour(&mut history, end_ms - 7 * DAY_MS, hours, 0);
    let this_week = per_hour(&mut live, end_ms, hours, end_ms + 7 * DAY_MS - 1);
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let ratio = sum(&this_week) / sum(&last_week);
    assert!((0.9..1.1).contains(&ratio), "this week has {ratio} of last week");
    // Hour by hour, six at a time: bursts may fall anywhere.
    for (number, (before, after)) in last_week.chunks(6).zip(this_week.chunks(6)).enumerate() {
        let ratio = sum(after) / sum(before);
        assert!((0.5..2.0).contains(&ratio), "part {number}: {after:?} after {before:?}");
    }
    // A weekend is a weekend, and no event comes before it is due.
    assert!(
        sum(&this_week[5 * 24..6 * 24]) < 0.7 * sum(&this_week[24..48]),
        "{this_week:?}"
    );
    assert_eq!(live.fill(&mut Vec::new(), 10, end_ms + 7 * DAY_MS - 1), 0);
}
