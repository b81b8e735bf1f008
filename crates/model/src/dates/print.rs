//! Printing of dates.

use super::civil::{DAY_MS, Date, date_of};
use super::zone::Zone;

/// Local date and time in a zone.
pub(super) struct Clock<'a> {
    pub(super) date: Date,
    pub(super) days: i64,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) nano: u32,
    pub(super) offset_s: i64,
    pub(super) zone: &'a Zone,
}

impl<'a> Clock<'a> {
    /// Creates the local time; `nano_of_ms` counts within the ms.
    pub(super) fn at(ms: i64, nano_of_ms: u32, zone: &'a Zone) -> Self {
        let offset_ms = zone.offset_ms_at(ms);
        let local_ms = ms.saturating_add(offset_ms);
        let days = local_ms.div_euclid(DAY_MS);
        let of_day = local_ms.rem_euclid(DAY_MS) as u32;
        Self {
            date: date_of(days),
            days,
            hour: of_day / 3_600_000,
            minute: of_day / 60_000 % 60,
            second: of_day / 1000 % 60,
            nano: of_day % 1000 * 1_000_000 + nano_of_ms,
            offset_s: offset_ms / 1000,
            zone,
        }
    }

    /// Prints `2026-01-02T03:04:05.123Z`: 3 to 9 digits after the point, as many as needed.
    pub(super) fn push_iso(&self, out: &mut String) {
        push_year(out, self.date.year, 4);
        out.push('-');
        push_padded(out, u64::from(self.date.month), 2);
        out.push('-');
        push_padded(out, u64::from(self.date.day), 2);
        out.push('T');
        push_padded(out, u64::from(self.hour), 2);
        out.push(':');
        push_padded(out, u64::from(self.minute), 2);
        out.push(':');
        push_padded(out, u64::from(self.second), 2);
        out.push('.');
        push_padded(out, u64::from(self.nano / 1_000_000), 3);
        if !self.nano.is_multiple_of(1_000_000) {
            push_padded(out, u64::from(self.nano % 1_000_000), 6);
            while out.ends_with('0') {
                out.pop();
            }
        }
        push_offset(out, self.offset_s, true, "Z");
    }
}

/// Prints a year, with a sign if it needs one.
pub(super) fn push_year(out: &mut String, year: i64, width: usize) {
    if year < 0 {
        out.push('-');
    } else if year > 9999 && width >= 4 {
        out.push('+');
    }
    push_padded(out, year.unsigned_abs(), width);
}

/// Prints a number with leading zeros.
pub(super) fn push_padded(out: &mut String, number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut rest = number;
    while rest > 0 || digits.len() - at < width.max(1) {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend(digits[at..].iter().copied().map(char::from));
}

/// Prints `+01:00` or `+0100`, seconds only if they are not zero; `zero` for no offset.
pub(super) fn push_offset(out: &mut String, seconds: i64, colon: bool, zero: &str) {
    if seconds == 0 {
        out.push_str(zero);
        return;
    }
    out.push(if seconds < 0 { '-' } else { '+' });
    let seconds = seconds.unsigned_abs();
    push_padded(out, seconds / 3600, 2);
    if colon {
        out.push(':');
    }
    push_padded(out, seconds / 60 % 60, 2);
    if !seconds.is_multiple_of(60) {
        if colon {
            out.push(':');
        }
        push_padded(out, seconds % 60, 2);
    }
}
