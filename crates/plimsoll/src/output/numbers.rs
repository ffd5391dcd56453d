//! Numbers with their units, as pages show them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use plot::{Unit, round_step};

pub(crate) const CPU: Unit = Unit {
    label: cpu,
    step: round_step,
};
pub(crate) const MEMORY: Unit = Unit {
    label: memory,
    step: |least| 2_f64.powf(least.max(1.0 / 1024.0).log2().ceil()),
};

/// CPU in millicores; from one core on, in cores.
pub(crate) fn cpu(millicores: f64) -> String {
    amount(millicores, 1000.0, ["m", ""])
}

/// Memory in MiB; from one GiB on, in GiB.
pub(crate) fn memory(mib: f64) -> String {
    amount(mib, 1024.0, ["Mi", "Gi"])
}

fn amount(number: f64, factor: f64, units: [&str; 2]) -> String {
    match number.abs() {
        0.0..0.5 => "0".to_owned(),
        small if small < factor - 0.5 => format!("{number:.0}{}", units[0]),
        _ => digits(number / factor) + units[1],
    }
}

/// Three digits, without zeros at the end.
pub(crate) fn digits(number: f64) -> String {
    let places = match number.abs() {
        0.0..9.995 => 2,
        9.995..99.95 => 1,
        _ => return grouped(number),
    };
    let text = format!("{number:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number with commas between thousands.
fn grouped(number: f64) -> String {
    let text = format!("{:.0}", number.abs());
    let groups = text
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy);
    let sign = if number <= -0.5 { "-" } else { "" };
    sign.to_owned() + &groups.collect::<Vec<_>>().join(",")
}

/// An amount of money, whole from 100 on.
pub(crate) fn money(amount: f64, currency: &str) -> String {
    let text = match amount.abs() {
        0.0..99.995 => format!("{:.2}", (amount * 100.0).round() / 100.0 + 0.0),
        _ => grouped(amount),
    };
    format!("{text} {currency}").trim_end().to_owned()
}

/// Letters of a sparkline.
const LETTERS: usize = 24;

/// Highest amounts over a span of seconds, as blocks that begin at zero; a blank where there are none.
pub(crate) fn sparkline(
    (start, end): (i64, i64),
    samples: impl Iterator<Item = (i64, f64)>,
) -> String {
    let mut slots = [None; LETTERS];
    for (second, amount) in samples {
        let share = (second - start) as f64 / (end - start).max(1) as f64;
        let slot = &mut slots[((share * LETTERS as f64) as usize).min(LETTERS - 1)];
        *slot = Some(amount.max(slot.unwrap_or(0.0)));
    }
    let highest = slots.iter().flatten().copied().fold(0.0, f64::max);
    let blocks = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let block = |amount: f64| blocks[((amount / highest * 8.0) as usize).min(7)];
    slots.iter().map(|slot| slot.map_or(' ', block)).collect()
}

/// A share in percent with this number of digits.
pub(crate) fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", 100.0 * share)
}

pub(crate) fn minute(time: Timestamp) -> String {
    let time = time.to_zoned(TimeZone::UTC);
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A time before now, such as `5 min ago`.
pub(crate) fn ago(seconds: i64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    let (length, unit) = unit.unwrap_or((1, "s"));
    format!("{} {unit} ago", seconds.max(0) / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_unit_that_fits() {
        for (found, expected) in [
            (cpu(250.4), "250m"),
            (cpu(-0.2), "0"),
            (cpu(1500.0), "1.5"),
            (cpu(412_345.0), "412"),
            (memory(512.0), "512Mi"),
            (memory(1536.0), "1.5Gi"),
            (memory(10_752.0), "10.5Gi"),
            (money(-0.001, "USD"), "0.00 USD"),
            (money(27.604, "USD"), "27.60 USD"),
            (money(-5_900.4, "EUR"), "-5,900 EUR"),
            (money(1_234_567.0, ""), "1,234,567"),
            (percent(0.456, 0), "46 %"),
            (ago(90), "90 s ago"),
            (ago(7_200), "2 h ago"),
        ] {
            assert_eq!(found, expected);
        }
        let samples = [(0, 1.0), (10, 4.0), (20, 0.0), (90, 8.0), (100, 2.0)];
        assert_eq!(
            sparkline((0, 100), samples.into_iter()),
            "▂ ▅ ▁                █ ▃"
        );
        assert!((((MEMORY.step)(300.0)) - 512.0).abs() < 1e-9);
    }
}
