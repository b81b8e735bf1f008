//! Which ingest pipelines the settings of a write's target name.

use serde_json::Value;

use super::{Metadata, resolve_write};
use crate::names::resolve_date_math;

/// Setting with the pipeline of writes that name none.
const DEFAULT_PIPELINE: &str = "index.default_pipeline";
/// Setting with the pipeline that runs last for every write.
const FINAL_PIPELINE: &str = "index.final_pipeline";
/// Id that means no pipeline.
pub const NO_PIPELINE: &str = "_none";

/// Pipelines of the writes to one target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetPipelines {
    /// `index.default_pipeline`: runs if the request names no pipeline.
    pub default: Option<String>,
    /// `index.final_pipeline`: runs last.
    pub last: Option<String>,
}

impl TargetPipelines {
    /// Returns the pipelines of writes to `name`, an index, alias or data stream. If it does not exist, the matching
    /// template decides. A name that no write can resolve has none: the write itself tells the reason.
    ///
    /// `visible` are the names of the writer; `all` has the templates, which tenants do not see.
    pub fn of(name: &str, visible: &Metadata, all: &Metadata, now_ms: i64) -> Self {
        match resolve_write(name, visible, now_ms) {
            Ok(target) => visible
                .indices
                .get(&target.index)
                .map_or_else(Self::default, |index| Self {
                    default: pipeline(index.text_setting(DEFAULT_PIPELINE)),
                    last: pipeline(index.text_setting(FINAL_PIPELINE)),
                }),
            Err(_) => Self::of_template(name, all, now_ms),
        }
    }

    fn of_template(name: &str, all: &Metadata, now_ms: i64) -> Self {
        let Ok(name) = resolve_date_math(name, now_ms) else {
            return Self::default();
        };
        let template = all.find_template(&name, false);
        let Some(Ok(content)) = template.map(|(_, template)| all.compose(template)) else {
            return Self::default();
        };
        let setting = |name: &str| pipeline(content.settings.get(name).and_then(Value::as_str));
        Self {
            default: setting(DEFAULT_PIPELINE),
            last: setting(FINAL_PIPELINE),
        }
    }
}

fn pipeline(setting: Option<&str>) -> Option<String> {
    setting
        .filter(|id| !id.is_empty() && *id != NO_PIPELINE)
        .map(str::to_owned)
}
