//! Connections to a pod, and the identity of its own requests.

use anyhow::{Result, bail, ensure};
use e2e::{Namespace, eventually, with};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::fixture::{Fixture, echo};

#[tokio::test]
async fn replicas_share_a_port_and_are_reached_by_pod_and_by_service() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture
        .deploy(2, json!({"containers": [echo(&["--address=:8080"])]}), 80)
        .await?;
    let pods = fixture.ready(2).await?;
    for pod in &pods {
        let answer: Value = serde_json::from_str(
            &fixture
                .proxied(&format!("pods/{}:8080", pod.name_any()), "/")
                .await?,
        )?;
        assert_eq!(answer["environment"]["POD"], pod.name_any());
    }
    eventually("the service leads to its pods", async || {
        let answer: Value = serde_json::from_str(&fixture.proxied("services/echo:80", "/").await?)?;
        let pod = answer["environment"]["POD"].as_str().unwrap_or_default();
        ensure!(
            pods.iter().any(|known| known.name_any() == pod),
            "answered by {pod:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_acts_as_its_service_account() -> Result<()> {
    let fixture = Fixture::new().await?;
    fixture.kubectl("create serviceaccount robot").await?;
    fixture
        .deploy(
            1,
            json!({"serviceAccountName": "robot", "containers": [echo(&[])]}),
            80,
        )
        .await?;
    let pod = fixture.ready(1).await?.remove(0).name_any();
    let user = fixture
        .proxied(&format!("pods/{pod}:8080"), "/whoami")
        .await?;
    assert_eq!(
        user,
        format!("system:serviceaccount:{}:robot", fixture.namespace)
    );
    Ok(())
}

#[tokio::test]
async fn a_webhook_is_asked_through_its_service() -> Result<()> {
    let fixture = Fixture::new().await?;
    let name = format!("echo.{}.svc", fixture.namespace);
    let made = rcgen::generate_simple_self_signed(vec![name])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = json!({"tls.crt": certificate, "tls.key": key});
    fixture.secret("tls", tls).await?;
    let container = with(
        echo(&["--tls-folder=/tls"]),
        json!({
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTPS"}, "periodSeconds": 1},
        }),
    );
    let volumes = json!([{"name": "tls", "secret": {"secretName": "tls"}}]);
    fixture
        .deploy(
            1,
            json!({"containers": [container], "volumes": volumes}),
            443,
        )
        .await?;
    let pod = fixture.ready(1).await?.remove(0).name_any();
    let service = json!({"namespace": fixture.namespace, "name": "echo", "path": "/deny"});
    let configuration = json!({"metadata": {"name": fixture.namespace}, "webhooks": [{
        "name": "deny.plimsoll.test",
        "clientConfig": {"service": service, "caBundle": ByteString(certificate.into_bytes())},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": fixture.namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }]});
    let cluster = Namespace::cluster(fixture.client.clone());
    cluster
        .create::<ValidatingWebhookConfiguration>(configuration)
        .await?;
    let outcome = eventually("the webhook denies", async || {
        let refused = json!({"metadata": {"generateName": "refused-"}});
        match fixture.create::<ConfigMap>(refused).await {
            Ok(_) => bail!("it was accepted"),
            Err(error) => Ok(error.to_string()),
        }
    })
    .await;
    cluster
        .delete::<ValidatingWebhookConfiguration>(&fixture.namespace)
        .await?;
    let message = outcome?;
    ensure!(message.contains(&format!("denied by {pod}")), "{message}");
    Ok(())
}
