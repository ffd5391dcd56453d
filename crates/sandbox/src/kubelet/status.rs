//! The status of a hosted pod, as a kubelet would write it: a pure function of the pod, its
//! containers' reports and the previous status (upstream `pkg/kubelet/kubelet_pods.go`,
//! `generateAPIPodStatus` and `getPhase`).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec,
    PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::address::PodAddress;
use super::container_state::{Report, Reports};
use super::fields::NODE_IP;

/// Builds the whole status. `before` is the status that was written last, or the pod's own.
pub(super) fn pod_status(
    pod: &Pod,
    reports: &Reports,
    address: PodAddress,
    before: &PodStatus,
    now: Timestamp,
) -> PodStatus {
    let Some(spec) = &pod.spec else {
        return PodStatus::default();
    };
    let phase = phase(spec, reports);
    let ip = address.in_status().to_string();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions(spec, reports, phase, before, now)),
        host_ip: Some(NODE_IP.to_owned()),
        host_ips: Some(vec![HostIP {
            ip: NODE_IP.to_owned(),
        }]),
        pod_ip: Some(ip.clone()),
        pod_ips: Some(vec![PodIP { ip }]),
        start_time: before.start_time.clone().or(Some(Time(now))),
        observed_generation: pod.metadata.generation,
        init_container_statuses: (!init.is_empty())
            .then(|| container_statuses(init, &reports.init, true)),
        container_statuses: Some(container_statuses(&spec.containers, &reports.main, false)),
        ..PodStatus::default()
    }
}

fn phase(spec: &PodSpec, reports: &Reports) -> &'static str {
    if init_failed(spec, reports) {
        "Failed"
    } else if reports.main.iter().all(|report| report.over) {
        if reports.main.iter().all(Report::succeeded) {
            "Succeeded"
        } else {
            "Failed"
        }
    } else if initialized(spec, reports)
        && reports
            .main
            .iter()
            .all(|report| report.container_id.is_some() || report.is_running())
    {
        "Running"
    } else {
        "Pending"
    }
}

fn init_failed(spec: &PodSpec, reports: &Reports) -> bool {
    let sidecars = spec.init_containers.iter().flatten().map(is_sidecar);
    sidecars
        .zip(&reports.init)
        .any(|(sidecar, report)| !sidecar && report.over && !report.succeeded())
}

/// Whether an init container goes on running with the main containers.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn initialized(spec: &PodSpec, reports: &Reports) -> bool {
    let sidecars = spec.init_containers.iter().flatten().map(is_sidecar);
    sidecars.zip(&reports.init).all(|(sidecar, report)| {
        if sidecar {
            report.started || report.over
        } else {
            report.succeeded()
        }
    })
}

/// Conditions that a kubelet sets; `PodScheduled` belongs to another writer.
fn conditions(
    spec: &PodSpec,
    reports: &Reports,
    phase: &str,
    before: &PodStatus,
    now: Timestamp,
) -> Vec<PodCondition> {
    let unready = unready(spec, reports);
    let unready = (!unready.is_empty()).then(|| {
        (
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        )
    });
    let completed = (phase == "Succeeded").then(|| ("PodCompleted", String::new()));
    let failed = (phase == "Failed").then(|| ("PodFailed", String::new()));
    let containers = completed.clone().or(failed).or(unready);
    let uninitialized =
        (!initialized(spec, reports)).then(|| ("ContainersNotInitialized", String::new()));
    let verdicts = [
        ("PodReadyToStartContainers", None),
        ("Initialized", uninitialized),
        ("Ready", containers.clone()),
        ("ContainersReady", containers),
    ];
    verdicts
        .into_iter()
        .map(|(kind, objection)| condition(kind, objection, before, now))
        .collect()
}

fn unready(spec: &PodSpec, reports: &Reports) -> Vec<String> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .zip(&reports.init)
        .filter(|(container, _)| is_sidecar(container));
    let all = sidecars.chain(spec.containers.iter().zip(&reports.main));
    all.filter(|(_, report)| !report.ready)
        .map(|(container, _)| container.name.clone())
        .collect()
}

/// A condition; its transition time changes only with its status.
fn condition(
    kind: &str,
    objection: Option<(&str, String)>,
    before: &PodStatus,
    now: Timestamp,
) -> PodCondition {
    let status = if objection.is_none() { "True" } else { "False" };
    let known = before
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind && condition.status == status);
    let (reason, message) = objection.map_or((None, None), |(reason, message)| {
        (Some(reason.to_owned()), Some(message))
    });
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason,
        message: message.filter(|message| !message.is_empty()),
        last_transition_time: known
            .and_then(|condition| condition.last_transition_time.clone())
            .or(Some(Time(now))),
        ..PodCondition::default()
    }
}

fn container_statuses(
    containers: &[Container],
    reports: &[Report],
    init: bool,
) -> Vec<ContainerStatus> {
    containers
        .iter()
        .zip(reports)
        .map(|(container, report)| container_status(container, report, init))
        .collect()
}

fn container_status(container: &Container, report: &Report, init: bool) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let runs_to_its_end = init && !is_sidecar(container);
    ContainerStatus {
        name: container.name.clone(),
        image_id: if report.container_id.is_some() {
            format!("process://{image}")
        } else {
            String::new()
        },
        image,
        container_id: report.container_id.clone(),
        state: Some(report.state.clone()),
        last_state: report
            .last
            .clone()
            .filter(|_| report.state.terminated.is_none())
            .map(|last| ContainerState {
                terminated: Some(last),
                ..ContainerState::default()
            }),
        restart_count: report.restart_count,
        started: Some(report.started),
        ready: if runs_to_its_end {
            report.succeeded()
        } else {
            report.ready
        },
        allocated_resources: container
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.clone()),
        resources: container
            .resources
            .as_ref()
            .map(|resources| ResourceRequirements {
                claims: None,
                ..resources.clone()
            }),
        ..ContainerStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubelet::WaitingReason;
    use crate::kubelet::container_state::Slot;
    use crate::kubelet::fixture::{address, pod};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn two_containers() -> Pod {
        let resources = json!({"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}});
        pod(&json!({"metadata": {"generation": 3}, "spec": {
            "initContainers": [{"name": "first", "image": "plimsoll/first"}],
            "containers": [{"name": "a", "image": "plimsoll/a", "resources": resources}, {"name": "b", "image": "plimsoll/b"}],
        }}))
    }

    fn ended(exit_code: i32) -> Report {
        let mut report = Report::waiting(false);
        report.start(NOW, Some(1), false, false);
        report.end(NOW, exit_code);
        report.over = true;
        report
    }

    fn up() -> Report {
        let mut report = Report::waiting(false);
        report.start(NOW, Some(2), false, false);
        report
    }

    fn crashing() -> Report {
        let mut report = ended(1);
        report.over = false;
        report.wait(WaitingReason {
            reason: "CrashLoopBackOff",
            message: "back-off".to_owned(),
        });
        report
    }

    fn status(init: Report, main: [Report; 2]) -> PodStatus {
        pod_status(
            &two_containers(),
            &Reports {
                init: vec![init],
                main: main.into(),
            },
            address(),
            &PodStatus::default(),
            NOW,
        )
    }

    /// Phase and the conditions Initialized, Ready, `ContainersReady`.
    #[track_caller]
    fn check(init: Report, main: [Report; 2], expected: (&str, &str)) {
        let status = status(init, main);
        let letter = |kind: &str| {
            let conditions = status.conditions.as_ref().unwrap();
            &conditions
                .iter()
                .find(|condition| condition.type_ == kind)
                .unwrap()
                .status[..1]
        };
        let letters = ["Initialized", "Ready", "ContainersReady"]
            .map(letter)
            .concat();
        assert_eq!(
            (status.phase.as_deref().unwrap(), letters.as_str()),
            expected
        );
    }

    #[test]
    fn phase_and_conditions_follow_the_containers() {
        let waiting = || Report::waiting(true);
        check(waiting(), [waiting(), waiting()], ("Pending", "FFF"));
        check(ended(0), [waiting(), waiting()], ("Pending", "TFF"));
        check(ended(0), [up(), waiting()], ("Pending", "TFF"));
        check(ended(0), [up(), up()], ("Running", "TTT"));
        check(ended(0), [up(), crashing()], ("Running", "TFF"));
        check(ended(0), [ended(0), ended(0)], ("Succeeded", "TFF"));
        check(ended(0), [ended(0), ended(1)], ("Failed", "TFF"));
        check(ended(1), [waiting(), waiting()], ("Failed", "FFF"));
    }

    #[test]
    fn a_container_status_is_whole() {
        let status = status(ended(0), [up(), crashing()]);
        let statuses = serde_json::to_value(status.container_statuses.unwrap()).unwrap();
        let time = "1970-01-01T00:00:00Z";
        let running = json!({
            "name": "a", "image": "plimsoll/a", "imageID": "process://plimsoll/a", "containerID": "process://2",
            "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": time}},
            "allocatedResources": {"cpu": "10m"}, "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}},
        });
        assert_eq!(statuses[0], running);
        assert_eq!(
            statuses[1]["state"],
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}})
        );
        assert_eq!(statuses[1]["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(statuses[1]["lastState"]["terminated"]["reason"], "Error");
    }

    #[test]
    fn a_killed_process_is_an_error_and_nothing_more() {
        let status = status(ended(0), [up(), ended(137)]);
        let terminated = status.container_statuses.unwrap()[1]
            .state
            .clone()
            .unwrap()
            .terminated
            .unwrap();
        assert_eq!(
            (terminated.exit_code, terminated.reason.as_deref()),
            (137, Some("Error"))
        );
    }

    #[test]
    fn what_did_not_change_keeps_its_time() {
        let pod = two_containers();
        let mut reports = Reports {
            init: vec![ended(0)],
            main: vec![up(), Report::waiting(false)],
        };
        let first = pod_status(&pod, &reports, address(), &PodStatus::default(), NOW);
        let later = NOW + jiff::SignedDuration::from_secs(60);
        *reports.get_mut(Slot::Main(1)).unwrap() = up();
        let second = pod_status(&pod, &reports, address(), &first, later);
        let time = |status: &PodStatus, kind: &str| {
            let condition = status
                .conditions
                .iter()
                .flatten()
                .find(|condition| condition.type_ == kind)
                .unwrap();
            condition.last_transition_time.clone().unwrap().0
        };
        assert_eq!(
            (time(&second, "Initialized"), time(&second, "Ready")),
            (NOW, later)
        );
        assert_eq!(second.start_time, first.start_time);
        assert_eq!(second.observed_generation, Some(3));
    }

    #[test]
    fn the_address_in_the_status_is_one_that_the_api_server_accepts() {
        assert_eq!(status(ended(0), [up(), up()]).pod_ip.unwrap(), "10.130.0.1");
    }
}
