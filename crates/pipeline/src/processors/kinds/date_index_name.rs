//! `date_index_name`: sets the index to a name with date math, from a date.
//!
//! The result (`<logs-{2016-04-25||/M{yyyy-MM-dd|UTC}}>`) is resolved when the document is indexed, as in
//! Elasticsearch.

use firn_model::dates::{DateFormat, Zone};

use super::date::check_locale;
use super::date_text::DateText;
use super::prelude::*;

#[derive(Debug)]
struct DateIndexName {
    field: Path,
    formats: Vec<DateText>,
    timezone: Zone,
    prefix: Template,
    rounding: Template,
    format: Template,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let timezone = options.text_or("timezone", "UTC")?;
    let timezone = Zone::parse(&timezone).map_err(|error| options.error(Some("timezone"), error.to_string()))?;
    let locale = options.text_or("locale", "en")?;
    check_locale(&locale).map_err(|failure| options.error(None, failure.reason))?;
    let formats = options.optional_texts("date_formats")?;
    let formats = formats.unwrap_or_else(|| vec!["yyyy-MM-dd'T'HH:mm:ss.SSSXX".to_owned()]);
    let formats =
        DateText::parse_all(&formats).map_err(|error| options.error(Some("date_formats"), error.to_string()))?;
    let field = options.path("field")?;
    let prefix = options.text_or("index_name_prefix", "")?;
    let prefix = options.parse_template("index_name_prefix", &prefix)?;
    let rounding = options.template("date_rounding")?;
    let format = options.text_or("index_name_format", "yyyy-MM-dd")?;
    boxed(DateIndexName {
        field,
        formats,
        timezone,
        prefix,
        rounding,
        format: options.parse_template("index_name_format", &format)?,
    })
}

impl Processor for DateIndexName {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let text = java_text(document.get(&self.field)?);
        let format = self.format.render(document, &mut run.budget)?;
        let prefix = self.prefix.render(document, &mut run.budget)?;
        let rounding = self.rounding.render(document, &mut run.budget)?;
        let mut last = String::new();
        let mut nanos = None;
        for date_format in &self.formats {
            match date_format.nanos(&text, &self.timezone, run.context.now_ms) {
                Ok(read) => nanos = nanos.or(Some(read)),
                Err(error) => last = error.to_string(),
            }
        }
        let ms = nanos
            .and_then(|nanos| i64::try_from(nanos.div_euclid(1_000_000)).ok())
            .ok_or_else(|| {
                Failure::illegal(format!("unable to parse date [{text}]")).caused_by(Failure::illegal(last))
            })?;
        let printed = DateFormat::new(&format).map_err(|error| Failure::illegal(error.to_string()))?;
        let printed = printed.print_ms(ms, &self.timezone);
        let zone = self.timezone.name();
        let index = format!("<{prefix}{{{printed}||/{rounding}{{{format}|{zone}}}}}>");
        document.set(&Path::parse("_index")?, index.into())?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::Context;
    use crate::processors::tests::{NOW_MS, fails, refused, run};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"date_index_name": {"date_rounding": "d"}}),
            "[field] required property is missing",
        );
        refused(
            json!({"date_index_name": {"field": "f"}}),
            "[date_rounding] required property is missing",
        );
    }

    fn names(options: Value, date: &str, expected: &str) {
        let (document, result) = run(
            &json!({"date_index_name": options}),
            json!({"f": date}),
            &Context::new(NOW_MS),
        );
        result.unwrap();
        assert_eq!(document.index(), expected);
    }

    #[test]
    fn results() {
        let month = json!({"field": "f", "index_name_prefix": "my-index-", "date_rounding": "M"});
        names(
            month,
            "2016-04-25T12:02:01.789Z",
            "<my-index-{2016-04-25||/M{yyyy-MM-dd|UTC}}>",
        );
        let day = json!({"field": "f", "date_rounding": "d", "date_formats": ["UNIX"], "index_name_format": "yyyyMMdd", "timezone": "Europe/Berlin"});
        names(day, "0", "<{19700101||/d{yyyyMMdd|Europe/Berlin}}>");
        let template = json!({"field": "f", "date_rounding": "y", "index_name_prefix": "{{_index}}-"});
        names(
            template,
            "2016-04-25T12:02:01.789+0200",
            "<index-{2016-04-25||/y{yyyy-MM-dd|UTC}}>",
        );
    }

    #[test]
    fn failures() {
        let index = json!({"date_index_name": {"field": "f", "date_rounding": "d"}});
        fails(index.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(index, json!({"f": "x"}), "unable to parse date [x]");
    }
}
