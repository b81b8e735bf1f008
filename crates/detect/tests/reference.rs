//! Random Sigma rules and events: the same matches as the reference evaluator, rule by rule and event by event.

use std::fmt::Write;
use std::sync::Arc;

use fastrand::Rng;
use firn_detect::{Evaluator, LogSources, RuleSet, sigma};
use rsigma_eval::{Engine, JsonEvent};
use rsigma_parser::parse_sigma_yaml;
use serde_json::{Map, Value, json};

const FIELDS: &[&str] = &["Image", "CommandLine", "EventID", "nested.user", "Absent"];
const WORDS: &[&str] = &[
    "cmd", "CMD", "exe", "\\", ".", " ", "-", "a", "b", "10.0.0.1", "11", "straße", "ÄB", "K",
];

fn text(random: &mut Rng, words_max: usize) -> String {
    (0..random.usize(1..=words_max))
        .map(|_| WORDS[random.usize(..WORDS.len())])
        .collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A value of a rule, sometimes with wildcards.
fn pattern(random: &mut Rng) -> String {
    let mut pattern = text(random, 3);
    match random.u8(..6) {
        0 => pattern.insert(0, '*'),
        1 => pattern.push('*'),
        2 => {
            let middle = pattern
                .char_indices()
                .map(|(at, _)| at)
                .nth(pattern.chars().count() / 2);
            pattern.insert(middle.unwrap_or(0), if random.bool() { '*' } else { '?' });
        }
        _ => {}
    }
    quoted(&pattern)
}

fn item(random: &mut Rng, yaml: &mut String, indent: &str) {
    let mut field = FIELDS[random.usize(..FIELDS.len())];
    let count = random.usize(1..4);
    let words = |words_max: usize| move |random: &mut Rng| quoted(&text(random, words_max));
    type Values = Box<dyn Fn(&mut Rng) -> String>;
    let one_of = |values: &'static [&'static str]| -> Values {
        Box::new(move |random: &mut Rng| values[random.usize(..values.len())].to_owned())
    };
    let (modifiers, value, count): (&str, Values, usize) = match random.u8(..14) {
        0 | 1 => ("", Box::new(pattern), count),
        2 | 3 => ("|contains", Box::new(words(2)), count),
        4 => ("|endswith", Box::new(words(2)), count),
        5 => ("|startswith", Box::new(words(2)), count),
        6 => ("|contains|all", Box::new(words(1)), count + 1),
        7 => (
            "|re",
            one_of(&["c.d", "'(?i)cmd'", "a+b", "'^10\\.'", "exe$", "'[ab]{2}'"]),
            1,
        ),
        8 => ("", one_of(&["10", "11", "12", "1.5"]), count),
        9 => ("|gte", one_of(&["9", "10", "11"]), 1),
        10 => ("|cidr", one_of(&["10.0.0.0/8"]), 1),
        11 => ("|exists", one_of(&["true", "false"]), 1),
        12 => ("|contains|cased", Box::new(words(1)), count),
        // Of lists the reference compares the first value only.
        _ => {
            field = "Left";
            (
                ["|fieldref", "|fieldref|endswith"][random.usize(..2)],
                one_of(&["Right"]),
                1,
            )
        }
    };
    let _ = writeln!(yaml, "{indent}{field}{modifiers}:");
    for _ in 0..count {
        let _ = writeln!(yaml, "{indent}  - {}", value(random));
    }
}

fn rule(random: &mut Rng, number: usize) -> String {
    let mut yaml = format!("title: r{number}\nid: r{number}\nlogsource:\n  product: windows\ndetection:\n");
    for name in ["selection_a", "selection_b", "filter_a"] {
        let _ = writeln!(yaml, "  {name}:");
        if random.u8(..6) == 0 {
            let _ = writeln!(yaml, "    - {}", quoted(&text(random, 2)));
            continue;
        }
        let is_list = random.u8(..4) == 0;
        let mut fields = Vec::new();
        for _ in 0..random.usize(1..3) {
            let mut one = String::new();
            item(random, &mut one, if is_list { "      " } else { "    " });
            let key = one.split(':').next().unwrap_or_default().to_owned();
            if fields.contains(&key) {
                continue;
            }
            fields.push(key);
            if is_list {
                one.replace_range(4..6, "- ");
            }
            yaml.push_str(&one);
        }
    }
    let conditions = [
        "selection_a and not filter_a",
        "1 of selection_*",
        "all of selection_* and not 1 of filter_*",
        "2 of them",
        "selection_a or (selection_b and filter_a)",
        "not selection_a and selection_b",
        "all of them",
    ];
    let _ = writeln!(yaml, "  condition: {}", conditions[random.usize(..conditions.len())]);
    yaml
}

fn value(random: &mut Rng) -> Value {
    match random.u8(..10) {
        0 => json!(random.u8(8..13)),
        1 => json!(null),
        2 => json!([text(random, 3), text(random, 3)]),
        3 => json!(random.bool()),
        4 => json!("10.1.2.3"),
        5 => json!(random.u8(8..13).to_string()),
        _ => json!(text(random, 5)),
    }
}

fn event(random: &mut Rng) -> Map<String, Value> {
    let mut event = Map::new();
    for field in ["Image", "CommandLine", "EventID", "Other"] {
        if random.u8(..5) > 0 {
            event.insert(field.to_owned(), value(random));
        }
    }
    event.insert("Left".to_owned(), json!(text(random, 2)));
    event.insert("Right".to_owned(), json!(text(random, 1)));
    if random.bool() {
        event.insert("nested".to_owned(), json!({"user": value(random)}));
    }
    event
}

#[test]
fn random_rules_match_as_the_reference_does() {
    let seed = 20_261_129;
    let mut random = Rng::with_seed(seed);
    let (mut matches, mut compared) = (0, 0);
    for round in 0..40 {
        let yaml: Vec<String> = (0..50).map(|number| rule(&mut random, number)).collect();
        let mut rules = Vec::new();
        let mut engine = Engine::new();
        for yaml in &yaml {
            let mut loaded = sigma::load(yaml);
            let parsed = parse_sigma_yaml(yaml).unwrap();
            let accepted = parsed.rules.first().is_some_and(|rule| engine.add_rule(rule).is_ok());
            assert_eq!(
                loaded.rules.len() == 1,
                accepted,
                "seed {seed}: {:?}\n{yaml}",
                loaded.errors
            );
            rules.append(&mut loaded.rules);
        }
        let compiled = RuleSet::compile(rules, &LogSources::Any);
        assert_eq!(compiled.errors, []);
        let mut evaluator = Evaluator::new(Arc::new(compiled.rules));
        for _ in 0..100 {
            let event = event(&mut random);
            evaluator.begin();
            evaluator.push_object(&event);
            let mut found = Vec::new();
            evaluator.evaluate(&mut found);
            let mut found: Vec<String> = found
                .iter()
                .map(|rule| evaluator.rules().rules()[*rule as usize].id.clone())
                .collect();
            found.sort();
            let event = Value::Object(event);
            let mut expected: Vec<String> = engine
                .evaluate(&JsonEvent::borrow(&event))
                .iter()
                .filter_map(|result| result.header.rule_id.clone())
                .collect();
            expected.sort();
            matches += expected.len();
            compared += 1;
            if found != expected {
                let differing = found
                    .iter()
                    .find(|id| !expected.contains(id))
                    .or_else(|| expected.iter().find(|id| !found.contains(id)))
                    .unwrap();
                let number: usize = differing[1..].parse().unwrap();
                panic!(
                    "seed {seed}, round {round}: rule\n{}\nevent {event}\nfound: {}",
                    yaml[number],
                    found.contains(differing)
                );
            }
        }
    }
    // The random events are not all trivial.
    assert!(matches > compared, "{matches} matches of {compared} events");
}
