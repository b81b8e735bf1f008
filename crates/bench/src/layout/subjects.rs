//! Measured layouts: the same events, divided into indices and shards in different ways.

use clap::ValueEnum;
use firn_model::period::Period;
use firn_tools::client::encode_segment;

/// A layout of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// An index per day with 3 shards, events spread by the hash of their id
    Daily,
    /// The same, with a tenant's events of a day in one shard by `routing`
    RoutedDaily,
    /// An index per week with 7 shards, by `routing`
    RoutedWeekly,
    /// An index per two weeks with 14 shards, by `routing`
    RoutedTwoWeekly,
    /// An index per month with 28 shards, by `routing`
    RoutedMonthly,
    /// firn's layout: a data stream by tenant, weekly, shards by volume, tenants placed
    Own,
}

impl Layout {
    /// Returns its name on the command line and in index names.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::RoutedDaily => "routed-daily",
            Self::RoutedWeekly => "routed-weekly",
            Self::RoutedTwoWeekly => "routed-two-weekly",
            Self::RoutedMonthly => "routed-monthly",
            Self::Own => "own",
        }
    }

    /// Returns its name in a table's head.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Daily => "daily×3",
            Self::RoutedDaily => "daily×3 routed",
            Self::RoutedWeekly => "weekly×7 routed",
            Self::RoutedTwoWeekly => "two-weekly×14 routed",
            Self::RoutedMonthly => "monthly×28 routed",
            Self::Own => "firn's own",
        }
    }

    /// Returns period and shards of an index; `None`: the server decides.
    pub(super) fn cut(self) -> Option<(Period, u32)> {
        match self {
            Self::Daily | Self::RoutedDaily => Some((Period::Day, 3)),
            Self::RoutedWeekly => Some((Period::Week, 7)),
            Self::RoutedTwoWeekly => Some((Period::TwoWeeks, 14)),
            Self::RoutedMonthly => Some((Period::Month, 28)),
            Self::Own => None,
        }
    }

    /// Whether requests set the tenant as `routing`.
    pub(super) fn is_routed(self) -> bool {
        !matches!(self, Self::Daily | Self::Own)
    }
}

/// A layout on a server.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// Position in the list of servers.
    pub(super) server: usize,
    pub(super) layout: Layout,
    /// `PREFIX-LAYOUT`: the data stream, or the prefix of the index names.
    pub(super) name: String,
}

impl Subject {
    pub(super) fn new(server: usize, layout: Layout, prefix: &str) -> Self {
        Self {
            server,
            layout,
            name: format!("{prefix}-{}", layout.id()),
        }
    }

    /// Returns `/` and the index expression of all its events, encoded.
    pub(super) fn path(&self) -> String {
        let name = encode_segment(&self.name);
        match self.layout {
            Layout::Own => format!("/{name}"),
            // Dates begin with a digit; no other layout's name continues like this.
            _ => format!("/{name}-*"),
        }
    }

    /// Returns the path of queries for a tenant.
    pub(super) fn search_path(&self, tenant: &str) -> String {
        match self.layout.is_routed() {
            true => format!("{}/_search?routing={}", self.path(), encode_segment(tenant)),
            false => format!("{}/_search", self.path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_expression_reaches_another_layout() {
        for layout in Layout::value_variants() {
            let path = Subject::new(0, *layout, "bench").path();
            let start = path.trim_start_matches('/').trim_end_matches('*');
            for other in Layout::value_variants().iter().filter(|other| *other != layout) {
                let index = format!("bench-{}-2026.01.05", other.id());
                assert!(!index.starts_with(start), "{start}* takes {index}");
            }
        }
    }

    #[test]
    fn the_tenant_is_named_where_the_layout_is_routed() {
        let path = |layout| Subject::new(0, layout, "b").search_path("t 1");
        assert_eq!(path(Layout::Daily), "/b-daily-*/_search");
        assert_eq!(path(Layout::RoutedWeekly), "/b-routed-weekly-*/_search?routing=t%201");
        assert_eq!(path(Layout::Own), "/b-own/_search");
    }
}
