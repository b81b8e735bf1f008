//! `fingerprint`: hashes the content of fields.
//!
//! The bytes are Elasticsearch's: before each value and each name inside an object stands a zero byte; texts are UTF-8,
//! numbers little-endian in the width of their Java class, `true` is 1 and `false` is 2. Fields and names are sorted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest;

use super::prelude::*;
use crate::murmur3::murmur3;

const METHODS: [&str; 5] = ["MD5", "SHA-1", "SHA-256", "SHA-512", "MurmurHash3"];

#[derive(Debug)]
struct Fingerprint {
    fields: Vec<Path>,
    target: Path,
    salt: Vec<u8>,
    method: &'static str,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let mut fields = options.texts("fields")?;
    if fields.is_empty() {
        return Err(options.error(Some("fields"), "must specify at least one field"));
    }
    fields.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
    let fields: Result<_> = fields.iter().map(|field| options.parse_path("fields", field)).collect();
    let salt = options.text_or("salt", "")?;
    let method = options.text_or("method", "SHA-1")?;
    let Some(known) = METHODS.iter().find(|known| **known == method) else {
        let methods = METHODS.join(",");
        let reason = format!("[{method}] must be one of the supported hash methods [{methods}]");
        return Err(options.error(Some("method"), reason));
    };
    boxed(Fingerprint {
        fields: fields?,
        target: options.path_or("target_field", "fingerprint")?,
        salt: if salt.trim().is_empty() {
            Vec::new()
        } else {
            salt.into_bytes()
        },
        method: known,
        ignore_missing: options.boolean("ignore_missing", false)?,
    })
}

impl Processor for Fingerprint {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let mut bytes = self.salt.clone();
        let mut is_empty = true;
        for field in &self.fields {
            match document.find(field).filter(|value| !value.is_null()) {
                Some(value) => {
                    push(value, &mut bytes);
                    is_empty = false;
                }
                None if self.ignore_missing => {}
                None => {
                    let field = field.text();
                    let reason = format!("missing field [{field}] when calculating fingerprint");
                    return Err(Failure::illegal(reason));
                }
            }
        }
        run.budget.take_text(bytes.len())?;
        if is_empty {
            return Ok(Flow::Continue);
        }
        let hash = match self.method {
            "MD5" => md5::Md5::digest(&bytes).to_vec(),
            "SHA-1" => sha1::Sha1::digest(&bytes).to_vec(),
            "SHA-256" => sha2::Sha256::digest(&bytes).to_vec(),
            "SHA-512" => sha2::Sha512::digest(&bytes).to_vec(),
            _ => {
                let (first, second) = murmur3(&bytes);
                [first.to_be_bytes(), second.to_be_bytes()].concat()
            }
        };
        document.set(&self.target, STANDARD.encode(hash).into())?;
        Ok(Flow::Continue)
    }
}

fn push(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Array(values) => {
            for value in values {
                push(value, bytes);
            }
            return;
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            for (name, value) in fields {
                bytes.push(0);
                bytes.extend_from_slice(name.as_bytes());
                push(value, bytes);
            }
            return;
        }
        _ => bytes.push(0),
    }
    match value {
        Value::Bool(value) => bytes.push(if *value { 1 } else { 2 }),
        Value::String(text) => bytes.extend_from_slice(text.as_bytes()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => match i32::try_from(whole) {
                Ok(int) => bytes.extend_from_slice(&int.to_le_bytes()),
                Err(_) => bytes.extend_from_slice(&whole.to_le_bytes()),
            },
            None => bytes.extend_from_slice(&number.as_f64().unwrap_or_default().to_le_bytes()),
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::Context;
    use crate::processors::tests::{NOW_MS, check, fails, refused, run};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"fingerprint": {}}), "[fields] required property is missing");
        refused(
            json!({"fingerprint": {"fields": []}}),
            "[fields] must specify at least one field",
        );
        refused(
            json!({"fingerprint": {"fields": ["f"], "method": "CRC"}}),
            "[method] [CRC] must be one of the supported hash methods [MD5,SHA-1,SHA-256,SHA-512,MurmurHash3]",
        );
    }

    fn hash(options: Value, source: Value) -> String {
        let (document, result) = run(&json!({"fingerprint": options}), source, &Context::new(NOW_MS));
        result.unwrap();
        document.source["fingerprint"].as_str().unwrap().to_owned()
    }

    #[test]
    fn results() {
        // `printf '\0value' | sha1sum | xxd -r -p | base64`, and the like.
        let source = json!({"f": "value"});
        let of = |method: &str| hash(json!({"fields": ["f"], "method": method}), source.clone());
        assert_eq!(of("MD5"), "V27YM8P9kW6IEpcuAlVRLA==");
        assert_eq!(of("SHA-1"), "XIxi+xHZLF7t7H372cRv7bpHMP4=");
        assert_eq!(of("SHA-256"), "c3eBGDgJHns8YcL8SmcmDEbCLUF8OldDA/jlZhyx7pQ=");
        assert_eq!(
            of("SHA-512"),
            "zReYsda8PDQn1xQpU89HpC7FJIgIdps2JRHnEHj5Z5JMwJ6LNd3NnCSvXujDDGfngeV/dYWgNaFiimxgxhe8TA=="
        );
        assert_eq!(of("MurmurHash3").len(), 24);
    }

    #[test]
    fn the_order_of_fields_and_names_does_not_count() {
        let one = hash(
            json!({"fields": ["a", "b"]}),
            json!({"a": {"x": 1, "y": true}, "b": [1, null]}),
        );
        let two = hash(
            json!({"fields": ["b", "a"]}),
            json!({"b": [1, null], "a": {"y": true, "x": 1}}),
        );
        assert_eq!(one, two);
        let salted = hash(json!({"fields": ["b", "a"], "salt": "s"}), json!({"b": [1], "a": 2}));
        assert_ne!(salted, hash(json!({"fields": ["b", "a"]}), json!({"b": [1], "a": 2})));
    }

    #[test]
    fn missing_fields() {
        let ignore = json!({"fingerprint": {"fields": ["a", "b"], "ignore_missing": true}});
        check(ignore, json!({"c": 1}), json!({"c": 1}));
        let fingerprint = json!({"fingerprint": {"fields": ["a"]}});
        fails(
            fingerprint,
            json!({"a": null}),
            "missing field [a] when calculating fingerprint",
        );
    }
}
