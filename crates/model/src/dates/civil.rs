//! Days and dates of the proleptic Gregorian calendar, without time zones.

/// Milliseconds of a day.
pub(super) const DAY_MS: i64 = 86_400_000;

/// Calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
}

/// Returns the days since 1970-01-01. Howard Hinnant's algorithm: eras of 400 years that begin in March.
pub(super) fn days_from(date: Date) -> i64 {
    let year = if date.month <= 2 { date.year - 1 } else { date.year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((date.month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(date.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the date of a day; the inverse of [`days_from`].
pub(super) fn date_of(days: i64) -> Date {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Date { year, month, day }
}

/// Returns the number of days of a month.
pub(super) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns whether February has 29 days.
pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the weekday of a day; Monday is 0.
pub(super) fn weekday(days: i64) -> u32 {
    (days + 3).rem_euclid(7) as u32
}

/// Adds months to a date; the day is limited to the length of the month.
pub(super) fn add_months(date: Date, months: i64) -> Date {
    let total = date.year * 12 + i64::from(date.month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    Date {
        year,
        month,
        day: date.day.min(days_in_month(year, month)),
    }
}
