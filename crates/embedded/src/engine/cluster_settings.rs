//! Cluster settings that the engine applies.

use std::sync::atomic::Ordering;

use firn_model::dates::parse_duration_ms;
use firn_model::settings::{SettingsMap, parse_bytes};
use firn_model::{Error, Result};
use serde_json::Value;

use super::commands::CommandService;
use crate::config::Watermark;

const LOW_WATERMARK: &str = "cluster.routing.allocation.disk.watermark.low";
const HIGH_WATERMARK: &str = "cluster.routing.allocation.disk.watermark.high";
const FLOOD_STAGE: &str = "cluster.routing.allocation.disk.watermark.flood_stage";
const FLOOD_STAGE_HEADROOM: &str = "cluster.routing.allocation.disk.watermark.flood_stage.max_headroom";
const MAX_BUCKETS: &str = "search.max_buckets";
const MAX_OPEN_SCROLLS: &str = "search.max_open_scroll_context";
const MAX_OPEN_POINTS_IN_TIME: &str = "search.max_open_pit_context";
const MAX_KEEP_ALIVE: &str = "search.max_keep_alive";
const DEFAULT_KEEP_ALIVE: &str = "search.default_keep_alive";

/// Parsed cluster settings. `None`: not set.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ClusterSettings {
    low_watermark: Option<Watermark>,
    high_watermark: Option<Watermark>,
    flood_stage: Option<Watermark>,
    flood_stage_headroom_bytes: Option<u64>,
    search_buckets_max: Option<usize>,
    scrolls_max: Option<usize>,
    points_in_time_max: Option<usize>,
    keep_alive_max_ms: Option<u64>,
    keep_alive_default_ms: Option<u64>,
}

impl ClusterSettings {
    /// Reads the settings that are present; fails on the first invalid one.
    pub(super) fn read(settings: &SettingsMap) -> Result<Self> {
        Ok(Self {
            low_watermark: read(settings, LOW_WATERMARK, Watermark::parse)?,
            high_watermark: read(settings, HIGH_WATERMARK, Watermark::parse)?,
            flood_stage: read(settings, FLOOD_STAGE, Watermark::parse)?,
            flood_stage_headroom_bytes: read(settings, FLOOD_STAGE_HEADROOM, parse_bytes)?,
            search_buckets_max: read(settings, MAX_BUCKETS, whole)?,
            scrolls_max: read(settings, MAX_OPEN_SCROLLS, whole)?,
            points_in_time_max: read(settings, MAX_OPEN_POINTS_IN_TIME, whole)?,
            keep_alive_max_ms: read(settings, MAX_KEEP_ALIVE, parse_duration_ms)?,
            keep_alive_default_ms: read(settings, DEFAULT_KEEP_ALIVE, parse_duration_ms)?,
        })
    }

    /// Checks new settings, also the order of watermarks. A catalog of an older version may have them in another order,
    /// and still opens.
    pub(super) fn check(settings: &SettingsMap) -> Result<()> {
        let read = Self::read(settings)?;
        check_order(read.low_watermark, read.high_watermark, ["low", "high"])?;
        check_order(read.high_watermark, read.flood_stage, ["high", "flood_stage"])?;
        check_order(read.low_watermark, read.flood_stage, ["low", "flood_stage"])
    }
}

fn read<T>(settings: &SettingsMap, name: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
    let text = match settings.get(name) {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let failed = |error: Error| Error::illegal_argument(format!("failed to parse setting [{name}]")).caused_by(error);
    parse(&text).map(Some).map_err(failed)
}

/// Checks that two watermarks are in order, if both are set and comparable.
fn check_order(lower: Option<Watermark>, upper: Option<Watermark>, [low, high]: [&str; 2]) -> Result<()> {
    let (Some(lower), Some(upper)) = (lower, upper) else {
        return Ok(());
    };
    let is_past = match (lower, upper) {
        (Watermark::UsedRatio(lower), Watermark::UsedRatio(upper)) => lower > upper,
        (Watermark::FreeBytes(lower), Watermark::FreeBytes(upper)) => lower < upper,
        // Whether a percentage is above a number of bytes depends on the size of the disk.
        _ => false,
    };
    if !is_past {
        return Ok(());
    }
    Err(Error::illegal_argument(format!(
        "{low} disk watermark [{lower}] more than {high} disk watermark [{upper}]"
    )))
}

fn whole(text: &str) -> Result<usize> {
    text.parse()
        .map_err(|_| Error::illegal_argument(format!("[{text}] is not a whole number")))
}

impl CommandService {
    /// Applies the settings.
    pub(crate) fn use_cluster_settings(&self, settings: &SettingsMap) -> Result<()> {
        let settings = ClusterSettings::read(settings)?;
        let config = &self.node.config;
        let flood_stage = settings.flood_stage.unwrap_or(config.flood_stage);
        let headroom = settings
            .flood_stage_headroom_bytes
            .unwrap_or(config.flood_stage_headroom_bytes_max);
        self.devices.hot.set_flood_stage(flood_stage, headroom);
        let low = settings.low_watermark.unwrap_or(config.low_watermark);
        self.devices.tiers.set_watermarks(low, flood_stage, headroom);
        self.search_buckets_max.store(
            settings.search_buckets_max.unwrap_or(config.search_buckets_max),
            Ordering::Relaxed,
        );
        let mut limits = config.context_limits;
        limits.scrolls_max = settings.scrolls_max.unwrap_or(limits.scrolls_max);
        limits.points_in_time_max = settings.points_in_time_max.unwrap_or(limits.points_in_time_max);
        limits.keep_alive_max_ms = settings.keep_alive_max_ms.unwrap_or(limits.keep_alive_max_ms);
        limits.keep_alive_default_ms = settings.keep_alive_default_ms.unwrap_or(limits.keep_alive_default_ms);
        self.contexts.set_limits(limits);
        Ok(())
    }
}
