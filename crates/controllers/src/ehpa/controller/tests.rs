//! Passes of the controller against an API server in memory.

mod adoption;
mod api_server;
mod events_and_conditions;
mod orphans;
mod requests;
mod scale_points;

use runtime::{Leading, ObjectWriter};
use serde_json::{Value, json};
use tokio::sync::watch;
use view::View;

use super::*;
use api_server::{ApiServer, EFFECTIVE, NATIVE};

/// A controller, its API server, and its state between passes.
struct Fixture {
    server: ApiServer,
    view: watch::Sender<View>,
    term: EhpaTerm,
    leading: Leading,
}

impl Fixture {
    /// A Deployment `php-apache` of three replicas.
    fn new() -> Self {
        let (server, leading) = (ApiServer::default(), Leading::alone(Timestamp::UNIX_EPOCH));
        server.scale("apis/apps/v1", "deployments", "php-apache", 3);
        let view = watch::Sender::new(View::default());
        let controller = EhpaController {
            inputs: EhpaInputs {
                view: view.subscribe(),
                horizontal: view.subscribe(),
                recommender: "default".to_owned(),
                workers: 1,
            },
            writer: Writer::new(ObjectWriter::new(server.client(), "plimsoll-recommender"))
                .during(&leading),
            propagation: Propagation::default(),
            rules: None,
        };
        Self {
            server,
            view,
            term: EhpaTerm::new(controller),
            leading,
        }
    }

    /// An EHPA for `php-apache` with this strategy.
    fn effective(self, strategy: &str) -> Self {
        self.server.put(EFFECTIVE, &effective(strategy));
        self
    }

    /// One pass over the objects that the API server has now.
    async fn pass(&mut self) {
        self.pass_over(self.server.view()).await;
    }

    /// One pass over these objects. Returns the time of the next one.
    async fn pass_over(&mut self, view: View) -> Option<Instant> {
        self.view.send_replace(view);
        self.server.forget_requests();
        let snapshot = self.term.plan(Instant::now())?;
        self.term.apply(snapshot).await
    }

    /// Forgets the results of all passes, as a new leader.
    fn restart(&mut self) {
        self.term = EhpaTerm::new(self.term.controller.clone());
    }

    fn native(&self, name: &str) -> (Value, Value) {
        let object = self.server.get(NATIVE, name);
        (object["metadata"].clone(), object["spec"].clone())
    }
}

/// An HPA of `php-apache`.
fn native(name: &str, extra: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
            "maxReplicas": 20,
        },
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        object["metadata"][key] = value.clone();
    }
    object
}

fn effective(strategy: &str) -> Value {
    json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1",
        "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"name": "php-apache", "namespace": "shop", "uid": "u1", "resourceVersion": "1"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "scaleStrategy": strategy,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
            }}],
        },
    })
}
