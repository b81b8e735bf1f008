//! Data streams and their backing indices.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::change::Change;
use super::create::NewIndex;
use super::{DataStream, IndexTemplate};
use crate::dates::{DateFormat, Zone};
use crate::lifecycle::Lifecycle;
use crate::names::validate_data_stream_name;
use crate::settings::SettingsMap;
use crate::tenant::TenantId;
use crate::{Error, ErrorKind, Result};

impl Change<'_> {
    pub(super) fn create_data_stream(&mut self, name: &str, made_by: Option<&TenantId>) -> Result<()> {
        let name = self.date_math(name)?;
        validate_data_stream_name(&name)?;
        if self.next.data_streams.contains_key(&name) {
            return Err(Error::new(
                ErrorKind::ResourceAlreadyExists,
                format!("data_stream [{name}] already exists"),
            ));
        }
        if self.next.has_name(&name) {
            let kind = if self.next.indices.contains_key(&name) {
                "index"
            } else {
                "alias"
            };
            return Err(Error::illegal_argument(format!(
                "data stream [{name}] conflicts with {kind}"
            )));
        }
        let Some((template_name, template)) = self.next.find_index_template(&name) else {
            return Err(no_template(&name));
        };
        let Some(options) = &template.data_stream else {
            return Err(Error::illegal_argument(format!(
                "matching index template [{template_name}] for data stream [{name}] has no data stream template"
            )));
        };
        let hidden = matches!(options.get("hidden"), Some(Value::Bool(true)))
            || options.get("hidden").and_then(Value::as_str) == Some("true");
        let lifecycle = self.next.compose(template)?.lifecycle;
        let stream = DataStream {
            name: name.clone(),
            indices: Vec::new(),
            generation: 0,
            template: template_name.to_owned(),
            meta: template.meta.clone(),
            hidden,
            lifecycle: lifecycle.as_ref().map(Lifecycle::parse).transpose()?,
            made_by: made_by.cloned(),
        };
        let template = template.clone();
        self.next.data_streams.insert(name.clone(), Arc::new(stream));
        self.add_backing_index(&name, &template)?;
        Ok(())
    }

    /// Returns the name of the next backing index, with the first day of its period or with today.
    pub(super) fn next_backing_index(&self, stream: &DataStream, range_ms: Option<&Range<i64>>) -> String {
        let day_ms = range_ms.map_or(self.now_ms, |range| range.start);
        let day = match DateFormat::new("uuuu.MM.dd") {
            Ok(format) => format.print_ms(day_ms, &Zone::utc()),
            Err(_) => String::new(),
        };
        format!(".ds-{}-{day}-{:06}", stream.name, stream.generation + 1)
    }

    /// Creates the next backing index. From then on it receives the writes, or those of the current period.
    pub(super) fn add_backing_index(&mut self, stream_name: &str, template: &IndexTemplate) -> Result<String> {
        let range_ms = self.current_period(template)?;
        self.add_period(stream_name, template, range_ms)
    }

    /// Creates the next backing index, for a span of time or without one.
    pub(super) fn add_period(
        &mut self,
        stream_name: &str,
        template: &IndexTemplate,
        range_ms: Option<Range<i64>>,
    ) -> Result<String> {
        let mut stream = self.stream(stream_name)?;
        let index = self.next_backing_index(&stream, range_ms.as_ref());
        let place = self.place_in_stream(&stream, range_ms.as_ref());
        let content = self.next.compose(template)?;
        let mut settings = SettingsMap::new();
        settings.insert("index.hidden".to_owned(), json!("true"));
        self.create_index(
            NewIndex {
                name: index.clone(),
                settings,
                data_stream: Some(stream_name.to_owned()),
                time_range_ms: range_ms,
                ..NewIndex::default()
            },
            content,
        )?;
        let changed = Arc::make_mut(&mut stream);
        changed.indices.insert(place, index.clone());
        changed.generation += 1;
        self.next.data_streams.insert(stream_name.to_owned(), stream);
        Ok(index)
    }

    pub(super) fn put_data_stream_lifecycle(&mut self, names: &[String], lifecycle: Option<&Lifecycle>) -> Result<()> {
        for name in names {
            let mut stream = self.stream(name)?;
            if stream.lifecycle.as_ref() != lifecycle {
                Arc::make_mut(&mut stream).lifecycle = lifecycle.cloned();
                self.next.data_streams.insert(name.clone(), stream);
                self.adopt_stream(name);
                self.changed();
            }
        }
        Ok(())
    }

    pub(super) fn delete_data_streams(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            // A request may name a data stream twice.
            if let Some(stream) = self.next.data_streams.remove(name) {
                for index in &stream.indices {
                    self.next.indices.remove(index);
                }
                self.changed();
            } else if names.iter().filter(|other| *other == name).count() == 1 {
                return Err(Error::index_not_found(name));
            }
        }
        Ok(())
    }
}

pub(super) fn no_template(stream: &str) -> Error {
    Error::illegal_argument(format!("no matching index template found for data stream [{stream}]"))
}
