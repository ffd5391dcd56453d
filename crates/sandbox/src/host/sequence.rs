//! The order in which the containers of a pod run: init containers one after the other, sidecars from their place in that
//! order on, then all others at once; sidecars end last.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use super::{
    container::{self, PodContext, Restart, Runner},
    report::{Report, Slot},
    status::is_sidecar,
};

/// Orders to end: one for the sidecars, one for all others.
#[derive(Debug)]
pub(super) struct Orders {
    main: watch::Sender<Option<Instant>>,
    sidecars: watch::Sender<Option<Instant>>,
}

impl Orders {
    /// Everything may run.
    pub(super) fn new() -> Self {
        Self { main: watch::Sender::new(None), sidecars: watch::Sender::new(None) }
    }

    /// Everything must be gone at that time; an earlier order stands.
    pub(super) fn end(&self, deadline: Instant) {
        earlier(&self.main, deadline);
    }

    /// Whether the pod was ordered to end.
    pub(super) fn given(&self) -> Option<Instant> {
        *self.main.borrow()
    }

    /// Waits until it is.
    pub(super) async fn await_end(&self) {
        container::ordered(&mut self.main.subscribe()).await;
    }
}

fn earlier(order: &watch::Sender<Option<Instant>>, deadline: Instant) {
    order.send_if_modified(|order| {
        let sooner = order.is_none_or(|order| deadline < order);
        if sooner {
            *order = Some(deadline);
        }
        sooner
    });
}

/// Runs all containers until they are over or ordered to end.
pub(super) async fn run(context: &Arc<PodContext>, orders: &Orders) {
    let pod = context.pod();
    let Some(spec) = &pod.spec else { return };
    let runner = |container: &Container, slot: Slot, init: bool| {
        Runner::new(Arc::clone(context), container.clone(), slot, Restart::of(&pod, container, init))
    };
    let mut sidecars = JoinSet::new();
    let mut initialized = true;
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let slot = Slot::Init(index);
        let run = runner(container, slot, true);
        if is_sidecar(container) {
            sidecars.spawn(run.run(orders.sidecars.subscribe()));
            started(context, orders, slot).await;
        } else {
            Box::pin(run.run(orders.main.subscribe())).await;
            initialized = context.reports.borrow().get(slot).is_some_and(Report::succeeded);
        }
        if !initialized || orders.given().is_some() {
            initialized = false;
            break;
        }
    }
    if initialized {
        let mut main = JoinSet::new();
        for (index, container) in spec.containers.iter().enumerate() {
            main.spawn(runner(container, Slot::Main(index), false).run(orders.main.subscribe()));
        }
        main.join_all().await;
    }
    let soon = Instant::now() + super::pod::grace(&pod);
    earlier(&orders.sidecars, orders.given().map_or(soon, |deadline| deadline.min(soon)));
    sidecars.join_all().await;
}

/// Waits until a sidecar has started, or the pod must end.
async fn started(context: &PodContext, orders: &Orders, slot: Slot) {
    let mut reports = context.reports.subscribe();
    tokio::select! {
        _ = reports.wait_for(|reports| reports.get(slot).is_none_or(|report| report.started || report.over)) => {}
        () = orders.await_end() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_order_can_only_become_more_urgent() {
        let orders = Orders::new();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(orders.given(), None);
        for (order, expected) in [(30, 30), (60, 30), (5, 5)] {
            orders.end(after(order));
            assert_eq!(orders.given(), Some(after(expected)));
        }
    }
}
