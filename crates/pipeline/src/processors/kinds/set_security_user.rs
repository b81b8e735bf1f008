//! `set_security_user`: writes the authenticated caller into a field.

use super::prelude::*;

const PROPERTIES: [&str; 8] = [
    "username",
    "roles",
    "full_name",
    "email",
    "metadata",
    "api_key",
    "realm",
    "authentication_type",
];

#[derive(Debug)]
struct SetSecurityUser {
    field: Path,
    properties: Vec<&'static str>,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let Some(names) = options.optional_texts("properties")? else {
        return boxed(SetSecurityUser {
            field,
            properties: PROPERTIES.to_vec(),
        });
    };
    let properties = names.iter().map(|name| {
        let lower = name.to_lowercase();
        let known = PROPERTIES.iter().find(|known| **known == lower).copied();
        known.ok_or_else(|| options.error(Some("properties"), format!("Property value [{name}] is in valid")))
    });
    boxed(SetSecurityUser {
        field,
        properties: properties.collect::<Result<_>>()?,
    })
}

impl Processor for SetSecurityUser {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let Some(caller) = run.context.caller else {
            let reason =
                "There is no authenticated user - the [set_security_user] processor requires an authenticated user";
            return Err(Failure::new(FailureKind::IllegalState, reason));
        };
        let mut user = match document.find(&self.field) {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        };
        for property in &self.properties {
            let text = |text: &Option<String>| text.as_deref().map(Value::from);
            let value = match *property {
                "username" => Some(caller.username.as_str().into()),
                "roles" => Some(caller.roles.clone().into()).filter(|_| !caller.roles.is_empty()),
                "full_name" => text(&caller.full_name),
                "email" => text(&caller.email),
                "metadata" => Some(Value::Object(caller.metadata.clone())).filter(|_| !caller.metadata.is_empty()),
                "api_key" => caller.api_key.as_ref().map(|(id, name, metadata)| {
                    let mut key = Map::new();
                    key.insert("id".to_owned(), id.as_str().into());
                    key.insert("name".to_owned(), name.as_str().into());
                    if !metadata.is_empty() {
                        key.insert("metadata".to_owned(), Value::Object(metadata.clone()));
                    }
                    Value::Object(key)
                }),
                "realm" => caller.realm.as_ref().map(|(name, kind)| {
                    let fields = [("name", name), ("type", kind)];
                    let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value.as_str())));
                    Value::Object(fields.into_iter().collect())
                }),
                _ => text(&caller.authentication_type),
            };
            if let Some(value) = value {
                user.insert((*property).to_owned(), value);
            }
        }
        document.set(&self.field, Value::Object(user))?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::processors::tests::{NOW_MS, fails, refused, run};
    use crate::processors::{Caller, Context};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"set_security_user": {}}), "[field] required property is missing");
        refused(
            json!({"set_security_user": {"field": "f", "properties": ["password"]}}),
            "[properties] Property value [password] is in valid",
        );
    }

    #[test]
    fn results() {
        let caller = Caller {
            username: "ann".to_owned(),
            roles: vec!["r1".to_owned()],
            api_key: Some(("id".to_owned(), "key".to_owned(), Map::new())),
            realm: Some(("native1".to_owned(), "native".to_owned())),
            ..Caller::default()
        };
        let mut context = Context::new(NOW_MS);
        context.caller = Some(&caller);
        let (document, result) = run(
            &json!({"set_security_user": {"field": "u"}}),
            json!({"u": {"x": 1}}),
            &context,
        );
        result.unwrap();
        let user = json!({
            "x": 1, "username": "ann", "roles": ["r1"], "api_key": {"id": "id", "name": "key"},
            "realm": {"name": "native1", "type": "native"}
        });
        assert_eq!(Value::Object(document.source), json!({"u": user}));
        let some = json!({"set_security_user": {"field": "u", "properties": ["username", "email"]}});
        let (document, _) = run(&some, json!({"u": 1}), &context);
        assert_eq!(Value::Object(document.source), json!({"u": {"username": "ann"}}));
    }

    #[test]
    fn failures() {
        let reason =
            "There is no authenticated user - the [set_security_user] processor requires an authenticated user";
        fails(json!({"set_security_user": {"field": "f"}}), json!({}), reason);
    }
}
