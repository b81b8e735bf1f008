//! `enrich`: adds the records of an enrich policy that match a field.

use super::prelude::*;

const MATCHES_MAX: i32 = 128;

#[derive(Debug)]
struct Enrich {
    policy: String,
    field: Template,
    target: Template,
    ignore_missing: bool,
    replace: bool,
    max_matches: usize,
    shape_relation: String,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let policy = options.text("policy_name")?;
    let max_matches = options.optional_int("max_matches")?.unwrap_or(1);
    if !(1..=MATCHES_MAX).contains(&max_matches) {
        return Err(options.error(Some("max_matches"), "should be between 1 and 128"));
    }
    let shape_relation = options.text_or("shape_relation", "INTERSECTS")?;
    if !matches!(
        shape_relation.to_uppercase().as_str(),
        "INTERSECTS" | "DISJOINT" | "WITHIN" | "CONTAINS"
    ) {
        return Err(options.error(Some("shape_relation"), format!("unknown relation [{shape_relation}]")));
    }
    boxed(Enrich {
        policy,
        field: options.template("field")?,
        target: options.template("target_field")?,
        ignore_missing: options.boolean("ignore_missing", false)?,
        replace: options.boolean("override", true)?,
        max_matches: max_matches as usize,
        shape_relation,
    })
}

impl Processor for Enrich {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let field = self.field.path(document, &mut run.budget)?;
        let value = match document.find(&field) {
            None if self.ignore_missing => return Ok(Flow::Continue),
            Some(Value::Null) => return Ok(Flow::Continue),
            _ => document.get(&field)?.clone(),
        };
        let tables = run.context.tables;
        if tables.enrich_policy(&self.policy).is_none() {
            let reason = format!("no enrich index exists for policy with name [{}]", self.policy);
            return Err(Failure::illegal(reason));
        }
        let mut records = tables.enrich(&self.policy, &value, &self.shape_relation, self.max_matches)?;
        records.truncate(self.max_matches);
        if records.is_empty() {
            return Ok(Flow::Continue);
        }
        let target = self.target.path(document, &mut run.budget)?;
        if !self.replace && document.find(&target).is_some_and(|value| !value.is_null()) {
            return Ok(Flow::Continue);
        }
        run.budget.take(records.len() as u64)?;
        let mut records = records.into_iter().map(Value::Object);
        let value = match self.max_matches {
            1 => records.next().unwrap_or_default(),
            _ => Value::Array(records.collect()),
        };
        document.set(&target, value)?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde_json::{Map, Value, json};

    use crate::processors::tests::{NOW_MS, fails, refused, run};
    use crate::processors::{Context, EnrichPolicy, Failure, GeoRecord, Tables};

    struct Users;

    impl Tables for Users {
        fn geo_database(&self, _: &str) -> Option<String> {
            None
        }

        fn geo(&self, _: &str, _: IpAddr) -> Option<GeoRecord> {
            None
        }

        fn enrich_policy(&self, name: &str) -> Option<EnrichPolicy> {
            (name == "users").then(|| EnrichPolicy {
                kind: "match".to_owned(),
                match_field: "email".to_owned(),
            })
        }

        fn enrich(&self, _: &str, value: &Value, _: &str, _: usize) -> Result<Vec<Map<String, Value>>, Failure> {
            let record = |name: &str| {
                json!({"email": value, "name": name})
                    .as_object()
                    .cloned()
                    .unwrap_or_default()
            };
            Ok(match value.as_str() {
                Some("ann@x") => vec![record("Ann"), record("Anna")],
                _ => Vec::new(),
            })
        }
    }

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"enrich": {"field": "f", "target_field": "t"}}),
            "[policy_name] required property is missing",
        );
        refused(
            json!({"enrich": {"policy_name": "p", "field": "f", "target_field": "t", "max_matches": 200}}),
            "[max_matches] should be between 1 and 128",
        );
    }

    #[test]
    fn results() {
        let enriches = |more: Value, source: Value, expected: Value| {
            let mut options = json!({"policy_name": "users", "field": "e", "target_field": "u"});
            for (name, value) in more.as_object().unwrap() {
                options[name] = value.clone();
            }
            let mut context = Context::new(NOW_MS);
            context.tables = &Users;
            let (document, result) = run(&json!({"enrich": options}), source, &context);
            result.unwrap();
            assert_eq!(Value::Object(document.source), expected);
        };
        let ann = json!({"email": "ann@x", "name": "Ann"});
        let anna = json!({"email": "ann@x", "name": "Anna"});
        enriches(json!({}), json!({"e": "ann@x"}), json!({"e": "ann@x", "u": ann}));
        enriches(
            json!({"max_matches": 5}),
            json!({"e": "ann@x"}),
            json!({"e": "ann@x", "u": [ann, anna]}),
        );
        enriches(json!({}), json!({"e": "bob@x"}), json!({"e": "bob@x"}));
        enriches(
            json!({"override": false}),
            json!({"e": "ann@x", "u": 1}),
            json!({"e": "ann@x", "u": 1}),
        );
        enriches(json!({"ignore_missing": true}), json!({}), json!({}));
    }

    #[test]
    fn failures() {
        let enrich = json!({"enrich": {"policy_name": "x", "field": "f", "target_field": "t"}});
        fails(enrich.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(
            enrich,
            json!({"f": 1}),
            "no enrich index exists for policy with name [x]",
        );
    }
}
