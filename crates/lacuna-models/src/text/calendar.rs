//! The date for chat templates that mention it.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The template function `strftime_now`, in UTC.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    strftime(format, seconds)
}

/// Formats seconds since 1970 as C's `strftime` does.
fn strftime(format: &str, seconds: u64) -> Result<String, Error> {
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (month_name, day_name) = (MONTHS[month - 1], DAYS[(days as usize + 3) % 7]);
    let mut output = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => output.push_str(&year.to_string()),
            Some('y') => output.push_str(&format!("{:02}", year % 100)),
            Some('m') => output.push_str(&format!("{month:02}")),
            Some('d') => output.push_str(&format!("{day:02}")),
            Some('B') => output.push_str(month_name),
            Some('b') => output.push_str(&month_name[..3]),
            Some('A') => output.push_str(day_name),
            Some('a') => output.push_str(&day_name[..3]),
            Some('H') => output.push_str(&format!("{:02}", seconds / 3600 % 24)),
            Some('M') => output.push_str(&format!("{:02}", seconds / 60 % 60)),
            Some('S') => output.push_str(&format!("{:02}", seconds % 60)),
            Some('%') => output.push('%'),
            other => {
                let directive = other.map(String::from).unwrap_or_default();
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("strftime_now does not know '%{directive}'"),
                ));
            }
        }
    }
    Ok(output)
}

/// Year, month and day of a day since 1970, by Howard Hinnant's `civil_from_days`.
fn civil(days: u64) -> (u64, usize, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // March is month 0, so that leap days are at the end.
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%A %a %d %B %b %m %Y %y %H:%M:%S 100%%";
        assert_eq!(strftime(all, 0).unwrap(), "Thursday Thu 01 January Jan 01 1970 70 00:00:00 100%");
        assert_eq!(strftime(all, 1_709_210_096).unwrap(), "Thursday Thu 29 February Feb 02 2024 24 12:34:56 100%");
        assert_eq!(strftime("%d %b %Y", 1_794_735_600).unwrap(), "15 Nov 2026");
        assert!(strftime("%Q", 0).is_err());
    }
}
