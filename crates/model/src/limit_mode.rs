//! Relation of limits to requests.

use crate::{Quantity, ResourceName};

/// Maximum length of the text, in bytes.
const MAX_TEXT: usize = 128;
/// Maximum of a share, in percent.
const MAX_PERCENT: u32 = 1000;

/// Limit of one resource, given the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LimitMode {
    /// In proportion to the request, as in the pod's manifest.
    #[default]
    Proportional,
    Equal,
    None,
    /// The request plus a share of it in percent.
    RequestPlusPercent(u32),
    RequestPlusAmount(Quantity),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitModes {
    pub cpu: LimitMode,
    pub memory: LimitMode,
}

impl LimitModes {
    /// Proportional limits of both resources.
    pub const PROPORTIONAL: &'static Self = &Self {
        cpu: LimitMode::Proportional,
        memory: LimitMode::Proportional,
    };

    /// Parses one mode for both resources, such as `equal`, or one per resource, such as
    /// `cpu=none,memory=request-plus:200Mi`. A resource that is not named is proportional. An
    /// amount needs a resource.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        if !text.contains('=') {
            let mode = LimitMode::parse(text)?;
            let is_amount = matches!(mode, LimitMode::RequestPlusAmount(_));
            return (!is_amount).then(|| Self {
                cpu: mode.clone(),
                memory: mode,
            });
        }
        let (mut cpu, mut memory) = (None, None);
        for item in text.split(',') {
            let (resource, mode) = item.split_once('=')?;
            let found = match resource.trim() {
                "cpu" => &mut cpu,
                "memory" => &mut memory,
                _ => return None,
            };
            if found.replace(LimitMode::parse(mode.trim())?).is_some() {
                return None;
            }
        }
        Some(Self {
            cpu: cpu.unwrap_or_default(),
            memory: memory.unwrap_or_default(),
        })
    }

    /// Mode of a resource. Resources other than CPU and memory are proportional.
    pub fn of(&self, resource: &ResourceName) -> &LimitMode {
        match resource {
            ResourceName::Cpu => &self.cpu,
            ResourceName::Memory => &self.memory,
            ResourceName::Other(_) => &LimitMode::Proportional,
        }
    }

    /// Whether both resources are proportional.
    pub fn is_proportional(&self) -> bool {
        self == Self::PROPORTIONAL
    }

    /// The modes of a pod that runs already. The API server refuses to remove its limits, so they
    /// stay in proportion.
    #[must_use]
    pub fn in_place(&self) -> Self {
        let in_place = |mode: &LimitMode| match mode {
            LimitMode::None => LimitMode::Proportional,
            other => other.clone(),
        };
        Self {
            cpu: in_place(&self.cpu),
            memory: in_place(&self.memory),
        }
    }
}

impl LimitMode {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "proportional" => return Some(Self::Proportional),
            "equal" => return Some(Self::Equal),
            "none" => return Some(Self::None),
            _ => {}
        }
        let plus = text.strip_prefix("request-plus:")?;
        if let Some(percent) = plus.strip_suffix('%') {
            let digits = percent.bytes().all(|byte| byte.is_ascii_digit());
            let percent: u32 = percent.parse().ok().filter(|_| digits)?;
            return (percent <= MAX_PERCENT).then_some(Self::RequestPlusPercent(percent));
        }
        let amount: Quantity = plus.parse().ok()?;
        let is_usable = !amount.is_negative() && amount.milli_value() < i64::MAX;
        is_usable.then_some(Self::RequestPlusAmount(amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, cpu: LimitMode, memory: LimitMode) {
        let expected = LimitModes { cpu, memory };
        assert_eq!(LimitModes::parse(text), Some(expected), "{text}");
    }

    #[test]
    fn one_mode_is_for_both_resources_and_named_ones_are_for_their_own() {
        use LimitMode::{Equal, None, Proportional, RequestPlusAmount, RequestPlusPercent};
        check("proportional", Proportional, Proportional);
        check("equal", Equal, Equal);
        check("none", None, None);
        let plus = RequestPlusPercent(20);
        check("request-plus:20%", plus.clone(), plus.clone());
        check("cpu=none,memory=equal", None, Equal);
        check("memory=equal", Proportional, Equal);
        let amount = RequestPlusAmount("200Mi".parse().expect("a quantity"));
        check(
            "cpu=request-plus:20%, memory=request-plus:200Mi",
            plus,
            amount,
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("memory=request-plus:{}Mi", "1".repeat(200));
        for text in [
            "",
            "Equal",
            "request-plus",
            "request-plus:",
            "request-plus:200Mi",
            "request-plus:-5%",
            "request-plus:+5%",
            "request-plus:1001%",
            "request-plus:1.5%",
            "cpu=request-plus:-1",
            "cpu=request-plus:1e40",
            "cpu=equal,cpu=none",
            "cpu=equal,",
            "gpu=none",
            "cpu=",
            &long,
        ] {
            assert_eq!(LimitModes::parse(text), None, "{text}");
        }
    }
}
