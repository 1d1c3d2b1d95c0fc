//! Figures for people: times, shares, bytes and counts. A figure never widens with its value.

pub use holdup_findings::wording::time as duration;

/// Seconds for a column of the ledger: a figure that is not zero never reads as zero.
pub fn seconds(ns: u64) -> String {
    let value = ns as f64 / 1e9;
    match ns {
        0 => "0 s".to_owned(),
        1..100_000 => "<0.001 s".to_owned(),
        100_000..9_950_000 => format!("{value:.4} s"),
        9_950_000..995_000_000 => format!("{value:.3} s"),
        995_000_000..99_950_000_000 => format!("{value:.2} s"),
        _ => format!("{value:.1} s"),
    }
}

/// A share (0 to 1) in percent with one decimal. Small values above zero are `<0.1 %`, the whole is `100 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        value if value > 0.0 && value < 0.05 => "<0.1 %".to_owned(),
        value if (99.95..100.05).contains(&value) => "100 %".to_owned(),
        value => format!("{value:.1} %"),
    }
}

/// A share as whole percent, without the sign.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// `part` of `whole` as a share. 0 if `whole` is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub use holdup_findings::wording::bytes;

/// A count with thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `noun` after its count, in the plural unless there is one.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A large count with three digits: `1.31 M`.
pub fn rounded(number: u64) -> String {
    match number {
        0..100_000 => count(number),
        100_000..999_500 => format!("{:.0} k", number as f64 / 1e3),
        999_500..999_500_000 => format!("{:.2} M", number as f64 / 1e6),
        _ => format!("{:.2} G", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_at_every_border() {
        let said = [0, 999, 1_000, 999_499, 999_500, 12_345_678, 999_500_000, 12_650_000_000].map(duration);
        assert_eq!(said, ["0 ns", "999 ns", "1.00 µs", "999 µs", "1.00 ms", "12.3 ms", "1.00 s", "12.7 s"]);
        assert_eq!(duration(9_999), "10.0 µs");
    }

    #[test]
    fn seconds_are_never_rounded_to_nothing() {
        let said = [0, 1, 150_000, 20_000_000, 25_100_000_000, 160_000_000_000].map(seconds);
        assert_eq!(said, ["0 s", "<0.001 s", "0.0001 s", "0.020 s", "25.10 s", "160.0 s"]);
    }

    #[test]
    fn shares_counts_and_bytes() {
        assert_eq!([0.0, 0.0001, 0.496, 1.0].map(percent), ["0.0 %", "<0.1 %", "49.6 %", "100 %"]);
        assert_eq!((share(1, 0), whole_percent(0.314)), (0.0, "31".to_owned()));
        assert_eq!(
            [0, 1023, 1024, 10_300, 5 << 30, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "10.1 KiB", "5.00 GiB", "16.0 EiB"]
        );
        assert_eq!([counted(1, "thread"), counted(1_234, "thread")], ["1 thread", "1,234 threads"]);
        assert_eq!([999, 1_310_000, 2_000_000_000].map(rounded), ["999", "1.31 M", "2.00 G"]);
    }
}
