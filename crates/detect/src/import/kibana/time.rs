//! Times of Kibana's rules.

/// Returns how far back a rule looks, ms: `now-6m`.
pub(super) fn lookback_ms(name: &str, text: &str) -> Result<u64, String> {
    let parsed = text.trim().strip_prefix("now-").and_then(|span| {
        let (at, unit) = span.char_indices().next_back()?;
        let unit_ms = match unit {
            's' => 1000,
            'm' => 60_000,
            'h' | 'H' => 3_600_000,
            'd' => 86_400_000,
            'w' => 7 * 86_400_000,
            _ => return None,
        };
        span[..at].parse::<u64>().ok()?.checked_mul(unit_ms)
    });
    parsed.ok_or_else(|| format!("[{name}] is not [now-] with a number and a unit (s, m, h, d, w): [{text}]"))
}
