//! Caution: the one setting of the policy that users choose.

/// Factor of the prices of failure, from 0.1 to 10. Twice the caution makes a failure twice as
/// expensive: fewer failures, larger requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caution(f64);

impl Default for Caution {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl Caution {
    /// Half the price: smaller requests.
    pub const LOW: Self = Self(0.5);
    /// The default.
    pub const NORMAL: Self = Self(1.0);
    /// Two and a half times the price: about half as many OOM kills as with the default.
    pub const HIGH: Self = Self(2.5);

    /// Parses `low`, `normal`, `high` or a number from 0.1 to 10.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "low" => Some(Self::LOW),
            "normal" => Some(Self::NORMAL),
            "high" => Some(Self::HIGH),
            _ => {
                let is_decimal = |byte: u8| byte.is_ascii_digit() || byte == b'.';
                let factor: f64 = text.bytes().all(is_decimal).then(|| text.parse().ok())??;
                (0.1..=10.0).contains(&factor).then_some(Self(factor))
            }
        }
    }

    pub fn factor(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caution_is_a_word_or_a_number_between_a_tenth_and_ten() {
        for (text, expected) in [
            ("low", Some(0.5)),
            ("normal", Some(1.0)),
            ("high", Some(2.5)),
            ("0.1", Some(0.1)),
            ("10", Some(10.0)),
            ("0.09", None),
            ("10.1", None),
            ("1e0", None),
            ("-1", None),
            ("+1", None),
            ("NaN", None),
            ("High", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(
                Caution::parse(text).map(Caution::factor),
                expected,
                "{text}"
            );
        }
    }
}
