//! Index settings: as typed by the user, and as derived values.
//!
//! One line of `definitions.rs` defines a setting: its name, its values, its default, when it may change, and whether
//! firn acts on it.

mod bytes;
pub(crate) mod definitions;
mod flat;
mod kinds;
mod mounted;
mod update;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use bytes::{parse_bytes, parse_bytes_setting};
pub(crate) use definitions::cluster_default_of;
pub use flat::{SettingsMap, flatten, nest, to_strings};
pub(crate) use kinds::plain;
pub use mounted::SnapshotStore;

use crate::dates::DateFormat;
use crate::period::{Period, print_instant};
use crate::tenant::TenantId;
use crate::tier::Allocation;
use crate::{Error, Result};

const TIME_START: &str = "index.time.start";
const TIME_END: &str = "index.time.end";

/// Settings of one index: the typed values, and the values that firn uses, validated once.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSettings {
    /// Flat, with `index.` names. Names unknown to both Elasticsearch and firn are refused.
    pub typed: SettingsMap,
    /// `index.number_of_shards`, 1 to 1024, default 1.
    pub number_of_shards: u32,
    /// `index.number_of_replicas`: accepted and printed (default 1 in Elasticsearch; firn prints 0 unless given); one
    /// node holds one copy.
    pub number_of_replicas: u32,
    /// `index.refresh_interval`, ms. Default 1000; `None`: -1 or 0, refresh only on request.
    pub refresh_interval_ms: Option<u64>,
    /// `index.translog.durability`.
    pub durability: Durability,
    /// `index.translog.sync_interval`, ms, default 5000, at least 100.
    pub sync_interval_ms: u64,
    /// `index.translog.flush_threshold_size`, bytes, default 512 MB.
    pub flush_threshold_bytes: u64,
    /// `index.mapping.total_fields.limit`, default 1000.
    pub total_fields_limit: u32,
    /// `index.mapping.depth.limit`, default 20.
    pub depth_limit: u32,
    /// `index.mapping.ignore_malformed`, default true in firn (decision 5), false in Elasticsearch.
    pub ignore_malformed: bool,
    /// `index.mapping.coerce`, default true.
    pub coerce: bool,
    /// `index.max_result_window`, default 10,000.
    pub max_result_window: u64,
    /// `index.max_inner_result_window`, default 100.
    pub max_inner_result_window: u64,
    /// `index.highlight.max_analyzed_offset`, characters, default 1,000,000.
    pub max_analyzed_offset: u64,
    /// `index.max_docvalue_fields_search`, default 100, at most 1000.
    pub max_docvalue_fields: u64,
    /// `index.hidden`.
    pub hidden: bool,
    /// `index.blocks.write`, `index.blocks.read_only` or `index.blocks.read_only_allow_delete` is set, or the index is
    /// mounted.
    pub write_blocked: bool,
    /// `index.query.default_field`, default `*`.
    pub query_default_fields: Vec<String>,
    /// `index.requests.cache.enable`, default true: whether partial results of segments may be cached.
    pub request_cache: bool,
    /// `index.codec: best_compression` (zstd level 9 at merge) or default.
    pub best_compression: bool,
    /// `index.tenant.field`: the keyword field that names an event's tenant. `None`: the index does not hold events by
    /// tenant, and only operators can access it.
    pub tenant_field: Option<String>,
    /// `index.tenant.owner`: the only tenant that can access the index. `None`: all tenants can.
    pub tenant_owner: Option<String>,
    /// `index.period`: the data stream has a backing index for each span of this length. `None`: a new index starts
    /// only at a rollover.
    pub period: Option<Period>,
    /// `index.time.past_limit` and `index.time.future_limit`: maximum distance from now of an event that creates the
    /// index of its period, ms.
    pub past_limit_ms: u64,
    /// See `past_limit_ms`.
    pub future_limit_ms: u64,
    /// `index.time.start` to `index.time.end`, half-open, ms since epoch UTC, set by the server: range of every
    /// document's `@timestamp`. `None`: unlimited.
    pub time_range_ms: Option<Range<i64>>,
    /// `index.routing.allocation.*`: placement of its shards on tiers.
    pub allocation: Allocation,
    /// `index.store.snapshot.*`, set by the server: the snapshot that the index is mounted from. `None`: the index has
    /// local files and may accept writes.
    pub snapshot: Option<Arc<SnapshotStore>>,
    /// `index.store.snapshot.cache.pinned`, only in firn: the shared cache does not evict its regions.
    pub cache_pinned: bool,
}

/// When an acknowledged write is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before the acknowledgement.
    #[default]
    Request,
    /// Within `sync_interval`.
    Async,
}

impl IndexSettings {
    /// Validates flat or nested settings, with or without the `index.` prefix; `null` is not set. Unknown names and
    /// invalid values fail with Elasticsearch's text ([`crate::ErrorKind::IllegalArgument`]), settings that firn lacks
    /// with [`crate::ErrorKind::NotImplemented`].
    pub fn parse(settings: &Value) -> Result<Self> {
        Self::from_flat(flatten(settings, true)?)
    }

    /// Does the same as [`IndexSettings::parse`] for settings that are already flat, with `index.` names.
    pub fn from_flat(mut typed: SettingsMap) -> Result<Self> {
        typed.retain(|_, value| !value.is_null());
        for (name, value) in &typed {
            definitions::check(name, value)?;
        }
        Self::from_checked(typed)
    }

    /// Reads settings that were accepted before, including those that the server set. Settings that an older or newer
    /// firn accepted are not refused when its data is opened.
    pub fn from_checked(typed: SettingsMap) -> Result<Self> {
        let read = Reader(&typed);
        let block = |name: &str| read.flag(&format!("index.blocks.{name}"));
        let snapshot = SnapshotStore::read(&read)?;
        let write_blocked =
            snapshot.is_some() || block("write")? || block("read_only")? || block("read_only_allow_delete")?;
        let refresh_ms = read.duration_ms("index.refresh_interval")?;
        Ok(Self {
            number_of_shards: read.number("index.number_of_shards")? as u32,
            number_of_replicas: read.number("index.number_of_replicas")? as u32,
            refresh_interval_ms: refresh_ms.filter(|interval| *interval > 0),
            durability: match read.text("index.translog.durability").to_ascii_lowercase().as_str() {
                "async" => Durability::Async,
                _ => Durability::Request,
            },
            sync_interval_ms: read.duration_ms("index.translog.sync_interval")?.unwrap_or(5000),
            flush_threshold_bytes: parse_bytes(&read.text("index.translog.flush_threshold_size"))?,
            total_fields_limit: read.number("index.mapping.total_fields.limit")? as u32,
            depth_limit: read.number("index.mapping.depth.limit")? as u32,
            ignore_malformed: read.flag("index.mapping.ignore_malformed")?,
            coerce: read.flag("index.mapping.coerce")?,
            max_result_window: read.number("index.max_result_window")?,
            max_inner_result_window: read.number("index.max_inner_result_window")?,
            max_analyzed_offset: read.number("index.highlight.max_analyzed_offset")?,
            max_docvalue_fields: read.number("index.max_docvalue_fields_search")?,
            hidden: read.flag("index.hidden")?,
            write_blocked,
            query_default_fields: read.list("index.query.default_field"),
            request_cache: read.flag("index.requests.cache.enable")?,
            best_compression: read.text("index.codec") == "best_compression",
            tenant_field: Some(read.text("index.tenant.field")).filter(|field| !field.is_empty()),
            tenant_owner: Some(read.text("index.tenant.owner")).filter(|owner| !owner.is_empty()),
            period: Period::from_name(&read.text("index.period")),
            past_limit_ms: read.duration_ms("index.time.past_limit")?.unwrap_or(u64::MAX),
            future_limit_ms: read.duration_ms("index.time.future_limit")?.unwrap_or(u64::MAX),
            time_range_ms: read.time_range_ms()?,
            allocation: Allocation::of(&typed),
            snapshot: snapshot.map(Arc::new),
            cache_pinned: read.flag("index.store.snapshot.cache.pinned")?,
            typed,
        })
    }

    /// Sets the span of time of the documents that the index accepts, half-open, ms since epoch UTC.
    pub(crate) fn set_time_range(&mut self, range_ms: Range<i64>) {
        for (name, ms) in [(TIME_START, range_ms.start), (TIME_END, range_ms.end)] {
            self.typed.insert(name.to_owned(), print_instant(ms).into());
        }
        self.time_range_ms = Some(range_ms);
    }

    /// Prints the typed settings, always with the number of shards and replicas: flat, all values as strings or lists
    /// of strings, as `GET /index/_settings?flat_settings=true` prints them. The caller adds the values of the index
    /// itself ([`crate::metadata::IndexMetadata::print_settings`]).
    pub fn print_flat(&self) -> SettingsMap {
        let mut flat = to_strings(&self.typed);
        for name in ["index.number_of_shards", "index.number_of_replicas"] {
            if !flat.contains_key(name) {
                flat.insert(name.to_owned(), definitions::default_of(name).into());
            }
        }
        flat
    }

    /// Returns the defaults of the settings that were not typed, flat, as `include_defaults=true` prints them.
    pub fn print_defaults(&self) -> SettingsMap {
        definitions::DEFINITIONS
            .iter()
            .filter(|definition| !definition.default.is_empty() && !self.typed.contains_key(definition.name))
            .map(|definition| (definition.name.to_owned(), definition.default.into()))
            .collect()
    }
}

impl IndexSettings {
    /// Returns whether a tenant can access the index: it holds events by tenant, and is not private to another tenant.
    pub fn is_for(&self, tenant: &TenantId) -> bool {
        let owner = self.tenant_owner.as_deref();
        self.tenant_field.is_some() && owner.is_none_or(|owner| owner == tenant.as_str())
    }
}

impl Default for IndexSettings {
    /// Returns all defaults, without typed settings.
    fn default() -> Self {
        Self {
            typed: SettingsMap::new(),
            number_of_shards: 1,
            number_of_replicas: 0,
            refresh_interval_ms: Some(1000),
            durability: Durability::Request,
            sync_interval_ms: 5000,
            flush_threshold_bytes: 512 << 20,
            total_fields_limit: 1000,
            depth_limit: 20,
            ignore_malformed: true,
            coerce: true,
            max_result_window: 10_000,
            max_inner_result_window: 100,
            max_analyzed_offset: 1_000_000,
            max_docvalue_fields: 100,
            hidden: false,
            write_blocked: false,
            query_default_fields: vec!["*".to_owned()],
            request_cache: true,
            best_compression: false,
            tenant_field: None,
            tenant_owner: None,
            period: None,
            past_limit_ms: 3650 * 86_400_000,
            future_limit_ms: 7 * 86_400_000,
            time_range_ms: None,
            allocation: Allocation::default(),
            snapshot: None,
            cache_pinned: false,
        }
    }
}

/// Returns the value of `index.creation_date`, ms since epoch UTC; `None`: -1, not set.
pub(crate) fn creation_date(value: &Value) -> Option<i64> {
    kinds::plain(value).parse().ok().filter(|ms| *ms >= 0)
}

/// Reads values that `definitions::check` has accepted, or their defaults.
struct Reader<'a>(&'a SettingsMap);

impl Reader<'_> {
    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            Some(value) => kinds::plain(value),
            None => definitions::default_of(name).to_owned(),
        }
    }

    fn flag(&self, name: &str) -> Result<bool> {
        kinds::parse_bool(name, &self.text(name))
    }

    fn number(&self, name: &str) -> Result<u64> {
        let text = self.text(name);
        text.parse()
            .map_err(|_| Error::illegal_argument(format!("Failed to parse value [{text}] for setting [{name}]")))
    }

    /// Reads a duration in ms; `None`: -1.
    fn duration_ms(&self, name: &str) -> Result<Option<u64>> {
        match self.text(name).as_str() {
            "-1" => Ok(None),
            text => crate::dates::parse_duration_setting_ms(name, text).map(Some),
        }
    }

    /// Reads the range that [`IndexSettings::set_time_range`] wrote.
    fn time_range_ms(&self) -> Result<Option<Range<i64>>> {
        let instant = |name: &str| match self.text(name).as_str() {
            "" => Ok(None),
            text => DateFormat::default_millis().parse_ms(text).map(Some),
        };
        Ok(match (instant(TIME_START)?, instant(TIME_END)?) {
            (Some(start), Some(end)) => Some(start..end),
            _ => None,
        })
    }

    fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Value::Array(list)) => list.iter().map(kinds::plain).collect(),
            _ => self
                .text(name)
                .split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect(),
        }
    }
}

/// Prints flat settings as Elasticsearch's nested object, values as strings.
pub fn print_nested(settings: &SettingsMap) -> Map<String, Value> {
    nest(&to_strings(settings))
}
