//! `geoip`: looks an address up in a MaxMind database.

use super::super::tables::Tables;
use super::community_id::address;
use super::prelude::*;

/// Properties by the end of the database's type: all that it may have, and those that are set by default.
const DATABASES: [(&str, &[&str], &[&str]); 3] = [
    (
        "City",
        &[
            "ip",
            "country_in_european_union",
            "country_iso_code",
            "country_name",
            "continent_code",
            "continent_name",
            "region_iso_code",
            "region_name",
            "city_name",
            "timezone",
            "location",
            "postal_code",
            "accuracy_radius",
            "registered_country_in_european_union",
            "registered_country_iso_code",
            "registered_country_name",
        ],
        &[
            "continent_name",
            "country_name",
            "country_iso_code",
            "region_iso_code",
            "region_name",
            "city_name",
            "location",
        ],
    ),
    (
        "Country",
        &[
            "ip",
            "country_in_european_union",
            "country_iso_code",
            "country_name",
            "continent_code",
            "continent_name",
            "registered_country_in_european_union",
            "registered_country_iso_code",
            "registered_country_name",
        ],
        &["continent_name", "country_name", "country_iso_code"],
    ),
    (
        "ASN",
        &["ip", "asn", "organization_name", "network"],
        &["ip", "asn", "organization_name", "network"],
    ),
];

#[derive(Debug)]
struct GeoIp {
    field: Path,
    target: Path,
    database: String,
    properties: Option<Vec<String>>,
    ignore_missing: bool,
    first_only: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let database = options.text_or("database_file", "GeoLite2-City.mmdb")?;
    let properties = options.optional_texts("properties")?;
    let properties = properties.map(|names| names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>());
    // Which properties a database has is known when it is loaded, so only unknown names are refused here.
    let mut all: Vec<&str> = DATABASES.iter().flat_map(|(_, all, _)| all.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    if let Some(name) = properties.iter().flatten().find(|name| !all.contains(&name.as_str())) {
        let values = all.join(", ").to_uppercase();
        let reason = format!("illegal property value [{name}]. valid values are [{values}]");
        return Err(options.error(Some("properties"), reason));
    }
    // firn downloads no databases.
    options.boolean("download_database_on_pipeline_creation", true)?;
    boxed(GeoIp {
        field,
        target: options.path_or("target_field", "geoip")?,
        database,
        properties,
        ignore_missing: options.boolean("ignore_missing", false)?,
        first_only: options.boolean("first_only", true)?,
    })
}

impl Processor for GeoIp {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let value = document.value_or_missing(&self.field, self.ignore_missing, "extract geoip information")?;
        let Some(value) = value else {
            return Ok(Flow::Continue);
        };
        let tables = run.context.tables;
        let Some(kind) = tables.geo_database(&self.database) else {
            let tag = format!("_geoip_database_unavailable_{}", self.database);
            document.append(&Path::parse("tags")?, tag.into(), true)?;
            return Ok(Flow::Continue);
        };
        let not_a_text = || {
            Failure::illegal(format!(
                "field [{}] should contain only string or array of strings",
                self.field.text()
            ))
        };
        let found = match value {
            Value::String(text) => self.look_up(tables, &kind, text)?,
            Value::Array(values) => {
                run.budget.take(values.len() as u64)?;
                let mut records = Vec::new();
                for value in values {
                    let record = self.look_up(tables, &kind, value.as_str().ok_or_else(not_a_text)?)?;
                    if self.first_only && record.is_some() {
                        records.push(record);
                        break;
                    }
                    records.push(record);
                }
                let has_any = records.iter().any(Option::is_some);
                match self.first_only {
                    true => records.pop().flatten(),
                    false => Some(Value::Array(
                        records.into_iter().map(Option::unwrap_or_default).collect(),
                    ))
                    .filter(|_| has_any),
                }
            }
            _ => return Err(not_a_text()),
        };
        if let Some(found) = found {
            document.set(&self.target, found)?;
        }
        Ok(Flow::Continue)
    }
}

impl GeoIp {
    /// Returns the wanted properties of an address; `None` if the database does not have it.
    fn look_up(&self, tables: &dyn Tables, kind: &str, text: &str) -> Result<Option<Value>, Failure> {
        let address = address(text)?;
        let Some(record) = tables.geo(&self.database, address) else {
            return Ok(None);
        };
        let defaults = DATABASES
            .iter()
            .find(|(end, _, _)| kind.ends_with(end))
            .map(|(_, _, defaults)| *defaults);
        let is_wanted = |name: &str| match (&self.properties, defaults) {
            (Some(names), _) => names.iter().any(|wanted| wanted == name),
            (None, Some(names)) => names.contains(&name),
            (None, None) => true,
        };
        let mut properties = Map::new();
        if is_wanted("ip") {
            properties.insert("ip".to_owned(), address.to_string().into());
        }
        properties.extend(record.properties.into_iter().filter(|(name, _)| is_wanted(name)));
        Ok(Some(Value::Object(properties))
            .filter(|properties| properties.as_object().is_some_and(|map| !map.is_empty())))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde_json::{Map, Value, json};

    use crate::processors::tests::{NOW_MS, check, fails, refused, run};
    use crate::processors::{Context, EnrichPolicy, Failure, GeoRecord, Tables};

    struct City;

    impl Tables for City {
        fn geo_database(&self, file: &str) -> Option<String> {
            (file == "GeoLite2-City.mmdb").then(|| "GeoLite2-City".to_owned())
        }

        fn geo(&self, _: &str, address: IpAddr) -> Option<GeoRecord> {
            let record = json!({"city_name": "Linköping", "timezone": "Europe/Stockholm", "location": {"lat": 58.4, "lon": 15.6}});
            let found = address.to_string() == "89.160.20.128";
            found.then(|| GeoRecord {
                properties: record.as_object().cloned().unwrap_or_default(),
            })
        }

        fn enrich_policy(&self, _: &str) -> Option<EnrichPolicy> {
            None
        }

        fn enrich(&self, _: &str, _: &Value, _: &str, _: usize) -> Result<Vec<Map<String, Value>>, Failure> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn refuses_to_parse() {
        refused(json!({"geoip": {}}), "[field] required property is missing");
        let error = crate::processors::tests::parse(&json!({"geoip": {"field": "f", "properties": ["moon"]}}));
        let reason = error.unwrap_err().reason().to_owned();
        assert!(
            reason.starts_with("[properties] illegal property value [moon]. valid values are [ACCURACY_RADIUS, ASN"),
            "{reason}"
        );
    }

    fn looks_up(options: Value, value: Value, geoip: Value) {
        let mut context = Context::new(NOW_MS);
        context.tables = &City;
        let mut map = options;
        map["field"] = json!("f");
        let (document, result) = run(&json!({"geoip": map}), json!({"f": value}), &context);
        result.unwrap();
        assert_eq!(document.source.get("geoip").cloned().unwrap_or_default(), geoip);
    }

    #[test]
    fn results() {
        let record = json!({"city_name": "Linköping", "location": {"lat": 58.4, "lon": 15.6}});
        looks_up(json!({}), json!("89.160.20.128"), record.clone());
        looks_up(json!({}), json!("1.1.1.1"), json!(null));
        let ip = json!({"ip": "89.160.20.128", "timezone": "Europe/Stockholm"});
        looks_up(json!({"properties": ["IP", "TIMEZONE"]}), json!("89.160.20.128"), ip);
        let list = json!(["1.1.1.1", "89.160.20.128"]);
        looks_up(json!({}), list.clone(), record.clone());
        looks_up(json!({"first_only": false}), list, json!([null, record]));
        looks_up(json!({"first_only": false}), json!(["1.1.1.1"]), json!(null));
        check(
            json!({"geoip": {"field": "f", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn a_missing_database_leaves_a_tag() {
        let source = json!({"f": "1.1.1.1", "tags": "a"});
        let expected = json!({"f": "1.1.1.1", "tags": ["a", "_geoip_database_unavailable_GeoLite2-City.mmdb"]});
        check(json!({"geoip": {"field": "f"}}), source, expected);
    }

    #[test]
    fn failures() {
        let geoip = json!({"geoip": {"field": "f"}});
        fails(geoip.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(
            geoip.clone(),
            json!({"f": null}),
            "field [f] is null, cannot extract geoip information.",
        );
        let mut context = Context::new(NOW_MS);
        context.tables = &City;
        for (value, reason) in [
            (json!(1), "field [f] should contain only string or array of strings"),
            (json!("www"), "'www' is not an IP string literal."),
        ] {
            assert_eq!(run(&geoip, json!({"f": value}), &context).1.unwrap_err().reason, reason);
        }
    }
}
