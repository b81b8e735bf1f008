//! Formatting of numbers and times without `std::fmt`, which would take half the time of an event.

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(crate) fn write_unsigned(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    while number >= 100 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number >= 10 {
        let pair = number as usize * 2;
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        start -= 1;
        digits[start] = b'0' + number as u8;
    }
    out.extend_from_slice(&digits[start..]);
}

pub(crate) fn write_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    write_unsigned(out, number.unsigned_abs());
}

/// Writes `number` / 10^`decimals`.
pub(crate) fn write_decimal(out: &mut Vec<u8>, number: i64, decimals: u32) {
    let scale = 10_u64.pow(decimals);
    if number < 0 {
        out.push(b'-');
    }
    let number = number.unsigned_abs();
    write_unsigned(out, number / scale);
    out.push(b'.');
    write_padded(out, number % scale, decimals as usize);
}

/// Writes `width` digits with leading zeros.
pub(crate) fn write_padded(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Writes the lowest `digits` hex digits, at most 16.
pub(crate) fn write_hex(out: &mut Vec<u8>, number: u64, digits: usize) {
    for position in (0..digits).rev() {
        out.push(HEX[(number >> (position * 4)) as usize & 15]);
    }
}

pub(crate) fn write_ipv4(out: &mut Vec<u8>, address: u32) {
    for (position, byte) in address.to_be_bytes().into_iter().enumerate() {
        if position > 0 {
            out.push(b'.');
        }
        write_unsigned(out, u64::from(byte));
    }
}

pub(crate) fn write_mac(out: &mut Vec<u8>, bits: u64) {
    for position in (0..6).rev() {
        write_hex(out, bits >> (position * 8), 2);
        if position > 0 {
            out.push(b':');
        }
    }
}

pub(crate) fn write_uuid(out: &mut Vec<u8>, high: u64, low: u64) {
    write_hex(out, high >> 32, 8);
    out.push(b'-');
    write_hex(out, high >> 16, 4);
    out.extend_from_slice(b"-4");
    write_hex(out, high, 3);
    out.push(b'-');
    write_hex(out, low >> 62 | 8, 1);
    write_hex(out, low >> 48, 3);
    out.push(b'-');
    write_hex(out, low, 12);
}

/// Writes times. Most of them have the same day as the previous one.
#[derive(Debug, Clone)]
pub(crate) struct TimeWriter {
    day: i64,
    /// `2026-11-21T`
    date: Vec<u8>,
}

const DAY_MS: i64 = 86_400_000;

impl TimeWriter {
    pub(crate) fn new() -> Self {
        Self {
            day: i64::MIN,
            date: Vec::with_capacity(16),
        }
    }

    /// Writes milliseconds since 1970 in UTC as `2026-11-21T14:30:23.123Z`.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, time_ms: i64) {
        let day = time_ms.div_euclid(DAY_MS);
        if day != self.day {
            self.day = day;
            let (year, month, day_of_month) = civil(day);
            self.date.clear();
            write_padded(&mut self.date, year as u64, 4);
            self.date.push(b'-');
            write_padded(&mut self.date, month, 2);
            self.date.push(b'-');
            write_padded(&mut self.date, day_of_month, 2);
            self.date.push(b'T');
        }
        let of_day = time_ms.rem_euclid(DAY_MS) as usize;
        let pair = |number: usize| [PAIRS[number * 2], PAIRS[number * 2 + 1]];
        let (hour, minute) = (pair(of_day / 3_600_000), pair(of_day / 60_000 % 60));
        let (second, ms) = (pair(of_day / 1000 % 60), of_day % 1000);
        let hundredths = pair(ms / 10);
        out.extend_from_slice(&self.date);
        out.extend_from_slice(&[
            hour[0],
            hour[1],
            b':',
            minute[0],
            minute[1],
            b':',
            second[0],
            second[1],
            b'.',
            hundredths[0],
            hundredths[1],
            b'0' + (ms % 10) as u8,
            b'Z',
        ]);
    }
}

/// Returns year, month and day of a day since 1970; years 0 to 9999. Howard Hinnant's `civil_from_days`.
fn civil(day: i64) -> (i64, u64, u64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year.clamp(0, 9999), month as u64, day_of_month as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_times_read_as_they_should() {
        for number in [0, 9, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(written(|out| write_unsigned(out, number)), number.to_string());
        }
        assert_eq!(written(|out| write_signed(out, -42)), "-42");
        assert_eq!(written(|out| write_decimal(out, -1205, 3)), "-1.205");
        assert_eq!(written(|out| write_ipv4(out, 0x0a00_01ff)), "10.0.1.255");
        assert_eq!(written(|out| write_mac(out, 0x0102_0304_05ff)), "01:02:03:04:05:ff");
        let uuid = written(|out| write_uuid(out, u64::MAX, 0));
        assert_eq!(uuid, "ffffffff-ffff-4fff-8000-000000000000");
        for (time_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_709_208_000_007, "2024-02-29T12:00:00.007Z"),
            (1_795_271_423_123, "2026-11-21T14:30:23.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(written(|out| TimeWriter::new().write(out, time_ms)), text);
        }
    }
}
