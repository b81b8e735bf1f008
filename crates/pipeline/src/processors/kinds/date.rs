//! `date`: reads a date and prints it in another format.

use firn_model::dates::{DateFormat, Zone};

use super::date_text::DateText;
use super::prelude::*;

const OUTPUT: &str = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX";

#[derive(Debug)]
struct Date {
    field: Path,
    target: Path,
    formats: Vec<DateText>,
    timezone: Template,
    locale: Template,
    output: DateFormat,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let formats: Vec<String> = options.texts("formats")?;
    let formats = DateText::parse_all(&formats).map_err(|error| options.error(Some("formats"), error.to_string()))?;
    let timezone = options.text_or("timezone", "UTC")?;
    let timezone = options.parse_template("timezone", &timezone)?;
    let locale = options.text_or("locale", "ROOT")?;
    let locale = options.parse_template("locale", &locale)?;
    if let Some(zone) = timezone.constant() {
        Zone::parse(zone).map_err(|error| options.error(Some("timezone"), error.to_string()))?;
    }
    if let Some(locale) = locale.constant() {
        check_locale(locale).map_err(|failure| options.error(Some("locale"), failure.reason))?;
    }
    let output = options.text_or("output_format", OUTPUT)?;
    let output = DateFormat::new(&output)
        .map_err(|error| options.error(None, format!("invalid output format [{output}]: {error}")))?;
    boxed(Date {
        field,
        target: options.path_or("target_field", "@timestamp")?,
        formats,
        timezone,
        locale,
        output,
    })
}

/// Names of months and days are English.
pub(super) fn check_locale(locale: &str) -> Result<(), Failure> {
    let language = locale.split(['-', '_']).next().unwrap_or_default();
    match language.eq_ignore_ascii_case("en") || matches!(locale, "" | "ROOT" | "ENGLISH") {
        true => Ok(()),
        false => Err(Failure::illegal(format!(
            "[locale] [{locale}] is not implemented by firn"
        ))),
    }
}

impl Processor for Date {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let value = document.get(&self.field)?;
        let text = java_text(value);
        run.budget.take_text(text.len() * self.formats.len())?;
        let zone = self.timezone.render(document, &mut run.budget)?;
        check_locale(&self.locale.render(document, &mut run.budget)?)?;
        let cause = |reason: String| {
            let failure = Failure::illegal(format!("unable to parse date [{text}]"));
            failure.caused_by(Failure::illegal(reason))
        };
        let zone = Zone::parse(&zone).map_err(|error| cause(error.to_string()))?;
        let mut last = String::new();
        for format in &self.formats {
            match format.nanos(&text, &zone, run.context.now_ms) {
                Ok(nanos) => {
                    let printed = i64::try_from(nanos).map(|nanos| self.output.print_nanos(nanos, &zone));
                    // Outside of the years 1677 to 2262, parts finer than milliseconds are lost.
                    let printed = printed.unwrap_or_else(|_| {
                        let ms = i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or_default();
                        self.output.print_ms(ms, &zone)
                    });
                    document.set(&self.target, printed.into())?;
                    return Ok(Flow::Continue);
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(cause(last))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"date": {"formats": ["UNIX"]}}),
            "[field] required property is missing",
        );
        refused(
            json!({"date": {"field": "f"}}),
            "[formats] required property is missing",
        );
        refused(
            json!({"date": {"field": "f", "formats": ["UNIX"], "timezone": "Mars/Base"}}),
            "[timezone] Unknown time-zone ID: Mars/Base",
        );
        refused(
            json!({"date": {"field": "f", "formats": ["UNIX"], "locale": "fr"}}),
            "[locale] [locale] [fr] is not implemented by firn",
        );
        refused(
            json!({"date": {"field": "f", "formats": "UNIX"}}),
            "[formats] property isn't a list, but of type [java.lang.String]",
        );
    }

    fn reads(formats: &[&str], more: Value, value: Value, expected: &str) {
        let mut options = json!({"field": "f", "formats": formats, "target_field": "t"});
        for (name, value) in more.as_object().unwrap() {
            options[name] = value.clone();
        }
        check(
            json!({"date": options}),
            json!({"f": value}),
            json!({"f": value, "t": expected}),
        );
    }

    #[test]
    fn results() {
        let utc = json!({});
        reads(
            &["ISO8601"],
            utc.clone(),
            json!("2010-03-12T01:02:03.456+01:00"),
            "2010-03-12T00:02:03.456Z",
        );
        reads(
            &["ISO8601"],
            utc.clone(),
            json!("2010-03-12"),
            "2010-03-12T00:00:00.000Z",
        );
        reads(
            &["dd/MM/yyyy HH:mm:ss"],
            utc.clone(),
            json!("12/02/2018 13:02:03"),
            "2018-02-12T13:02:03.000Z",
        );
        reads(&["UNIX"], utc.clone(), json!("1000.5"), "1970-01-01T00:16:40.500Z");
        reads(
            &["epoch_second"],
            utc.clone(),
            json!("1688548995.987654321"),
            "2023-07-05T09:23:15.987Z",
        );
        reads(
            &["MMM dd HH:mm||yyyy/MM/dd"],
            utc.clone(),
            json!("2018/02/12"),
            "2018-02-12T00:00:00.000Z",
        );
        reads(
            &["dd/MMM/yyyy:H:m:s Z"],
            utc.clone(),
            json!("10/Aug/2018:09:45:56 +0200"),
            "2018-08-10T07:45:56.000Z",
        );
        reads(&["UNIX"], utc.clone(), json!(1000), "1970-01-01T00:16:40.000Z");
        reads(&["UNIX_MS"], utc.clone(), json!("1000500"), "1970-01-01T00:16:40.500Z");
        reads(
            &["TAI64N"],
            utc.clone(),
            json!("4000000050d506482dbdf024"),
            "2012-12-22T01:00:46.767Z",
        );
        reads(
            &["TAI64N"],
            utc.clone(),
            json!("@4000000050d506482dbdf024"),
            "2012-12-22T01:00:46.767Z",
        );
        reads(
            &["UNIX", "yyyy-MM-dd"],
            utc.clone(),
            json!("2018-02-12"),
            "2018-02-12T00:00:00.000Z",
        );
        // Without a year, it is the one of the request.
        reads(
            &["MMM dd HH:mm:ss"],
            utc,
            json!("Feb 12 13:02:03"),
            "2026-02-12T13:02:03.000Z",
        );
    }

    #[test]
    fn zones_and_outputs() {
        let berlin = json!({"timezone": "Europe/Berlin"});
        reads(
            &["yyyy-MM-dd HH:mm"],
            berlin.clone(),
            json!("2018-07-01 12:00"),
            "2018-07-01T12:00:00.000+02:00",
        );
        reads(&["UNIX"], berlin, json!(0), "1970-01-01T01:00:00.000+01:00");
        reads(
            &["UNIX"],
            json!({"output_format": "yyyy/MM/dd"}),
            json!(0),
            "1970/01/01",
        );
        let iso = json!({"timezone": "+01:00"});
        reads(
            &["ISO8601"],
            iso.clone(),
            json!("2010-06-01T00:00:00.000"),
            "2010-06-01T00:00:00.000+01:00",
        );
        reads(
            &["ISO8601"],
            iso,
            json!("2010-06-01T00:00:00.000Z"),
            "2010-06-01T01:00:00.000+01:00",
        );
        let zone = json!({"date": {"field": "f", "formats": ["yyyy-MM-dd HH:mm"], "timezone": "{{z}}"}});
        let source = json!({"f": "2018-07-01 12:00", "z": "+01:00"});
        let expected = json!({"f": "2018-07-01 12:00", "z": "+01:00", "@timestamp": "2018-07-01T12:00:00.000+01:00"});
        check(zone, source, expected);
        let locale =
            json!({"date": {"field": "f", "formats": ["d MMMM yyyy"], "locale": "en-GB", "target_field": "f"}});
        check(
            locale,
            json!({"f": "3 March 2020"}),
            json!({"f": "2020-03-03T00:00:00.000Z"}),
        );
    }

    #[test]
    fn failures() {
        let date = json!({"date": {"field": "f", "formats": ["UNIX", "ISO8601"]}});
        fails(date.clone(), json!({}), "field [f] not present as part of path [f]");
        for (value, text) in [
            (json!("x"), "x"),
            (json!(null), "null"),
            (json!("now"), "now"),
            (json!("2020||/d"), "2020||/d"),
        ] {
            fails(
                date.clone(),
                json!({"f": value}),
                &format!("unable to parse date [{text}]"),
            );
        }
    }
}
