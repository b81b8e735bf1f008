//! Options of a processor: read and removed one by one, so that what remains is unknown.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::document::{MediaType, Path, Template, ValueSource, class_name, java_text};
use super::failure::Failure;
use super::painless::Script;
use super::step::Step;

/// Parses a processor inside another one, by type and options.
pub(crate) type ParseStep = fn(&str, &Value, usize) -> Result<Step>;

/// Options of one processor that are not read yet.
pub(crate) struct Options {
    processor_type: &'static str,
    tag: Option<String>,
    map: Map<String, Value>,
    depth: usize,
    parse_step: ParseStep,
}

impl Options {
    pub(crate) fn new(
        processor_type: &'static str,
        tag: Option<String>,
        map: Map<String, Value>,
        depth: usize,
        parse_step: ParseStep,
    ) -> Self {
        Self {
            processor_type,
            tag,
            map,
            depth,
            parse_step,
        }
    }

    /// Creates an error about a property.
    pub(crate) fn error(&self, property: Option<&str>, reason: impl AsRef<str>) -> Error {
        configuration_error(
            Some(self.processor_type),
            self.tag.as_deref(),
            property,
            reason.as_ref(),
        )
    }

    /// Fails if an option remains.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.map.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.map.keys().map(String::as_str).collect();
        Err(self.error(
            None,
            format!(
                "processor [{}] doesn't support one or more provided configuration parameters [{}]",
                self.processor_type,
                names.join(", ")
            ),
        ))
    }

    /// Takes a value; `null` counts as missing.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Puts a value back that was taken to look at it.
    pub(crate) fn put(&mut self, name: &str, value: Value) {
        self.map.insert(name.to_owned(), value);
    }

    /// Takes a value that must be there.
    pub(crate) fn value(&mut self, name: &str) -> Result<Value> {
        self.take(name).ok_or_else(|| self.missing(name))
    }

    pub(crate) fn missing(&self, name: &str) -> Error {
        self.error(Some(name), "required property is missing")
    }

    fn wrong_type(&self, name: &str, expected: &str, found: &Value) -> Error {
        let reason = format!("property isn't {expected}, but of type [{}]", class_name(found));
        self.error(Some(name), reason)
    }

    /// Takes a string that may be missing.
    pub(crate) fn optional_text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(name, "a string", &other)),
        }
    }

    /// Takes a string.
    pub(crate) fn text(&mut self, name: &str) -> Result<String> {
        self.optional_text(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes a string with a default.
    pub(crate) fn text_or(&mut self, name: &str, default: &str) -> Result<String> {
        Ok(self.optional_text(name)?.unwrap_or_else(|| default.to_owned()))
    }

    /// Takes a boolean with a default.
    pub(crate) fn boolean(&mut self, name: &str, default: bool) -> Result<bool> {
        Ok(self.optional_boolean(name)?.unwrap_or(default))
    }

    /// Takes a boolean that may be missing.
    pub(crate) fn optional_boolean(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong_type(name, "a boolean", &other)),
        }
    }

    /// Takes a whole number that may be missing; a string with one counts.
    pub(crate) fn optional_int(&mut self, name: &str) -> Result<Option<i32>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let text = java_text(&value);
        let number = text.parse().map_err(|_| {
            let reason = format!("property cannot be converted to an int [{text}]");
            self.error(Some(name), reason)
        })?;
        Ok(Some(number))
    }

    /// Takes a list that may be missing.
    pub(crate) fn optional_list(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(values)) => Ok(Some(values)),
            Some(other) => Err(self.wrong_type(name, "a list", &other)),
        }
    }

    /// Takes a list of strings that may be missing.
    pub(crate) fn optional_texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(values) = self.optional_list(name)? else {
            return Ok(None);
        };
        let texts = values.into_iter().map(|value| match value {
            Value::String(text) => Ok(text),
            other => Err(self.wrong_type(name, "a list of strings", &other)),
        });
        texts.collect::<Result<_>>().map(Some)
    }

    /// Takes a list of strings.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>> {
        self.optional_texts(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes a string or a list of strings; without either, the list is empty.
    pub(crate) fn texts_or_text(&mut self, name: &str) -> Result<Vec<String>> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(values)) => {
                let texts = values.into_iter().map(|value| match value {
                    Value::String(text) => Ok(text),
                    other => Err(self.wrong_type(name, "a string or list of strings", &other)),
                });
                texts.collect()
            }
            Some(other) => Err(self.wrong_type(name, "a string or list of strings", &other)),
        }
    }

    /// Takes an object that may be missing.
    pub(crate) fn optional_map(&mut self, name: &str) -> Result<Option<Map<String, Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.wrong_type(name, "a map", &other)),
        }
    }

    /// Takes an object.
    pub(crate) fn map(&mut self, name: &str) -> Result<Map<String, Value>> {
        self.optional_map(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes a path.
    pub(crate) fn path(&mut self, name: &str) -> Result<Path> {
        let text = self.text(name)?;
        self.parse_path(name, &text)
    }

    /// Takes a path that may be missing.
    pub(crate) fn optional_path(&mut self, name: &str) -> Result<Option<Path>> {
        let text = self.optional_text(name)?;
        text.map(|text| self.parse_path(name, &text)).transpose()
    }

    /// Takes a path with a default.
    pub(crate) fn path_or(&mut self, name: &str, default: &str) -> Result<Path> {
        let text = self.text_or(name, default)?;
        self.parse_path(name, &text)
    }

    /// Parses the path that an option holds.
    pub(crate) fn parse_path(&self, name: &str, text: &str) -> Result<Path> {
        Path::parse(text).map_err(|Failure { reason, .. }| self.error(Some(name), reason))
    }

    /// Takes `target_field`, whose default is `field`.
    pub(crate) fn target(&mut self, field: &Path) -> Result<Path> {
        Ok(self.optional_path("target_field")?.unwrap_or_else(|| field.clone()))
    }

    /// Takes a template.
    pub(crate) fn template(&mut self, name: &str) -> Result<Template> {
        let text = self.text(name)?;
        self.parse_template(name, &text)
    }

    /// Parses the template that an option holds.
    pub(crate) fn parse_template(&self, name: &str, text: &str) -> Result<Template> {
        Template::parse(text).map_err(|reason| self.error(Some(name), reason))
    }

    /// Takes `media_type`.
    pub(crate) fn media_type(&mut self) -> Result<MediaType> {
        let text = self.text_or("media_type", "application/json")?;
        MediaType::parse(&text).ok_or_else(|| {
            let reason = format!(
                "property does not contain a supported media type [{text}]; must be one of [application/json, \
                 text/plain, application/x-www-form-urlencoded]"
            );
            self.error(Some("media_type"), reason)
        })
    }

    /// Takes a value with templates.
    pub(crate) fn value_source(&mut self, name: &str, media_type: MediaType) -> Result<ValueSource> {
        let value = self.value(name)?;
        ValueSource::parse(&value, media_type).map_err(|reason| self.error(Some(name), reason))
    }

    /// Takes a regular expression. Java's possessive quantifiers, look-around and back references are refused.
    pub(crate) fn regex(&mut self, name: &str) -> Result<regex::Regex> {
        let text = self.text(name)?;
        compile_regex(&text).map_err(|reason| self.error(Some(name), reason))
    }

    /// Takes a script: `source`, `lang` and `params`.
    pub(crate) fn script(&mut self) -> Result<Script> {
        Script::parse(&mut self.map)
    }

    /// Parses the processor inside this one.
    pub(crate) fn step(&self, name: &str, options: &Value) -> Result<Step> {
        (self.parse_step)(name, options, self.depth + 1)
    }
}

/// Bytes that one compiled regular expression may need.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Compiles a regular expression within the limit.
pub(crate) fn compile_regex(text: &str) -> Result<regex::Regex, String> {
    regex::RegexBuilder::new(text)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| format!("Invalid regex pattern. {error}"))
}

/// Creates an error about the configuration of a processor, with the fields that Elasticsearch prints beside it. Its
/// type is `parse_exception` there.
pub(crate) fn configuration_error(
    processor_type: Option<&str>,
    tag: Option<&str>,
    property: Option<&str>,
    reason: &str,
) -> Error {
    let mut details = Map::new();
    let fields = [
        ("processor_type", processor_type),
        ("processor_tag", tag),
        ("property_name", property),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            details.insert(name.to_owned(), value.into());
        }
    }
    let reason = match property {
        Some(property) => format!("[{property}] {reason}"),
        None => reason.to_owned(),
    };
    Error::parsing(reason).with_details(details)
}
