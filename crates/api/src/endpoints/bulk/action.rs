//! Parser of one action line of a bulk, without building a tree.

use std::borrow::Cow;
use std::fmt;

use firn_engine::{Error, Result};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::op_type::OpType;

/// Maximum length of an action line.
pub(super) const MAX_ACTION_BYTES: usize = 64 << 10;

/// Parsed action line.
#[derive(Debug, Clone)]
pub(super) struct Action<'a> {
    pub(super) op_type: OpType,
    /// `op_type: create` inside `index`.
    pub(super) create: bool,
    pub(super) index: Option<Cow<'a, str>>,
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) routing: Option<Cow<'a, str>>,
    pub(super) version: Option<i64>,
    pub(super) version_type: Option<Cow<'a, str>>,
    pub(super) if_seq_no: Option<i64>,
    pub(super) if_primary_term: Option<i64>,
    pub(super) retry_on_conflict: Option<u32>,
    pub(super) pipeline: Option<Cow<'a, str>>,
    pub(super) require_alias: Option<bool>,
    pub(super) require_data_stream: Option<bool>,
}

impl<'a> Action<'a> {
    fn new(op_type: OpType) -> Self {
        Self {
            op_type,
            create: false,
            index: None,
            id: None,
            routing: None,
            version: None,
            version_type: None,
            if_seq_no: None,
            if_primary_term: None,
            retry_on_conflict: None,
            pipeline: None,
            require_alias: None,
            require_data_stream: None,
        }
    }

    /// Converts to an action without borrowed data.
    pub(super) fn into_owned(self) -> Action<'static> {
        let own = |text: Option<Cow<'a, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        Action {
            op_type: self.op_type,
            create: self.create,
            index: own(self.index),
            id: own(self.id),
            routing: own(self.routing),
            version: self.version,
            version_type: own(self.version_type),
            if_seq_no: self.if_seq_no,
            if_primary_term: self.if_primary_term,
            retry_on_conflict: self.retry_on_conflict,
            pipeline: own(self.pipeline),
            require_alias: self.require_alias,
            require_data_stream: self.require_data_stream,
        }
    }
}

/// Parses `{"index": {…}}`.
pub(super) fn read_action(line: &[u8], number: usize) -> Result<Action<'_>> {
    if line.len() > MAX_ACTION_BYTES {
        return Err(Error::illegal_argument(format!(
            "Malformed action/metadata line [{number}], it is longer than [{MAX_ACTION_BYTES}] bytes"
        )));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let mut problem = None;
    let visitor = ActionVisitor {
        number,
        problem: &mut problem,
    };
    let result = deserializer.deserialize_any(visitor).and_then(|action| {
        deserializer.end()?;
        Ok(action)
    });
    result.map_err(|error| match problem {
        Some(reason) => Error::illegal_argument(reason),
        None => Error::illegal_argument(format!("Malformed action/metadata line [{number}], {error}")),
    })
}

struct ActionVisitor<'p> {
    number: usize,
    problem: &'p mut Option<String>,
}

impl ActionVisitor<'_> {
    fn refuse<E: serde::de::Error>(self, token: &str) -> E {
        *self.problem = Some(format!(
            "Malformed action/metadata line [{}], expected START_OBJECT but found [{token}]",
            self.number
        ));
        E::custom("not an object")
    }
}

/// Visitors of tokens that are no objects, with Elasticsearch's token names.
macro_rules! refuse_scalars {
    () => {
        fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Self::Value, E> {
            Err(self.refuse("VALUE_BOOLEAN"))
        }
        fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Self::Value, E> {
            Err(self.refuse("VALUE_NUMBER"))
        }
        fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Self::Value, E> {
            Err(self.refuse("VALUE_NUMBER"))
        }
        fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Self::Value, E> {
            Err(self.refuse("VALUE_NUMBER"))
        }
        fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Self::Value, E> {
            Err(self.refuse("VALUE_STRING"))
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Err(self.refuse("VALUE_NULL"))
        }
        fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Err(self.refuse("START_ARRAY"))
        }
    };
}

impl<'de> Visitor<'de> for ActionVisitor<'_> {
    type Value = Action<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an action")
    }

    refuse_scalars!();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { number, problem } = self;
        let Some(name) = map.next_key_seed(Text)? else {
            *problem = Some(format!(
                "Malformed action/metadata line [{number}], expected FIELD_NAME but found [END_OBJECT]"
            ));
            return Err(serde::de::Error::custom("empty"));
        };
        let op_type = match name.as_ref() {
            "index" => OpType::Index,
            "create" => OpType::Create,
            "update" => OpType::Update,
            "delete" => OpType::Delete,
            other => {
                *problem = Some(format!(
                    "Malformed action/metadata line [{number}], expected field [create], [delete], [index] or [update] but found [{other}]"
                ));
                return Err(serde::de::Error::custom("unknown action"));
            }
        };
        let action = map.next_value_seed(Metadata {
            number,
            op_type,
            problem: &mut *problem,
        })?;
        if map.next_key::<IgnoredAny>()?.is_some() {
            *problem = Some(format!(
                "Malformed action/metadata line [{number}], expected END_OBJECT but found [FIELD_NAME]"
            ));
            return Err(serde::de::Error::custom("two actions"));
        }
        Ok(action)
    }
}

/// Object under the name of an action.
struct Metadata<'p> {
    number: usize,
    op_type: OpType,
    problem: &'p mut Option<String>,
}

impl Metadata<'_> {
    fn refuse<E: serde::de::Error>(self, token: &str) -> E {
        *self.problem = Some(format!(
            "Malformed action/metadata line [{}], expected START_OBJECT but found [{token}]",
            self.number
        ));
        E::custom("not an object")
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Metadata<'_> {
    type Value = Action<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = Action<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an action's metadata")
    }

    refuse_scalars!();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut action = Action::new(self.op_type);
        while let Some(key) = map.next_key_seed(Text)? {
            let value = map.next_value_seed(ScalarSeed)?;
            if let Err(problem) = set(&mut action, &key, value, self.number) {
                *self.problem = Some(problem);
                return Err(serde::de::Error::custom("bad metadata"));
            }
        }
        Ok(action)
    }
}

/// Sets one parameter of an action, or returns what is wrong with it.
fn set<'de>(action: &mut Action<'de>, key: &str, value: Scalar<'de>, line: usize) -> Result<(), String> {
    if key == "dynamic_templates" {
        return Err(format!(
            "Action/metadata line [{line}] contains the parameter [dynamic_templates], which is not implemented by firn"
        ));
    }
    if let Scalar::Nested(token) = value {
        return Err(format!(
            "Malformed action/metadata line [{line}], expected a simple value for field [{key}] but found [{token}]"
        ));
    }
    let misfit =
        |wanted: &str| format!("Malformed action/metadata line [{line}], the value of [{key}] is not {wanted}");
    match key {
        "_index" => action.index = value.text(),
        "_id" => action.id = value.text(),
        "routing" | "_routing" => action.routing = value.text(),
        "version" => action.version = value.number().ok_or_else(|| misfit("a number"))?,
        "version_type" => action.version_type = value.text(),
        "if_seq_no" => action.if_seq_no = value.number().ok_or_else(|| misfit("a number"))?,
        "if_primary_term" => action.if_primary_term = value.number().ok_or_else(|| misfit("a number"))?,
        "retry_on_conflict" => {
            let number = value.number().ok_or_else(|| misfit("a number"))?;
            action.retry_on_conflict = number
                .map(u32::try_from)
                .transpose()
                .map_err(|_| misfit("a small number"))?;
        }
        "pipeline" => action.pipeline = value.text(),
        "require_alias" => action.require_alias = value.flag().ok_or_else(|| misfit("true or false"))?,
        "require_data_stream" => action.require_data_stream = value.flag().ok_or_else(|| misfit("true or false"))?,
        "op_type" if matches!(action.op_type, OpType::Index | OpType::Create) => match value.text().as_deref() {
            Some("create") => action.create = true,
            Some("index") | None => {}
            Some(other) => {
                return Err(format!(
                    "opType must be 'create' or 'index', found: [{other}] on line [{line}]"
                ));
            }
        },
        _ => {
            return Err(format!(
                "Action/metadata line [{line}] contains an unknown parameter [{key}]"
            ));
        }
    }
    Ok(())
}

/// String, borrowed if it has no escapes.
struct Text;

impl<'de> serde::de::DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a field name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

enum Scalar<'a> {
    Null,
    Text(Cow<'a, str>),
    Integer(i64),
    Other(String),
    Bool(bool),
    Nested(&'static str),
}

impl<'a> Scalar<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(number) => Some(Cow::Owned(number.to_string())),
            Self::Bool(flag) => Some(Cow::Owned(flag.to_string())),
            Self::Other(text) => Some(Cow::Owned(text)),
            Self::Null | Self::Nested(_) => None,
        }
    }

    /// `None`: not a number; `Some(None)`: null.
    #[allow(clippy::option_option)]
    fn number(self) -> Option<Option<i64>> {
        match self {
            Self::Null => Some(None),
            Self::Integer(number) => Some(Some(number)),
            Self::Text(text) => text.parse().ok().map(Some),
            _ => None,
        }
    }

    /// `None`: not a flag; `Some(None)`: null.
    #[allow(clippy::option_option)]
    fn flag(self) -> Option<Option<bool>> {
        match self {
            Self::Null => Some(None),
            Self::Bool(flag) => Some(Some(flag)),
            Self::Text(text) => text.parse().ok().map(Some),
            _ => None,
        }
    }
}

struct ScalarSeed;

impl<'de> serde::de::DeserializeSeed<'de> for ScalarSeed {
    type Value = Scalar<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ScalarSeed {
    type Value = Scalar<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a simple value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or_else(|_| Scalar::Other(value.to_string()), Scalar::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Other(value.to_string()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested("START_ARRAY"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nested("START_OBJECT"))
    }
}
