//! Recommended requests of a container: the policy "price of failure", as the recommender runs it.

use std::collections::HashMap;

use clap::Args;
use jiff::Timestamp;
use model::{Cpu, Memory};
use replay::Resource;
use sizing::price_of_failure::Caution;
use sizing::{Amounts, Config, MethodHistory, MethodSettings, Observation, container_minimum};

use crate::usage::{ContainerUsage, MIB, PodUsage};

/// Least length of a recording in seconds.
const LEAST_RECORDING: i64 = 3600;

/// Settings of recommendations.
#[derive(Clone, Debug, Args)]
pub(crate) struct SizingArgs {
    /// Price of a failure: `low`, `normal`, `high`, or a factor from 0.1 to 10. More caution means
    /// larger requests and fewer failures.
    #[arg(long, default_value = "normal", value_name = "CAUTION", value_parser = caution)]
    pub(crate) caution: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recommendation {
    pub(crate) amounts: Amounts,
    /// Whether the history is too short for a smaller request (less than a day).
    pub(crate) is_young: bool,
}

fn caution(text: &str) -> Result<String, String> {
    match Caution::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be low, normal, high or a number from 0.1 to 10".to_owned()),
    }
}

/// Whether a workload such as `cronjob/report` runs and ends.
pub(crate) fn are_runs(workload: &str) -> bool {
    let kind = workload.split('/').next().unwrap_or_default();
    let kinds = ["job", "cronjob"];
    kinds.iter().any(|it| kind.eq_ignore_ascii_case(it))
}

/// Settings of the policy by the kind of the workload.
#[derive(Clone, Debug)]
pub(crate) struct Methods {
    by_hours: MethodSettings,
    /// For each `Job` and `CronJob`, whose history counts in runs.
    by_runs: MethodSettings,
}

/// Settings of the policy with this caution, which the flags have checked.
pub(crate) fn settings(caution: &str) -> Methods {
    let [by_hours, by_runs] = ["hours", "runs"].map(|unit| {
        let annotations = [
            ("plimsoll.dev/sizing-policy", "plimsoll"),
            ("plimsoll.dev/sizing-caution", caution),
            ("plimsoll.dev/sizing-history-unit", unit),
        ];
        let settings = MethodSettings::from_annotations(annotations).ok().flatten();
        settings.expect("valid annotations of our own policy")
    });
    Methods { by_hours, by_runs }
}

/// The recommendation at the end of the recording; `None` for recordings of less than an hour, but of
/// runs, which may be short. `containers` is the number of containers of the pod, which share the least request of a
/// pod.
pub(crate) fn recommend(
    usage: &ContainerUsage,
    methods: &Methods,
    containers: usize,
) -> Option<Recommendation> {
    let settings = if are_runs(&usage.id.workload) {
        &methods.by_runs
    } else {
        &methods.by_hours
    };
    let counts_runs = settings.method.counts_runs();
    let (start, end) = usage.span()?;
    if !counts_runs && end - start < LEAST_RECORDING {
        return None;
    }
    // Pods are numbered from one: the sizing method has another meaning for zero.
    let mut samples: Vec<(i64, u64, Resource, f64)> = Vec::new();
    for (pod, usage) in (1..).zip(&usage.pods) {
        for resource in [Resource::Cpu, Resource::Memory] {
            let of_pod = usage.of(resource).iter();
            samples.extend(of_pod.map(|(time, amount)| (*time, pod, resource, *amount)));
        }
    }
    samples.sort_by_key(|(time, pod, ..)| (*time, *pod));
    let first = samples.first()?.0;
    let at = |time| Timestamp::from_second(time).unwrap_or_default().into();
    let mut history = MethodHistory::new(settings, at(first));
    // A choice needs both resources: where a recording lacks one, it counts as next to nothing.
    let lacks = |of: fn(&PodUsage) -> bool| usage.pods.iter().all(of);
    let no_cpu = lacks(|pod| pod.cpu.is_empty());
    let no_memory = lacks(|pod| pod.memory.is_empty());
    let lasts: Vec<i64> = usage.pods.iter().map(last_time).collect();
    let index_of = |pod: u64| usize::try_from(pod.wrapping_sub(1)).unwrap_or(usize::MAX);
    let mut now = first;
    // CPU and memory of a pod at the same time together.
    for sample in samples.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (time, pod, ..) = sample[0];
        if counts_runs && time > now {
            now = time;
            history.end_runs(|pod| lasts.get(index_of(pod)).is_some_and(|last| *last >= now));
        }
        let amount = |of: Resource, is_lacking: bool| {
            let amounts = sample.iter().filter(|it| it.2 == of).map(|it| it.3);
            amounts.reduce(f64::max).or(is_lacking.then_some(1.0))
        };
        let cpu = amount(Resource::Cpu, no_cpu);
        let memory = amount(Resource::Memory, no_memory);
        let seen = Observation::Usage {
            cpu: cpu.map(|millicores| Cpu::from_millicores(millicores.round() as i64)),
            memory: memory.map(|mib| Memory::from_bytes((mib * MIB) as i64)),
        };
        history.observe(settings, pod, seen, at(time));
    }
    let pod_of = |pod: u64| usage.pods.get(index_of(pod));
    history.end_runs(|pod| pod_of(pod).is_some_and(|pod| !pod.has_ended));
    let amounts = history.recommend(settings)?;
    let minimum = container_minimum(&Config::default(), containers.max(1));
    Some(Recommendation {
        amounts: Amounts {
            cpu: amounts.cpu.max(minimum.cpu),
            memory: amounts.memory.max(minimum.memory),
        },
        is_young: history.is_young(settings),
    })
}

fn last_time(pod: &PodUsage) -> i64 {
    let times = [&pod.cpu, &pod.memory].map(|samples| samples.last().map(|it| it.0));
    times.into_iter().flatten().max().unwrap_or(i64::MIN)
}

pub(crate) fn containers_per_pod(usage: &[ContainerUsage]) -> HashMap<(&str, &str), usize> {
    let mut counts = HashMap::new();
    for ContainerUsage { id, .. } in usage {
        *counts.entry(id.pod()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use sizing::SizingAnnotations;
    use sizing::price_of_failure::HistoryUnit;

    use super::*;
    use crate::usage::Resources;
    use crate::usage::tests::{constant, usage as usage_of};

    fn usage(pods: &[PodUsage]) -> ContainerUsage {
        usage_of("deployment/web", Resources::default(), pods)
    }

    #[test]
    fn requests_are_above_constant_usage_and_near_it() {
        let pod = constant(3, Some(400.0), Some(1000.0));
        let recommended = recommend(&usage(&[pod]), &settings("normal"), 1);
        let Recommendation { amounts, is_young } = recommended.expect("a recommendation");
        let millicores = amounts.cpu.millicores();
        assert!((400..560).contains(&millicores), "{amounts:?}");
        let mib = amounts.memory.bytes() as f64 / MIB;
        assert!((1000.0..1400.0).contains(&mib), "{amounts:?}");
        assert!(!is_young);
    }

    #[test]
    fn a_pod_is_not_recommended_less_than_the_least_request() {
        let pod = constant(3, Some(1.0), None);
        let recommended = recommend(&usage(&[pod]), &settings("normal"), 2);
        let amounts = recommended.expect("a recommendation").amounts;
        assert_eq!(amounts.cpu.millicores(), 12);
        assert_eq!(amounts.memory.bytes(), 125 << 20);
    }

    /// Runs of ten minutes, one every six hours. Each begins with a peak of memory, and uses less CPU
    /// than the service that the same samples would be.
    fn runs(count: i64, has_ended: bool) -> ContainerUsage {
        let run = |number: i64| {
            let at = |slot: i64| 21_600 * number + 300 * slot;
            let memory = [900.0, 300.0, 300.0];
            PodUsage {
                cpu: (0..3).map(|slot| (at(slot), 800.0)).collect(),
                memory: (0..).map(at).zip(memory).collect(),
                has_ended: has_ended || number + 1 < count,
            }
        };
        let runs: Vec<PodUsage> = (0..count).map(run).collect();
        usage_of("cronjob/backup", Resources::default(), &runs)
    }

    #[test]
    fn jobs_are_sized_as_the_recommender_sizes_their_runs() {
        let annotations = [
            ("plimsoll.dev/sizing-policy", "plimsoll"),
            ("plimsoll.dev/sizing-caution", "normal"),
        ];
        let method = SizingAnnotations::parse(annotations, HistoryUnit::Runs);
        let method = method.expect("valid").method.expect("a method");
        let usage = runs(12, true);
        // One pod after the other, each of which ends before the next one starts.
        let at = |time| jiff::Timestamp::from_second(time).expect("a time").into();
        let mut history = MethodHistory::new(&method, at(0));
        for (number, pod) in usage.pods.iter().enumerate() {
            let number = number as u64 + 1;
            history.end_runs(|_| false);
            for ((time, millicores), (_, mib)) in pod.cpu.iter().zip(&pod.memory) {
                let seen = Observation::Usage {
                    cpu: Some(Cpu::from_millicores(*millicores as i64)),
                    memory: Some(Memory::from_bytes((mib * MIB) as i64)),
                };
                history.observe(&method, number, seen, at(*time));
            }
        }
        history.end_runs(|_| false);
        let expected = history.recommend(&method).expect("a recommendation");
        let found = recommend(&usage, &settings("normal"), 1).expect("a recommendation");
        assert_eq!(found.amounts, expected);
        assert!(!found.is_young);

        let mut service = usage;
        service.id.workload = "deployment/backup".to_owned();
        let service = recommend(&service, &settings("normal"), 1).expect("a recommendation");
        assert_ne!(service.amounts, found.amounts);
    }

    #[test]
    fn requests_of_jobs_fall_after_three_ended_runs_of_any_length() {
        for (count, has_ended, is_young) in [
            (1, true, true),
            (3, false, true),
            (3, true, false),
            (4, false, false),
        ] {
            let found = recommend(&runs(count, has_ended), &settings("normal"), 1);
            let found = found.expect("a recommendation").is_young;
            assert_eq!(found, is_young, "{count} {has_ended}");
        }
    }

    #[test]
    fn without_an_hour_of_history_there_is_no_recommendation() {
        let pod = PodUsage {
            cpu: vec![(0, 100.0), (300, 100.0)],
            memory: vec![(0, 100.0), (300, 100.0)],
            ..PodUsage::default()
        };
        assert_eq!(recommend(&usage(&[pod]), &settings("normal"), 1), None);
        assert_eq!(recommend(&usage(&[]), &settings("normal"), 1), None);
    }
}
