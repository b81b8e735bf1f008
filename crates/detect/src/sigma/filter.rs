//! Filters of other rules (Sigma specification 2.1, filters): documents whose condition is added to that of each rule that they name.

use rsigma_ir::LowerOptions;
use rsigma_ir::lower::lower_filter;
use rsigma_parser::{FilterRule, FilterRuleTarget};

use super::compile::filter_condition;
use super::load::{Loaded, refusal};
use crate::expression::Expression;
use crate::log_sources::LogSource;
use crate::rule::RuleError;

/// Why a filter without a rule is refused.
pub(super) const NO_RULE: &str =
    "the filter is for none of the rules: none has its log source and, if it names rules, one of these names";

/// Condition for rules of other documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Its `id`, or else its title.
    pub id: String,
    /// One line for readers.
    pub title: String,
    /// Ids and names of the rules; `None`: all rules of the log source.
    rules: Option<Vec<String>>,
    log_source: LogSource,
    condition: Expression,
}

impl Filter {
    pub(super) fn read(parsed: &FilterRule) -> Result<Self, String> {
        let lowered = lower_filter(parsed, &LowerOptions::default()).map_err(|error| error.to_string())?;
        let log_source = parsed.logsource.as_ref().ok_or("a filter needs [logsource]")?;
        Ok(Self {
            id: parsed.id.clone().unwrap_or_else(|| parsed.title.clone()),
            title: parsed.title.clone(),
            rules: match &parsed.rules {
                FilterRuleTarget::Any => None,
                FilterRuleTarget::Specific(rules) => Some(rules.clone()),
            },
            log_source: LogSource {
                category: log_source.category.clone(),
                product: log_source.product.clone(),
                service: log_source.service.clone(),
            },
            condition: filter_condition(&lowered)?,
        })
    }

    /// Returns whether it is for a rule with this id and name.
    pub(super) fn is_for(&self, id: &str, name: Option<&str>, log_source: &LogSource) -> bool {
        let is_named = match &self.rules {
            None => true,
            Some(rules) => rules.iter().any(|rule| rule == id || Some(rule.as_str()) == name),
        };
        is_named && self.log_source.includes(log_source)
    }
}

/// Adds the condition of each filter to the rules of all texts that it is for. Returns the filters that are for none.
pub fn apply_filters(texts: &mut [Loaded]) -> Vec<RuleError> {
    let mut unused = Vec::new();
    let mut filters: Vec<Filter> = Vec::new();
    for filter in texts.iter_mut().flat_map(|text| text.filters.drain(..)) {
        // Texts of an export repeat the filters of their rules.
        if !filters.contains(&filter) {
            filters.push(filter);
        }
    }
    for filter in filters {
        let mut is_used = false;
        for text in &mut *texts {
            for (rule, name) in text.rules.iter_mut().zip(&text.names) {
                if filter.is_for(&rule.id, name.as_deref(), &rule.log_source) {
                    is_used = true;
                    let own = std::mem::replace(&mut rule.condition, Expression::And(Vec::new()));
                    rule.condition = Expression::And(vec![own, filter.condition.clone()]);
                }
            }
        }
        if !is_used {
            unused.push(refusal(&Some(filter.id), &filter.title, NO_RULE.to_owned()));
        }
    }
    unused
}
