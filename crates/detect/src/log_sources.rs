//! Log sources: which rules are for which events.

/// Events that a rule is for, in the words of Sigma.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogSource {
    /// Kind of event: `process_creation`, `webserver`.
    pub category: Option<String>,
    /// Where it comes from: `windows`, `linux`.
    pub product: Option<String>,
    /// Log of the product: `security`, `sshd`.
    pub service: Option<String>,
}

impl LogSource {
    /// Returns whether events of `other` are among the events of this log source: what this one names is the same there.
    pub fn includes(&self, other: &Self) -> bool {
        let is_met = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is_met(&self.category, &other.category)
            && is_met(&self.product, &other.product)
            && is_met(&self.service, &other.service)
    }

    /// Returns whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.category.is_none() && self.product.is_none() && self.service.is_none()
    }
}

impl std::fmt::Display for LogSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("category", &self.category),
            ("product", &self.product),
            ("service", &self.service),
        ];
        let mut separator = "";
        for (name, value) in parts {
            if let Some(value) = value {
                write!(f, "{separator}{name} {value}")?;
                separator = ", ";
            }
        }
        match separator {
            "" => f.write_str("none"),
            _ => Ok(()),
        }
    }
}

/// A log source, and the events that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSourceEntry {
    /// The log source.
    pub log_source: LogSource,
    /// Fields, and the values of which each has one. Without any: all events. Case is ignored.
    pub when: Vec<(String, Vec<String>)>,
    /// Set if the events stand in for those that rules of the category are written for. Only rules that name the category are
    /// evaluated on them.
    pub substitute: Option<Substitute>,
}

/// Events that hold less than those that rules are written for: Windows' event 4688 in the place of Sysmon's event 1.
///
/// A field that such an event does not have is unknown, and so is each test of it, also a negated one. A rule matches only if it
/// matches with each value that the unknown fields may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Substitute {
    /// Fields that have another name here; `None`: the field of this name is something else, and the one of the rule is unknown.
    pub fields: Vec<(String, Option<String>)>,
    /// Fields of rules whose values here are only a part of those that rules are written for: what a rule excludes by them is unknown.
    pub partial: Vec<String>,
}

/// Log sources of the events that a set of rules is evaluated on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSources {
    /// Each rule is evaluated on all events.
    Any,
    /// A rule is evaluated on the events of the log sources that its own includes.
    Known(Vec<LogSourceEntry>),
}
