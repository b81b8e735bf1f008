//! Rules, and why one is refused.

use std::fmt;

use crate::expression::Expression;
use crate::log_sources::LogSource;

/// A rule over single events.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Identifier; of a Sigma rule its `id`, or its title if it has none.
    pub id: String,
    /// One line for readers.
    pub title: String,
    /// What the rule finds, for readers.
    pub description: String,
    /// How bad a match is.
    pub severity: Severity,
    /// Tags as the rule has them: `attack.t1059`, `attack.execution`.
    pub tags: Vec<String>,
    /// Links for readers.
    pub references: Vec<String>,
    /// What else may match.
    pub false_positives: Vec<String>,
    /// Author.
    pub author: Option<String>,
    /// Events that the rule is for.
    pub log_source: LogSource,
    /// Condition over the fields of an event.
    pub condition: Expression,
}

/// Severity of a rule. The order is that of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Severity {
    /// Worth a note.
    Informational,
    /// Low.
    Low,
    /// Medium; of rules that say nothing.
    #[default]
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
}

impl Severity {
    /// Reads the word that [`name`](Self::name) returns.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Informational, Self::Low, Self::Medium, Self::High, Self::Critical];
        all.into_iter().find(|severity| severity.name() == name)
    }

    /// Returns the word that Sigma and Kibana use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Informational => "informational",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Returns the risk score that Kibana gives a rule of this severity: 0 to 100.
    pub fn risk_score(self) -> u8 {
        match self {
            Self::Informational => 0,
            Self::Low => 21,
            Self::Medium => 47,
            Self::High => 73,
            Self::Critical => 99,
        }
    }
}

/// A rule that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleError {
    /// Identifier of the rule; empty if the text is no rule.
    pub id: String,
    /// Title of the rule; empty if the text is no rule.
    pub title: String,
    /// Reason for readers.
    pub reason: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id.is_empty(), self.title.is_empty()) {
            (true, true) => f.write_str(&self.reason),
            (true, false) => write!(f, "[{}]: {}", self.title, self.reason),
            (false, _) => write!(f, "[{}] {}: {}", self.id, self.title, self.reason),
        }
    }
}

impl std::error::Error for RuleError {}
