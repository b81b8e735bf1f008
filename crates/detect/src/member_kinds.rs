//! Kinds of the members of a definition: checked before it is deserialized, so that a mistake is said with its place and the kind that is
//! expected there, as Elasticsearch does.

use serde_json::{Map, Value};

use Kind::{AnyObject, Boolean, Date, Number, Object, Objects, OneOf, Query, Text, Texts, Whole};

/// What a member may be.
enum Kind {
    Text,
    Boolean,
    /// A number of a range, or any.
    Number,
    /// A whole number from 0 on.
    Whole,
    /// A text or a number.
    Date,
    /// A text or an object.
    Query,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    Texts,
    /// An object that is checked where it is read.
    AnyObject,
    Object(&'static [Member]),
    Objects(&'static [Member]),
}

struct Member {
    name: &'static str,
    kind: Kind,
    is_required: bool,
    /// Whether `null` stands for none.
    is_nullable: bool,
}

const fn optional(name: &'static str, kind: Kind) -> Member {
    Member {
        name,
        kind,
        is_required: false,
        is_nullable: true,
    }
}

const fn with_default(name: &'static str, kind: Kind) -> Member {
    Member {
        is_nullable: false,
        ..optional(name, kind)
    }
}

const fn required(name: &'static str, kind: Kind) -> Member {
    Member {
        is_required: true,
        ..with_default(name, kind)
    }
}

const TYPES: &[&str] = &[
    "sigma",
    "query",
    "threshold",
    "absence",
    "new_value",
    "sequence",
    "rate_of_change",
];
const LANGUAGES: &[&str] = &["kuery", "lucene", "kql"];

const RULE: &[Member] = &[
    required("type", OneOf(TYPES)),
    optional("name", Text),
    optional("description", Text),
    with_default("enabled", Boolean),
    optional("severity", Text),
    optional("risk_score", Whole),
    optional("tags", Texts),
    optional("references", Texts),
    optional("false_positives", Texts),
    optional("author", Text),
    optional("note", Text),
    optional("sigma", Text),
    optional("query", Query),
    optional("language", OneOf(LANGUAGES)),
    with_default(
        "exceptions",
        Objects(&[
            optional("name", Text),
            required("query", Query),
            with_default("language", OneOf(LANGUAGES)),
            optional("expires", Date),
        ]),
    ),
    optional("tenant", Text),
    with_default("pipelines", Texts),
    with_default("group_by", Texts),
    with_default("channels", Texts),
    with_default(
        "escalation",
        Objects(&[required("after", Text), required("channels", Texts)]),
    ),
    optional("window", Text),
    optional(
        "threshold",
        Object(&[
            optional("count", Whole),
            optional("distinct", Text),
            optional("sum", Text),
            optional("at_least", Number),
        ]),
    ),
    optional("after", Text),
    optional("learn_for", Text),
    optional("within", Text),
    optional("ordered", Boolean),
    optional(
        "steps",
        Objects(&[
            required("query", Query),
            with_default("language", OneOf(LANGUAGES)),
            optional("name", Text),
        ]),
    ),
    optional(
        "change",
        Object(&[
            optional("rise_factor", Number),
            optional("drop_percent", Number),
            optional("baseline_windows", Whole),
            optional("min_events", Whole),
        ]),
    ),
    optional("lateness", Text),
    optional("max_keys", Whole),
];

const RUN: &[Member] = &[
    required("index", Text),
    required("from", Date),
    optional("to", Date),
    with_default("fetch", Boolean),
];

const TEST: &[Member] = &[
    required("rule", AnyObject),
    required("index", Text),
    optional("from", Date),
    optional("to", Date),
    optional("examples", Whole),
    with_default("fetch", Boolean),
];

const SELECTION: &[Member] = &[optional("ids", Texts)];

/// Checks the members of the body of `_run`, a run of a rule over stored events.
///
/// # Errors
/// The first mistake: its place, and what is expected there.
pub fn check_run(body: &Map<String, Value>) -> Result<(), String> {
    check_members("", body, RUN)
}

/// Checks the members of the body of `_test`, except the definition in it.
///
/// # Errors
/// As [`check_run`].
pub fn check_test(body: &Map<String, Value>) -> Result<(), String> {
    check_members("", body, TEST)
}

/// Checks the members of the body of `_export`, which selects rules.
///
/// # Errors
/// As [`check_run`].
pub fn check_selection(body: &Map<String, Value>) -> Result<(), String> {
    check_members("", body, SELECTION)
}

/// Checks the members of a definition.
///
/// # Errors
/// The first mistake: its place, and what is expected there.
pub(crate) fn check(definition: &Map<String, Value>) -> Result<(), String> {
    check_members("", definition, RULE)
}

fn check_members(prefix: &str, object: &Map<String, Value>, members: &[Member]) -> Result<(), String> {
    if let Some(unknown) = object
        .keys()
        .find(|name| members.iter().all(|known| known.name != *name))
    {
        return Err(format!("unknown field [{prefix}{unknown}]"));
    }
    for member in members {
        let place = format!("{prefix}{}", member.name);
        match object.get(member.name) {
            None if member.is_required => return Err(format!("[{place}] is missing")),
            None => {}
            Some(Value::Null) if member.is_nullable => {}
            Some(value) => check_kind(&place, value, &member.kind)?,
        }
    }
    Ok(())
}

fn check_kind(place: &str, value: &Value, kind: &Kind) -> Result<(), String> {
    let expected = match (kind, value) {
        (Text, Value::String(_))
        | (Boolean, Value::Bool(_))
        | (Number, Value::Number(_))
        | (Date, Value::String(_) | Value::Number(_))
        | (Query, Value::String(_) | Value::Object(_))
        | (AnyObject, Value::Object(_)) => return Ok(()),
        (Whole, Value::Number(number)) if number.is_u64() => return Ok(()),
        (OneOf(known), Value::String(text)) if known.contains(&text.as_str()) => return Ok(()),
        (OneOf(known), Value::String(text)) => {
            return Err(format!("[{place}] must be one of [{}], not [{text}]", known.join(", ")));
        }
        (Texts, Value::Array(parts)) => {
            let is_other = |part: &&Value| !part.is_string();
            return match parts.iter().find(is_other) {
                None => Ok(()),
                Some(other) => Err(format!(
                    "[{place}] must be a list of strings, not of {}",
                    with_article(other)
                )),
            };
        }
        (Object(members), Value::Object(object)) => return check_members(&format!("{place}."), object, members),
        (Objects(members), Value::Array(parts)) => {
            for (number, part) in parts.iter().enumerate() {
                let Value::Object(object) = part else {
                    return Err(format!(
                        "[{place}] must be a list of objects, not of {}",
                        with_article(part)
                    ));
                };
                check_members(&format!("{place}[{number}]."), object, members)?;
            }
            return Ok(());
        }
        (Text | OneOf(_), _) => "a string",
        (Boolean, _) => "a boolean",
        (Number, _) => "a number",
        (Whole, _) => "a whole number from 0 on",
        (Date, _) => "a date",
        (Query, _) => "a string or an object",
        (Texts, _) => "a list of strings",
        (AnyObject | Object(_), _) => "an object",
        (Objects(_), _) => "a list of objects",
    };
    Err(format!("[{place}] must be {expected}, not {}", with_article(value)))
}

fn with_article(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number [{number}]"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check_run, check_selection, check_test};
    use crate::definition::DetectionRule;

    #[test]
    fn mistakes_are_said_with_their_place_and_the_expected_kind() {
        let with = |members: serde_json::Value| {
            let mut body = json!({"type": "query", "name": "x", "query": "a: 1"});
            let members = members.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(members);
            body
        };
        for (body, reason) in [
            (json!({"name": "x"}), "[type] is missing"),
            (with(json!({"type": {}})), "[type] must be a string, not an object"),
            (
                with(json!({"type": "eql"})),
                "[type] must be one of [sigma, query, threshold, absence, new_value, sequence, rate_of_change], not [eql]",
            ),
            (with(json!({"colour": 1})), "unknown field [colour]"),
            (
                with(json!({"name": {"a": 1}})),
                "[name] must be a string, not an object",
            ),
            (
                with(json!({"enabled": "yes"})),
                "[enabled] must be a boolean, not a string",
            ),
            (with(json!({"enabled": null})), "[enabled] must be a boolean, not null"),
            (
                with(json!({"query": 5})),
                "[query] must be a string or an object, not the number [5]",
            ),
            (
                with(json!({"language": "eql"})),
                "[language] must be one of [kuery, lucene, kql], not [eql]",
            ),
            (
                with(json!({"tags": "a"})),
                "[tags] must be a list of strings, not a string",
            ),
            (
                with(json!({"tags": ["a", 1]})),
                "[tags] must be a list of strings, not of the number [1]",
            ),
            (
                with(json!({"risk_score": "high"})),
                "[risk_score] must be a whole number from 0 on, not a string",
            ),
            (
                with(json!({"risk_score": -1})),
                "[risk_score] must be a whole number from 0 on, not the number [-1]",
            ),
            (with(json!({"risk_score": 1000})), "[risk_score] is 0 to 100"),
            (
                with(json!({"exceptions": [[]]})),
                "[exceptions] must be a list of objects, not of a list",
            ),
            (
                with(json!({"exceptions": [{"name": "x"}]})),
                "[exceptions[0].query] is missing",
            ),
            (
                with(json!({"exceptions": [{"query": "a"}, {"query": "a", "until": 1}]})),
                "unknown field [exceptions[1].until]",
            ),
            (
                with(json!({"escalation": [{"after": 5, "channels": []}]})),
                "[escalation[0].after] must be a string, not the number [5]",
            ),
            (
                with(json!({"threshold": {"count": 1.5}})),
                "[threshold.count] must be a whole number from 0 on, not the number [1.5]",
            ),
            (with(json!({"change": []})), "[change] must be an object, not a list"),
            (
                with(json!({"steps": {"query": "a"}})),
                "[steps] must be a list of objects, not an object",
            ),
        ] {
            let error = DetectionRule::parse("r", body.as_object().unwrap()).unwrap_err();
            assert_eq!(error.reason(), format!("rule [r]: {reason}"), "{body}");
        }
    }

    #[test]
    fn mistakes_of_other_bodies_are_said_in_the_same_words() {
        type Check = fn(&serde_json::Map<String, serde_json::Value>) -> Result<(), String>;
        let (run, test, selection): (Check, Check, Check) = (check_run, check_test, check_selection);
        for (check, body, reason) in [
            (
                run,
                json!({"index": 3, "from": 1}),
                "[index] must be a string, not the number [3]",
            ),
            (run, json!({"index": "a"}), "[from] is missing"),
            (
                run,
                json!({"index": "a", "from": null}),
                "[from] must be a date, not null",
            ),
            (
                run,
                json!({"index": "a", "from": 1, "to": []}),
                "[to] must be a date, not a list",
            ),
            (
                run,
                json!({"index": "a", "from": 1, "fetch": "yes"}),
                "[fetch] must be a boolean, not a string",
            ),
            (
                run,
                json!({"index": "a", "from": 1, "until": 2}),
                "unknown field [until]",
            ),
            (test, json!({"index": "a"}), "[rule] is missing"),
            (
                test,
                json!({"rule": "r", "index": "a"}),
                "[rule] must be an object, not a string",
            ),
            (
                test,
                json!({"rule": {"a": 1}, "index": "a", "examples": -1}),
                "[examples] must be a whole number from 0 on, not the number [-1]",
            ),
            (
                selection,
                json!({"ids": ["a", 1]}),
                "[ids] must be a list of strings, not of the number [1]",
            ),
        ] {
            assert_eq!(check(body.as_object().unwrap()), Err(reason.to_owned()), "{body}");
        }
        let body = json!({"rule": {}, "index": "a", "from": "now-1d", "to": null, "examples": 3, "fetch": true});
        assert_eq!(check_test(body.as_object().unwrap()), Ok(()));
        assert_eq!(check_run(json!({"index": "a", "from": 0}).as_object().unwrap()), Ok(()));
    }
}
