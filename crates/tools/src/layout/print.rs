//! Recommendation as text.

use std::fmt::Write;

use serde_json::json;

use super::Found;
use crate::ingest::grouped;

impl Found {
    /// Prints facts, measurements, recommendation, reasons, and how to apply it.
    pub(super) fn text(&self, tenant_field: &str) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(tenant_field, &mut text);
        text
    }

    fn write(&self, tenant_field: &str, text: &mut String) -> std::fmt::Result {
        let (volumes, facts, advice) = (&self.volumes, &self.facts, &self.advice);
        writeln!(
            text,
            "{} on {}: {} events of {} tenants over {:.1} days, {:.1} MB in {} indices with {} shards\n",
            self.index,
            self.url,
            grouped(volumes.events),
            grouped(volumes.tenant_count),
            facts.days,
            volumes.bytes as f64 / 1e6,
            volumes.indices,
            volumes.shards
        )?;
        writeln!(
            text,
            "{:<28} {:>5} {:>12} {:>7} {:>11} {:>13}",
            "measured", "days", "events", "shards", "sample, ms", "histogram, ms"
        )?;
        for row in self.measured.iter().filter(|row| !row.narrowed) {
            writeln!(
                text,
                "{:<28} {:>5} {:>12} {:>7} {:>11.2} {:>13.2}",
                format!("{} ({})", row.tenant, row.size),
                row.days,
                grouped(row.events),
                row.shards,
                row.sample_ms,
                row.histogram_ms
            )?;
        }
        for (name, cost) in [("sample", facts.costs.sample), ("histogram", facts.costs.histogram)] {
            writeln!(
                text,
                "a {name} costs about {:.2} ms, {:.4} ms per shard, and {:.4} ms per 1,000 events",
                cost.base_ms,
                cost.shard_ms,
                cost.event_ms * 1000.0
            )?;
        }
        writeln!(
            text,
            "\nadvice: index.period {}, {} {}, {}",
            advice.period,
            advice.shards,
            if advice.shards == 1 { "shard" } else { "shards" },
            match advice.placement.len() {
                0 => "no placement".to_owned(),
                count => format!("{count} tenants placed"),
            }
        )?;
        for reason in &advice.reasons {
            writeln!(text, "- {}: {}", reason.rule, reason.because)?;
        }
        let traffic = match volumes.traffic_known {
            true => "volume and search time (from the traffic record) have the same weight",
            false => "only volume: there is no traffic record with the search time of tenants",
        };
        writeln!(text, "- load: {traffic}")?;
        self.write_effect(text)?;
        self.write_requests(tenant_field, text)
    }

    /// Prints the time of the usual search now and with the recommendation.
    fn write_effect(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\n{:<28} {:>17} {:>20}",
            format!("expected, {:.0} days", self.facts.question_days),
            "sample, ms",
            "histogram, ms"
        )?;
        for of in &self.expected {
            writeln!(
                text,
                "{:<28} {:>8.2} → {:>6.2} {:>11.2} → {:>6.2}",
                format!("{} ({})", of.tenant, of.size),
                of.sample_ms.0,
                of.sample_ms.1,
                of.histogram_ms.0,
                of.histogram_ms.1
            )?;
        }
        Ok(())
    }

    /// Prints the requests that apply the recommendation.
    fn write_requests(&self, tenant_field: &str, text: &mut String) -> std::fmt::Result {
        let advice = &self.advice;
        let settings = json!({
            "index.tenant.field": tenant_field,
            "index.period": advice.period,
            "index.number_of_shards": advice.shards,
        });
        writeln!(text, "\nin the template of the data stream:\n{settings:#}")?;
        if !advice.placement.is_empty() {
            let table = json!({"number_of_shards": advice.shards, "tenants": advice.placement});
            writeln!(text, "PUT /_firn/placement, for indices created later:\n{table}")?;
        }
        Ok(())
    }
}
