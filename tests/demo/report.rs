//! Output of the demonstration: a table of usage, request and recommendation per workload, a
//! summary, pods before and after their updates, and the measured figures. Plain text from plain
//! values, without I/O.

use std::fmt::Write as _;

use crate::oom_kill::Healed;
use crate::placement::Placed;
use crate::pod_updates::Updated;
use crate::scale_ahead::Scaled;

/// CPU in millicores and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amounts {
    pub(crate) cpu_millicores: f64,
    pub(crate) memory_bytes: f64,
}

/// One workload at one moment; all amounts are per pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) pods: usize,
    /// Mean over the pods that have metrics; `None` before the first scrape.
    pub(crate) usage: Option<Amounts>,
    pub(crate) request: Amounts,
    /// The VPA's target; `None` before the first recommendation.
    pub(crate) target: Option<Amounts>,
}

/// A pod, and what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizedPod {
    pub(crate) workload: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) request: Amounts,
    /// Whether the webhook gave it its size when it was made.
    pub(crate) sized_by_webhook: bool,
}

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// The live table; `hour` is the hour of the recorded day that is being played.
pub(crate) fn table(hour: f64, rows: &[Row]) -> String {
    let minutes = (hour * 60.0).round() as u64;
    let mut text = format!(
        "{:>02}:{:>02} of the recorded day\n{:<10} {:>4}   {:>22}   {:>22}   {:>22}\n",
        minutes / 60,
        minutes % 60,
        "WORKLOAD",
        "PODS",
        "USAGE (cpu, memory)",
        "REQUEST",
        "RECOMMENDED"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<10} {:>4}   {:>22}   {:>22}   {:>22}",
            row.name,
            row.pods,
            row.usage.map_or("waiting".to_owned(), pair),
            pair(row.request),
            row.target.map_or("waiting".to_owned(), pair),
        );
    }
    text
}

/// Result of the day in sentences: requests that are too large or too small, and the sum.
pub(crate) fn summary(rows: &[Row]) -> String {
    let mut text = String::from("Requests and recommendations after one day of real usage:\n");
    let (mut freed, mut missing) = (Amounts::default(), Amounts::default());
    for row in rows {
        let Some(target) = row.target else {
            let _ = writeln!(text, "  {:<8} no recommendation", row.name);
            continue;
        };
        let pods = row.pods as f64;
        let cpu = (row.request.cpu_millicores - target.cpu_millicores) * pods;
        let memory = (row.request.memory_bytes - target.memory_bytes) * pods;
        freed.cpu_millicores += cpu.max(0.0);
        freed.memory_bytes += memory.max(0.0);
        missing.cpu_millicores += (-cpu).max(0.0);
        missing.memory_bytes += (-memory).max(0.0);
        let _ = writeln!(
            text,
            "  {:<8} cpu {:>7} -> {:>7} ({}), memory {:>9} -> {:>9} ({})",
            row.name,
            cores(row.request.cpu_millicores),
            cores(target.cpu_millicores),
            verdict(row.request.cpu_millicores, target.cpu_millicores),
            bytes(row.request.memory_bytes),
            bytes(target.memory_bytes),
            verdict(row.request.memory_bytes, target.memory_bytes),
        );
    }
    let _ = writeln!(
        text,
        "Over all pods: {:.1} cores and {} are reserved but not needed; {:.1} cores and {} are needed but not reserved.",
        freed.cpu_millicores / 1000.0,
        bytes(freed.memory_bytes),
        missing.cpu_millicores / 1000.0,
        bytes(missing.memory_bytes),
    );
    text
}

/// Each pod with its old and its new request and the way it was updated; then the savings.
pub(crate) fn moves(before: &[SizedPod], after: &[SizedPod]) -> String {
    let width = after.iter().map(|pod| pod.name.len()).max().unwrap_or(0);
    let mut text = format!(
        "  {:<width$}   {:>16}    {:>16}\n",
        "POD", "OLD REQUEST", "NEW REQUEST"
    );
    for pod in after {
        let same = before.iter().find(|old| old.uid == pod.uid);
        let old = same.or_else(|| before.iter().find(|old| old.workload == pod.workload));
        let how = match same {
            Some(old) if old.request == pod.request => "unchanged",
            Some(_) => "resized in place",
            None => "evicted and replaced, sized by the webhook",
        };
        let asked = old.map_or("nothing".to_owned(), |old| pair(old.request));
        let _ = writeln!(
            text,
            "  {:<width$}   {asked:>16} -> {:>16}   {how}",
            pod.name,
            pair(pod.request)
        );
    }
    let [before, after] = [before, after].map(total);
    let _ = writeln!(text, "  All pods: {}.", change(before, after));
    text
}

/// The measured figures, with a line per step.
pub(crate) fn figures(
    updated: &Updated,
    healed: &Healed,
    scaled: &Scaled,
    placed: &Placed,
) -> String {
    let mut text = String::from("Measured\n");
    let _ = writeln!(
        text,
        "  sizes      {}; within {:.0} s",
        change(updated.before, updated.after),
        updated.seconds
    );
    let _ = write!(
        text,
        "  OOM kill   a new recommendation after {:.2} s, more memory in the same pod after {:.2} s",
        healed.new_target.as_secs_f64(),
        healed.larger_pod.as_secs_f64()
    );
    match healed.usable {
        Some(usable) => writeln!(
            text,
            ", used after {:.2} s (real kubelet)",
            usable.as_secs_f64()
        ),
        None => writeln!(text, " (simulated kubelet)"),
    }
    .ok();
    let _ = writeln!(
        text,
        "  rise       {} replicas in place of {}, ready {} minutes before it",
        scaled.to, scaled.from, scaled.minutes
    );
    let _ = writeln!(
        text,
        "  busy node  {:.0} % of its CPU used; expected with the pods of a Job: {:.0} % by requests, {:.0} % by load",
        placed.before, placed.by_requests, placed.by_load
    );
    text
}

fn change(before: Amounts, after: Amounts) -> String {
    format!(
        "{} -> {}: {}, {}",
        pair(before),
        pair(after),
        saved(before.cpu_millicores, after.cpu_millicores, "CPU"),
        saved(before.memory_bytes, after.memory_bytes, "memory"),
    )
}

pub(crate) fn total(pods: &[SizedPod]) -> Amounts {
    pods.iter().fold(Amounts::default(), |sum, pod| Amounts {
        cpu_millicores: sum.cpu_millicores + pod.request.cpu_millicores,
        memory_bytes: sum.memory_bytes + pod.request.memory_bytes,
    })
}

fn saved(before: f64, after: f64, what: &str) -> String {
    let percent = 100.0 * (before - after) / before.max(1.0);
    if percent < 0.0 {
        format!("{:.0} % more {what}", -percent)
    } else {
        format!("{percent:.0} % of the {what} saved")
    }
}

/// Distance of a request from the recommendation; within 10 % counts as right, as for VPA's
/// updater.
fn verdict(request: f64, target: f64) -> String {
    if target <= 0.0 || request <= 0.0 {
        "no request".to_owned()
    } else if request > target * 1.1 {
        format!("{:.1}x too much", request / target)
    } else if target > request * 1.1 {
        format!("{:.1}x too little", target / request)
    } else {
        "right".to_owned()
    }
}

fn pair(amounts: Amounts) -> String {
    format!(
        "{}, {}",
        cores(amounts.cpu_millicores),
        bytes(amounts.memory_bytes)
    )
}

fn cores(millicores: f64) -> String {
    format!("{millicores:.0}m")
}

pub(crate) fn bytes(bytes: f64) -> String {
    if bytes >= 10.0 * GIB {
        format!("{:.1} GiB", bytes / GIB)
    } else {
        format!("{:.0} MiB", bytes / MIB)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn amounts(cpu_millicores: f64, memory_mib: f64) -> Amounts {
        Amounts {
            cpu_millicores,
            memory_bytes: memory_mib * MIB,
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            Row {
                name: "web".to_owned(),
                pods: 3,
                usage: Some(amounts(250.0, 500.0)),
                request: amounts(4000.0, 4096.0),
                target: Some(amounts(400.0, 512.0)),
            },
            Row {
                name: "worker".to_owned(),
                pods: 2,
                usage: None,
                request: amounts(100.0, 128.0),
                target: Some(amounts(1200.0, 1024.0)),
            },
            Row {
                name: "new".to_owned(),
                pods: 1,
                usage: None,
                request: amounts(1.0, 1.0),
                target: None,
            },
        ]
    }

    #[test]
    fn the_table_shows_each_workload_and_says_what_it_waits_for() {
        let expected = "\
06:30 of the recorded day
WORKLOAD   PODS      USAGE (cpu, memory)                  REQUEST              RECOMMENDED
web           3            250m, 500 MiB          4000m, 4096 MiB            400m, 512 MiB
worker        2                  waiting            100m, 128 MiB          1200m, 1024 MiB
new           1                  waiting                1m, 1 MiB                  waiting
";
        assert_eq!(table(6.5, &rows()), expected);
    }

    #[test]
    fn the_summary_adds_up_what_is_wasted_and_what_is_missing() {
        let expected = "\
Requests and recommendations after one day of real usage:
  web      cpu   4000m ->    400m (10.0x too much), memory  4096 MiB ->   512 MiB (8.0x too much)
  worker   cpu    100m ->   1200m (12.0x too little), memory   128 MiB ->  1024 MiB (8.0x too little)
  new      no recommendation
Over all pods: 10.8 cores and 10.5 GiB are reserved but not needed; 2.2 cores and 1792 MiB are needed but not reserved.
";
        assert_eq!(summary(&rows()), expected);
    }

    #[test]
    fn replaced_resized_and_unchanged_pods_are_distinguished() {
        let pod = |workload: &str, name: &str, cpu, memory| SizedPod {
            workload: workload.to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            request: amounts(cpu, memory),
            sized_by_webhook: false,
        };
        let before = [
            pod("web", "web-a", 4000.0, 4096.0),
            pod("cache", "cache-a", 100.0, 128.0),
            pod("job", "job-a", 1.0, 1.0),
        ];
        let after = [
            pod("web", "web-b", 400.0, 512.0),
            pod("cache", "cache-a", 1200.0, 8192.0),
            pod("job", "job-a", 1.0, 1.0),
        ];
        let expected = "  \
  POD            OLD REQUEST         NEW REQUEST
  web-b      4000m, 4096 MiB ->    400m, 512 MiB   evicted and replaced, sized by the webhook
  cache-a      100m, 128 MiB ->  1200m, 8192 MiB   resized in place
  job-a            1m, 1 MiB ->        1m, 1 MiB   unchanged
  All pods: 4101m, 4225 MiB -> 1601m, 8705 MiB: 61 % of the CPU saved, 106 % more memory.
";
        assert_eq!(moves(&before, &after), expected);
    }

    #[test]
    fn a_request_near_the_recommendation_is_right() {
        for (request, target, expected) in [
            (100.0, 105.0, "right"),
            (100.0, 91.0, "right"),
            (0.0, 5.0, "no request"),
            (111.0, 100.0, "1.1x too much"),
        ] {
            assert_eq!(
                verdict(request, target),
                expected,
                "{request} against {target}"
            );
        }
    }

    #[test]
    fn the_figures_have_a_line_per_step() {
        let updated = Updated {
            before: amounts(14_200.0, 13_312.0),
            after: amounts(4260.0, 6656.0),
            seconds: 2.3,
        };
        let healed = Healed {
            killed: SystemTime::UNIX_EPOCH,
            memory: [1.0, 2.0],
            new_target: Duration::from_millis(20),
            larger_pod: Duration::from_millis(240),
            usable: Some(Duration::from_millis(1260)),
        };
        let scaled = Scaled {
            from: 2,
            to: 6,
            minutes: 19,
        };
        let placed = Placed {
            before: 70.0,
            by_requests: 95.0,
            by_load: 70.0,
        };
        assert_eq!(
            figures(&updated, &healed, &scaled, &placed),
            "Measured\n  \
             sizes      14200m, 13.0 GiB -> 4260m, 6656 MiB: 70 % of the CPU saved, 50 % of the memory saved; within 2 s\n  \
             OOM kill   a new recommendation after 0.02 s, more memory in the same pod after 0.24 s, used after 1.26 s (real kubelet)\n  \
             rise       6 replicas in place of 2, ready 19 minutes before it\n  \
             busy node  70 % of its CPU used; expected with the pods of a Job: 95 % by requests, 70 % by load\n"
        );
    }
}
