//! Order of a pod's containers: init containers one after the other, sidecars from their position
//! in that order on, then all others at the same time. Sidecars end last.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::container::Runner;
use super::container_state::{Report, Slot};
use super::pod_context::{PodContext, grace};
use super::restart::Restart;
use super::status::is_sidecar;
use super::stop::StopSignals;

/// Runs all containers until they have ended or are asked to stop.
pub(super) async fn run(context: &Arc<PodContext>, stop: &StopSignals) {
    let pod = context.pod();
    let Some(spec) = &pod.spec else { return };
    let runner = |container: &Container, slot: Slot, init: bool| Runner {
        context: Arc::clone(context),
        container: container.clone(),
        slot,
        restart: Restart::of(&pod, container, init),
    };
    let mut sidecars = JoinSet::new();
    let mut initialized = true;
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let slot = Slot::Init(index);
        let run = runner(container, slot, true);
        if is_sidecar(container) {
            sidecars.spawn(run.run(stop.for_sidecars()));
            started(context, stop, slot).await;
        } else {
            Box::pin(run.run(stop.for_containers())).await;
            initialized = context
                .reports
                .borrow()
                .get(slot)
                .is_some_and(Report::succeeded);
        }
        if !initialized || stop.requested().is_some() {
            initialized = false;
            break;
        }
    }
    if initialized {
        let mut main = JoinSet::new();
        for (index, container) in spec.containers.iter().enumerate() {
            main.spawn(runner(container, Slot::Main(index), false).run(stop.for_containers()));
        }
        main.join_all().await;
    }
    let soon = Instant::now() + grace(&pod);
    stop.stop_sidecars_by(soon);
    sidecars.join_all().await;
}

/// Waits until a sidecar has started, or the pod has to stop.
async fn started(context: &PodContext, stop: &StopSignals, slot: Slot) {
    let mut reports = context.reports.subscribe();
    tokio::select! {
        _ = reports.wait_for(|reports| reports.get(slot).is_none_or(|report| report.started || report.over)) => {}
        () = stop.wait() => {}
    }
}
