//! Facts of the Elastic Common Schema: fields, their types, and which are lists.
//!
//! The list has the fields of the default view and all targets of the packs that are part of the program. The schema itself is
//! at <https://www.elastic.co/docs/reference/ecs>.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::ecs_fields::FIELDS;

/// Type of a common field, as far as conversions differ.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    #[default]
    Keyword,
    /// An IPv4 or IPv6 address.
    Ip,
    /// A whole number of 64 bits.
    Long,
    /// A number.
    Double,
    /// True or false.
    Boolean,
    /// A point in time, printed in ISO 8601 and UTC.
    Date,
    /// A place on the globe.
    GeoPoint,
    /// An object with keys of its own.
    Object,
}

impl Kind {
    /// Returns the type of a name of the schema or of a pack (`wildcard` is stored as a keyword).
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "keyword" | "constant_keyword" | "wildcard" | "match_only_text" | "text" => Self::Keyword,
            "ip" => Self::Ip,
            "long" | "integer" | "short" => Self::Long,
            "double" | "float" | "scaled_float" => Self::Double,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            "geo_point" => Self::GeoPoint,
            "object" | "nested" | "flattened" => Self::Object,
            _ => return None,
        })
    }

    /// Returns whether a JSON object or array is a value.
    pub(crate) fn holds_objects(self) -> bool {
        matches!(self, Self::Object | Self::GeoPoint)
    }
}

/// A field of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its type.
    pub kind: Kind,
    /// It holds several values, and is printed as an array.
    pub is_list: bool,
}

static BY_NAME: LazyLock<HashMap<String, Field>> = LazyLock::new(|| {
    let mut fields = HashMap::new();
    for (object, names) in FIELDS {
        for word in names.split_whitespace() {
            let (name, kind) = word.split_once(':').unwrap_or((word, "keyword"));
            let (name, is_list) = match name.strip_suffix('*') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let name = match *object {
                "" => name.to_owned(),
                object => format!("{object}.{name}"),
            };
            let kind = Kind::parse(kind).unwrap_or_default();
            fields.insert(name, Field { kind, is_list });
        }
    }
    fields
});

/// Returns a field of the schema, if it is in firn's list. Latitude and longitude of a point are numbers.
pub(crate) fn field(name: &str) -> Option<Field> {
    if name.ends_with(".location.lat") || name.ends_with(".location.lon") {
        return Some(Field {
            kind: Kind::Double,
            is_list: false,
        });
    }
    BY_NAME.get(name).copied()
}

/// Returns the list that receives the values of a target, too: all addresses of an event are in `related.ip`, and so on.
pub(crate) fn related(target: &str) -> Option<&'static str> {
    if target.starts_with("related.") {
        return None;
    }
    if field(target).is_some_and(|field| field.kind == Kind::Ip) {
        return Some("related.ip");
    }
    let is_user = target == "user.name"
        || target.ends_with(".user.name")
        || matches!(target, "user.target.name" | "user.effective.name" | "user.changes.name");
    if is_user {
        return Some("related.user");
    }
    if target.contains(".hash.") {
        return Some("related.hash");
    }
    let is_host = matches!(
        target,
        "host.name" | "host.hostname" | "source.domain" | "destination.domain" | "client.domain" | "server.domain"
    );
    is_host.then_some("related.hosts")
}

/// Fields that a table of events shows first, of all sources alike.
pub const DEFAULT_VIEW: &[&str] = &[
    "@timestamp",
    "message",
    "event.kind",
    "event.category",
    "event.type",
    "event.action",
    "event.outcome",
    "event.code",
    "event.severity",
    "event.id",
    "event.created",
    "event.ingested",
    "event.dataset",
    "event.provider",
    "event.duration",
    "event.reason",
    "organization.id",
    "observer.vendor",
    "observer.product",
    "observer.name",
    "observer.ip",
    "host.name",
    "host.ip",
    "host.os.name",
    "source.ip",
    "source.port",
    "source.domain",
    "source.bytes",
    "source.nat.ip",
    "source.geo.country_iso_code",
    "source.geo.city_name",
    "source.as.number",
    "destination.ip",
    "destination.port",
    "destination.domain",
    "destination.bytes",
    "destination.nat.ip",
    "destination.geo.country_iso_code",
    "destination.geo.city_name",
    "destination.as.number",
    "network.transport",
    "network.protocol",
    "network.application",
    "network.direction",
    "network.bytes",
    "user.name",
    "user.domain",
    "user.id",
    "process.name",
    "process.pid",
    "process.executable",
    "process.command_line",
    "process.parent.name",
    "file.name",
    "file.path",
    "file.hash.sha256",
    "url.original",
    "url.domain",
    "http.request.method",
    "http.response.status_code",
    "dns.question.name",
    "dns.response_code",
    "rule.name",
    "rule.id",
    "log.level",
    "related.ip",
    "related.user",
    "related.hosts",
    "related.hash",
];

/// Iterates over the fields of the list.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Field)> {
    BY_NAME.iter().map(|(name, field)| (name.as_str(), *field))
}
