//! MaxMind databases: city and autonomous system of an address.

use std::fmt;
use std::net::IpAddr;

use maxminddb::Reader;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::{Cell, Table};

/// Column of a GeoIP table: the name of the field in the object `geo` or `as` of the Elastic Common Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeoColumn {
    /// The name, with dots for inner objects.
    pub name: &'static str,
    /// Last segment of the object: `geo` or `as`.
    object: &'static str,
}

impl GeoColumn {
    const fn geo(name: &'static str) -> Self {
        Self { name, object: "geo" }
    }

    const fn autonomous_system(name: &'static str) -> Self {
        Self { name, object: "as" }
    }

    /// Returns whether an object of common fields (`source.geo`) has the column.
    pub fn belongs_to(&self, object: &str) -> bool {
        object.rsplit('.').next() == Some(self.object)
    }
}

/// All columns of GeoIP tables. A city database has the first, an ASN database the last two.
pub const GEO_COLUMNS: &[GeoColumn] = &[
    GeoColumn::geo("city_name"),
    GeoColumn::geo("continent_code"),
    GeoColumn::geo("continent_name"),
    GeoColumn::geo("country_iso_code"),
    GeoColumn::geo("country_name"),
    GeoColumn::geo("location.lat"),
    GeoColumn::geo("location.lon"),
    GeoColumn::geo("postal_code"),
    GeoColumn::geo("region_iso_code"),
    GeoColumn::geo("region_name"),
    GeoColumn::geo("timezone"),
    GeoColumn::autonomous_system("number"),
    GeoColumn::autonomous_system("organization.name"),
];

/// Longest ISO 3166-2 code: two letters, a hyphen, three letters or digits.
const REGION_CODE_MAX: usize = 6;

#[derive(Deserialize)]
struct Names<'a> {
    en: Option<&'a str>,
}

#[derive(Deserialize)]
struct Place<'a> {
    code: Option<&'a str>,
    iso_code: Option<&'a str>,
    #[serde(borrow)]
    names: Option<Names<'a>>,
}

#[derive(Deserialize)]
struct Location<'a> {
    latitude: Option<f64>,
    longitude: Option<f64>,
    time_zone: Option<&'a str>,
}

/// The columns of a city record; all else is passed over.
#[derive(Deserialize)]
struct City<'a> {
    #[serde(borrow)]
    city: Option<Place<'a>>,
    continent: Option<Place<'a>>,
    country: Option<Place<'a>>,
    location: Option<Location<'a>>,
    postal: Option<Place<'a>>,
    #[serde(default, deserialize_with = "first")]
    subdivisions: Option<Place<'a>>,
}

#[derive(Deserialize)]
struct AutonomousSystem<'a> {
    autonomous_system_number: Option<u32>,
    autonomous_system_organization: Option<&'a str>,
}

/// Reads the first element of an array and passes over the others.
fn first<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Place<'de>>, D::Error> {
    struct First;
    impl<'de> Visitor<'de> for First {
        type Value = Option<Place<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
            let first = elements.next_element()?;
            while elements.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }
    deserializer.deserialize_seq(First)
}

/// A MaxMind database in memory.
pub struct GeoTable {
    reader: Reader<Vec<u8>>,
    columns: Vec<String>,
    version: String,
    is_city: bool,
}

impl fmt::Debug for GeoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeoTable")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl GeoTable {
    /// Opens the bytes of a database: one with cities (or only countries), or one of autonomous systems.
    ///
    /// # Errors
    /// The reason, if the bytes are no such database.
    pub fn new(bytes: Vec<u8>) -> Result<Self, String> {
        let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
        let metadata = reader.metadata();
        let kind = metadata.database_type.as_str();
        let is_city = ["City", "Country", "Enterprise"].iter().any(|word| kind.contains(word));
        if !is_city && !kind.contains("ASN") {
            return Err(format!(
                "a database of type [{kind}] is not supported: use one of cities or of ASNs"
            ));
        }
        Ok(Self {
            version: metadata.build_epoch.to_string(),
            columns: GEO_COLUMNS.iter().map(|column| column.name.to_owned()).collect(),
            is_city,
            reader,
        })
    }
}

impl Table for GeoTable {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn look_up(&self, key: &str, each: &mut dyn FnMut(usize, Cell<'_>)) -> bool {
        let Ok(address) = key.parse::<IpAddr>() else {
            return false;
        };
        let Ok(found) = self.reader.lookup(address) else {
            return false;
        };
        if !self.is_city {
            let Ok(Some(system)) = found.decode::<AutonomousSystem<'_>>() else {
                return false;
            };
            if let Some(number) = system.autonomous_system_number {
                each(11, Cell::Int(i64::from(number)));
            }
            if let Some(organization) = system.autonomous_system_organization {
                each(12, Cell::Text(organization));
            }
            return true;
        }
        let Ok(Some(city)) = found.decode::<City<'_>>() else {
            return false;
        };
        each_of_city(&city, each);
        true
    }
}

fn each_of_city(city: &City<'_>, each: &mut dyn FnMut(usize, Cell<'_>)) {
    let mut text = |column: usize, text: Option<&str>| {
        if let Some(text) = text {
            each(column, Cell::Text(text));
        }
    };
    text(0, english(&city.city));
    text(1, city.continent.as_ref().and_then(|continent| continent.code));
    text(2, english(&city.continent));
    let country = city.country.as_ref().and_then(|country| country.iso_code);
    text(3, country);
    text(4, english(&city.country));
    text(7, city.postal.as_ref().and_then(|postal| postal.code));
    if let (Some(country), Some(region)) = (country, city.subdivisions.as_ref().and_then(|region| region.iso_code)) {
        let mut code = [0u8; REGION_CODE_MAX];
        let length = country.len() + 1 + region.len();
        if let Some(code) = code.get_mut(..length) {
            code[..country.len()].copy_from_slice(country.as_bytes());
            code[country.len()] = b'-';
            code[country.len() + 1..].copy_from_slice(region.as_bytes());
            text(8, str::from_utf8(code).ok());
        }
    }
    text(9, english(&city.subdivisions));
    if let Some(location) = &city.location {
        text(10, location.time_zone);
        if let (Some(latitude), Some(longitude)) = (location.latitude, location.longitude) {
            each(5, Cell::Double(latitude));
            each(6, Cell::Double(longitude));
        }
    }
}

fn english<'a>(place: &Option<Place<'a>>) -> Option<&'a str> {
    place.as_ref()?.names.as_ref()?.en
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn check(file: &str, address: &str, expect: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/data")
            .join(file);
        let Ok(bytes) = std::fs::read(&path) else {
            eprintln!("skipped: there is no file [{}]", path.display());
            return;
        };
        let table = GeoTable::new(bytes).unwrap();
        let mut found = Vec::new();
        table.look_up(address, &mut |column, cell| {
            found.push(match cell {
                Cell::Text(text) => format!("{}={text}", table.columns()[column]),
                cell => format!("{}={cell:?}", table.columns()[column]),
            });
        });
        assert_eq!(found.join(" "), expect, "{address}");
    }

    #[test]
    fn cities() {
        check(
            "GeoLite2-City-Test.mmdb",
            "81.2.69.142",
            "city_name=London continent_code=EU continent_name=Europe country_iso_code=GB country_name=United Kingdom \
             region_iso_code=GB-ENG region_name=England timezone=Europe/London location.lat=Double(51.5142) \
             location.lon=Double(-0.0931)",
        );
        check("GeoLite2-City-Test.mmdb", "10.0.0.1", "");
        check("GeoLite2-City-Test.mmdb", "no address", "");
    }

    #[test]
    fn autonomous_systems() {
        check(
            "GeoLite2-ASN-Test.mmdb",
            "89.160.20.112",
            "number=Int(29518) organization.name=Bredband2 AB",
        );
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(GeoTable::new(Vec::new()).is_err());
        assert!(GeoTable::new(vec![7; 100_000]).is_err());
    }
}
