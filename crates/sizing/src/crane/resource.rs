//! Crane's resource recommender: requests of one container from its weighted usage.
//!
//! CPU and memory are predicted separately; memory is at least the OOM protection's; then both
//! become a size of the list, if a list is used and one fits. Source:
//! `pkg/recommendation/recommender/resource/recommend.go` and `registry.go` (settings and their
//! defaults).

use model::{Cpu, Memory, MethodStep};

use super::histogram::WeightedHistogram;
use super::parse_duration;
use super::percentile::{HistogramSettings, PercentilePredictor, PercentileSettings};
use crate::amount;
use crate::instant::DAY_NS;

const SPECIFICATIONS: &str = "0.25c0.25g,0.25c0.5g,0.25c1g,0.5c0.5g,0.5c1g,1c1g,1c2g,1c4g,1c8g,2c2g,2c4g,2c8g,2c16g,4c4g,4c8g,4c16g,\
                              4c32g,8c8g,8c16g,8c32g,8c64g,16c32g,16c64g,16c128g,32c64g,32c128g,32c256g,64c128g,64c256g";

/// Maximum of the sample intervals: the length of a block of the history.
const MAX_SAMPLE_INTERVAL: (i64, &str) = (DAY_NS, "24h");
const MAX_OOM_HISTORY: (i64, &str) = (30 * DAY_NS, "30d");

/// Time for which an OOM kill counts, as in Crane.
const PROTECTION_NS: i64 = 7 * DAY_NS;

const MIN_BUMP_UP_BYTES: i64 = 100 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct CraneConfig {
    /// In cores.
    pub cpu: PercentilePredictor,
    /// In bytes.
    pub memory: PercentilePredictor,
    pub(super) cpu_interval_ns: Option<i64>,
    pub(super) memory_interval_ns: Option<i64>,
    oom_bump_ratio: Option<f64>,
    pub(super) oom_history_ns: i64,
    specifications: Option<Specifications>,
}

impl CraneConfig {
    /// Supported settings by Crane's names. Unlike there, `oom-history-length` has its effect.
    pub const KEYS: [&'static str; 18] = [
        "cpu-sample-interval",
        "mem-sample-interval",
        "oom-history-length",
        "cpu-request-percentile",
        "cpu-request-margin-fraction",
        "cpu-target-utilization",
        "cpu-model-history-length",
        "cpu-histogram-bucket-size",
        "cpu-histogram-max-value",
        "mem-request-percentile",
        "mem-request-margin-fraction",
        "mem-target-utilization",
        "mem-model-history-length",
        "mem-histogram-bucket-size",
        "mem-histogram-max-value",
        "oom-protection",
        "oom-bump-ratio",
        "specification",
    ];
    /// The list of sizes, separate from the other keys because it is only used with
    /// `specification`.
    pub const SPECIFICATION_KEY: &'static str = "specification-config";

    /// Reads settings by name, with Crane's defaults for missing ones.
    pub fn new<'a>(setting: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let predictor = |resource: &str, half_life: &str, bucket_size: &str, max_value: &str| {
            let text = |key: &str, default: &str| {
                setting(&format!("{resource}-{key}"))
                    .unwrap_or(default)
                    .to_owned()
            };
            PercentilePredictor::parse(&PercentileSettings {
                aggregated: true,
                history_length: text("model-history-length", "168h"),
                // The setting thins out the samples (`history.rs`).
                sample_interval: "1m".to_owned(),
                margin_fraction: text("request-margin-fraction", "0.15"),
                target_utilization: text("target-utilization", "1.0"),
                percentile: text("request-percentile", "0.99"),
                min_sample_weight: String::new(),
                histogram: HistogramSettings {
                    half_life: half_life.to_owned(),
                    bucket_size: text("histogram-bucket-size", bucket_size),
                    max_value: text("histogram-max-value", max_value),
                    ..HistogramSettings::default()
                },
            })
        };
        let protects = switch(&setting, "oom-protection", true)?;
        let ratio = match setting("oom-bump-ratio") {
            None => 1.2,
            Some(text) => text
                .parse()
                .ok()
                .filter(|ratio: &f64| ratio.is_finite() && *ratio >= 0.0)
                .ok_or("oom-bump-ratio must be a number of at least 0")?,
        };
        let interval = |key| duration(&setting, key, MAX_SAMPLE_INTERVAL);
        let oom_history = duration(&setting, "oom-history-length", MAX_OOM_HISTORY)?;
        let normalises = switch(&setting, "specification", false)?;
        // Validated even if unused: otherwise an error would only appear when the switch is turned
        // on.
        let list = setting(Self::SPECIFICATION_KEY).unwrap_or(SPECIFICATIONS);
        let list = Specifications::parse(list)
            .map_err(|error| format!("specification-config: {error}"))?;
        Ok(Self {
            cpu: predictor("cpu", "24h", "0.1", "100").map_err(|error| format!("cpu: {error}"))?,
            memory: predictor("mem", "48h", "104857600", "104857600000")
                .map_err(|error| format!("memory: {error}"))?,
            cpu_interval_ns: interval("cpu-sample-interval")?,
            memory_interval_ns: interval("mem-sample-interval")?,
            oom_bump_ratio: protects.then_some(ratio),
            oom_history_ns: oom_history.unwrap_or(PROTECTION_NS),
            specifications: normalises.then_some(list),
        })
    }

    /// The recommendation from usage in cores and bytes, and the request of a container that was
    /// OOM-killed in the last seven days. `None` without memory samples.
    pub fn recommend(
        &self,
        cpu: &WeightedHistogram,
        memory: &WeightedHistogram,
        killed: Option<Memory>,
    ) -> Option<(Cpu, Memory)> {
        let millicores = Cpu::from_millicores(amount::from_f64(self.cpu.predict(cpu) * 1000.0));
        let predicted = Memory::from_bytes(amount::from_f64(self.memory.predict(memory)));
        if predicted.bytes() == 0 {
            return None;
        }
        let protected = self
            .oom_bump_ratio
            .zip(killed)
            .map(|(ratio, request)| protected_memory(request, ratio));
        let bytes = protected.map_or(predicted, |protected| protected.max(predicted));
        let size = self
            .specifications
            .as_ref()
            .and_then(|list| list.fit(millicores, bytes));
        Some(size.unwrap_or((millicores, bytes)))
    }

    /// The steps of the recommendation for CPU and memory, without the result.
    pub(super) fn explain(
        &self,
        cpu: &WeightedHistogram,
        memory: &WeightedHistogram,
        killed: Option<Memory>,
    ) -> [Vec<MethodStep>; 2] {
        let bytes = |name, memory: Memory| MethodStep::number(name, memory.bytes() as f64, "bytes");
        let mut steps = [
            self.cpu.explain(cpu, 1000.0, "millicores"),
            self.memory.explain(memory, 1.0, "bytes"),
        ];
        if let Some((ratio, request)) = self.oom_bump_ratio.zip(killed) {
            steps[1].push(bytes("oom-killed-request", request));
            steps[1].push(bytes("oom-protection", protected_memory(request, ratio)));
        }
        if let (Some(_), Some((cores, size))) =
            (&self.specifications, self.recommend(cpu, memory, killed))
        {
            let millicores = cores.millicores() as f64;
            steps[0].push(MethodStep::number(
                "specification",
                millicores,
                "millicores",
            ));
            steps[1].push(bytes("specification", size));
        }
        steps
    }

    /// Names of present settings without effect: those of a switch that is off.
    pub(crate) fn unused(&self, is_present: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let protects = self.oom_bump_ratio.is_some();
        let normalises = self.specifications.is_some();
        let mut keys = vec![
            ("oom-bump-ratio", protects),
            ("oom-history-length", protects),
            (Self::SPECIFICATION_KEY, normalises),
        ];
        keys.retain(|(key, is_used)| !is_used && is_present(key));
        keys.into_iter().map(|(key, _)| key).collect()
    }

    /// Text that two settings share if and only if they share their history.
    pub(crate) fn shape(&self) -> String {
        let (cpu, memory) = (self.cpu.shape(), self.memory.shape());
        format!("crane, cpu {cpu}, memory {memory}")
    }
}

/// Memory needed by a container that was OOM-killed with this request: at least 100 MiB more.
pub fn protected_memory(request: Memory, ratio: f64) -> Memory {
    let more = request.bytes().saturating_add(MIN_BUMP_UP_BYTES);
    Memory::from_bytes(more.max(amount::scale(request.bytes(), ratio)))
}

/// A positive duration of at most `max`, in nanoseconds.
fn duration<'a>(
    setting: &impl Fn(&str) -> Option<&'a str>,
    key: &'static str,
    (max_ns, max): (i64, &'static str),
) -> Result<Option<i64>, String> {
    let Some(text) = setting(key) else {
        return Ok(None);
    };
    parse_duration(text)
        .filter(|length| (1..=max_ns).contains(length))
        .map(Some)
        .ok_or_else(|| format!("{key} must be a duration above 0 and at most {max}"))
}

fn switch<'a>(
    setting: &impl Fn(&str) -> Option<&'a str>,
    key: &'static str,
    default: bool,
) -> Result<bool, String> {
    match setting(key) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(format!("{key} must be true or false")),
    }
}

const MAX_ITEMS: usize = 1000;

const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Specification {
    pub cores: f64,
    pub gibibytes: f64,
}

/// A list of sizes, ordered by CPU, then memory.
/// Source: `pkg/recommendation/recommender/resource/resource_spec.go`. There the result is printed
/// with two decimals; here it is exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Specifications(Vec<Specification>);

impl Specifications {
    /// Parses a list such as `0.25c0.5g,1c2g`: items are separated by commas, and the two numbers
    /// of an item by anything else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut list = text.split(',').map(item).collect::<Result<Vec<_>, _>>()?;
        if list.len() > MAX_ITEMS {
            return Err(format!("there are more than {MAX_ITEMS} sizes"));
        }
        list.sort_by(|a, b| {
            a.cores
                .total_cmp(&b.cores)
                .then(a.gibibytes.total_cmp(&b.gibibytes))
        });
        Ok(Self(list))
    }

    pub fn items(&self) -> &[Specification] {
        &self.0
    }

    /// The first size that fits both, if any.
    pub fn fit(&self, cpu: Cpu, memory: Memory) -> Option<(Cpu, Memory)> {
        let holds = |size: &&Specification| {
            size.cores >= cpu.cores() && size.gibibytes >= memory.bytes() as f64 / GIB
        };
        let size = self.0.iter().find(holds)?;
        let millicores = (size.cores * 1000.0).ceil() as i64;
        let bytes = (size.gibibytes * GIB).ceil() as i64;
        // Sizes of zero are invalid.
        (millicores > 0 && bytes > 0)
            .then(|| (Cpu::from_millicores(millicores), Memory::from_bytes(bytes)))
    }
}

fn item(text: &str) -> Result<Specification, String> {
    let numbers = text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    let numbers = numbers
        .filter(|number| !number.is_empty())
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>();
    match numbers.as_deref() {
        Ok([cores, gibibytes]) if cores.is_finite() && gibibytes.is_finite() => Ok(Specification {
            cores: *cores,
            gibibytes: *gibibytes,
        }),
        _ => Err(format!("size {text:?} is not of the form <cores>c<GiB>g")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, millicores: i64, bytes: i64, expected: Option<(i64, i64)>) {
        let list = Specifications::parse(list).expect("a list");
        let fit = list.fit(Cpu::from_millicores(millicores), Memory::from_bytes(bytes));
        let fit = fit.map(|(cpu, memory)| (cpu.millicores(), memory.bytes()));
        assert_eq!(fit, expected);
    }

    #[test]
    fn a_size_keeps_its_exact_value() {
        check("0.125c0.125g", 100, 1 << 20, Some((125, 1 << 27)));
        check("1c1g,2c8g", 500, 4 << 30, Some((2000, 8 << 30)));
        check("1c1g,2c8g", 2001, 1, None);
        check("0c0g,1c1g", 0, 0, None);
    }

    #[test]
    fn an_item_has_exactly_two_numbers() {
        for text in ["", "1c", "1c2g3x", "1.2.3c1g", "1c2g,", "."] {
            assert!(Specifications::parse(text).is_err(), "{text}");
        }
    }
}
