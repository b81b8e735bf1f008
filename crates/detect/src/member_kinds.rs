//! Kinds of the members of a definition: checked before it is deserialized, so that a mistake is said with its place and the kind that is
//! expected there, as Elasticsearch does.

use serde_json::{Map, Value};

use Kind::{Boolean, Date, Number, Object, Objects, OneOf, Query, Text, Texts, Whole};

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
        | (Query, Value::String(_) | Value::Object(_)) => return Ok(()),
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
            for part in parts {
                let Value::Object(object) = part else {
                    return Err(format!(
                        "[{place}] must be a list of objects, not of {}",
                        with_article(part)
                    ));
                };
                check_members(&format!("{place}."), object, members)?;
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
        (Object(_), _) => "an object",
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
                "[exceptions.query] is missing",
            ),
            (
                with(json!({"exceptions": [{"query": "a", "until": 1}]})),
                "unknown field [exceptions.until]",
            ),
            (
                with(json!({"escalation": [{"after": 5, "channels": []}]})),
                "[escalation.after] must be a string, not the number [5]",
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
}
