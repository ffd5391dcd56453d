//! Scale points next to VPAs.

use std::sync::Arc;

use view::Vpa;

use super::*;

/// The view of the API server, with a VPA in this mode, and a running pod that requests this CPU.
fn view(fixture: &Fixture, mode: Option<&str>, millicores: u32) -> View {
    let mut view = fixture.server.view();
    if let Some(mode) = mode {
        let object = json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": {"plimsoll.dev/hpa": mode}},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "php-apache"}},
        });
        let object = api::vpa::parse(object).expect("a VPA");
        view.vpas.apply(Arc::new(Vpa::from_k8s(object)));
    }
    let pod = json!({
        "metadata": {"namespace": "shop", "name": "pod", "uid": "p", "labels": {"run": "php-apache"}},
        "spec": {"containers": [{
            "name": "app", "resources": {"requests": {"cpu": format!("{millicores}m")}},
        }]},
        "status": {"phase": "Running"},
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    view.pods.apply(Arc::new(view::Pod::from_k8s(pod, false)));
    view
}

fn target(fixture: &Fixture) -> Value {
    let (_, spec) = fixture.native("ehpa-php-apache");
    spec["metrics"][0]["resource"]["target"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_scale_point_outlives_a_restart_and_ends_with_the_mode() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.server.keep_statuses();
    let by_utilization = json!({"type": "Utilization", "averageUtilization": 50});
    let by_value = json!({"type": "AverageValue", "averageValue": "100m"});
    let now = view(&fixture, Some("Respect"), 200);
    fixture.pass_over(now).await;
    assert_eq!(target(&fixture), by_utilization);
    let now = view(&fixture, Some("KeepScalePoint"), 200);
    fixture.pass_over(now).await;
    assert_eq!(target(&fixture), by_value);
    let status = &fixture.server.get(EFFECTIVE, "php-apache")["status"];
    let expected = json!([{"resource": "cpu", "averageRequest": "200m", "averageValue": "100m"}]);
    assert_eq!(status["scalePoints"], expected);

    fixture.restart();
    let now = view(&fixture, Some("KeepScalePoint"), 4000);
    fixture.pass_over(now).await;
    assert_eq!(target(&fixture), by_value);

    let now = view(&fixture, None, 4000);
    fixture.pass_over(now).await;
    assert_eq!(target(&fixture), by_utilization);
    let status = &fixture.server.get(EFFECTIVE, "php-apache")["status"];
    assert_eq!(status["scalePoints"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_vpa_that_asks_for_the_scale_point_wakes_the_controller() {
    let fixture = Fixture::new();
    let (empty, plain) = (
        view(&fixture, None, 200),
        view(&fixture, Some("Respect"), 200),
    );
    let asking = view(&fixture, Some("KeepScalePoint"), 200);
    let (sender, mut receiver) = watch::channel(empty);
    let mut vpas = ScalePointVpas::default();
    let wait = Duration::from_mins(1);
    // The first look finds a synced view.
    assert!(
        tokio::time::timeout(wait, vpas.changed(&mut receiver))
            .await
            .is_ok()
    );
    sender.send_replace(plain);
    assert!(
        tokio::time::timeout(wait, vpas.changed(&mut receiver))
            .await
            .is_err()
    );
    sender.send_replace(asking);
    assert!(
        tokio::time::timeout(wait, vpas.changed(&mut receiver))
            .await
            .is_ok()
    );
    assert_eq!(vpas.read(&receiver.borrow()).map(<[_]>::len), Some(1));
    assert!(
        tokio::time::timeout(wait, vpas.changed(&mut receiver))
            .await
            .is_err()
    );
}
