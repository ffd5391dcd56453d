//! A certificate and CA bundle of another program, such as cert-manager, that do not match.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testing::{Pace, eventually};
use tokio::time::timeout;
use webhook::registration::CONFIGURATION;
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::ca::Ca;
use crate::fixture::{Replica, registration};
use crate::rotation::files;

/// Writes this CA as the CA bundle.
async fn inject(api_server: &ApiServer, authority: &Ca) -> Result<()> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(api_server.client());
    let mut desired = registration().desired(Some(&authority.pem), None, None);
    let annotation = ("cert-manager.io/inject-ca-from", "suite/webhook");
    let annotation = [(annotation.0.to_owned(), annotation.1.to_owned())];
    desired.metadata.annotations = Some(annotation.into());
    let (params, change) = (PatchParams::apply("cert-manager"), Patch::Apply(desired));
    configurations
        .patch(CONFIGURATION, &params.force(), &change)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn external_certificates_are_verified_and_their_expiry_causes_an_event() -> Result<()> {
    let (api_server, folder) = (ApiServer::default(), tempfile::tempdir()?);
    let (own, other) = (Ca::new("own")?, Ca::new("other")?);
    let (certificate, key) = own.issue(Some(3))?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("cert"), certificate)?;
    std::fs::write(path("key"), key)?;
    inject(&api_server, &other).await?;
    let source = files(path, None);
    let replica = Replica::start(source, &api_server, LIMITS).await?;

    let trusted = || -> Option<f64> {
        let families = replica.registry.gather();
        let mut families = families.iter();
        let family = families.find(|family| family.name() == "test_certificate_trusted")?;
        Some(family.get_metric().first()?.get_gauge().get_value())
    };
    let trusted_becomes = async |expected: f64| {
        eventually(format!("trusted is {expected}"), Pace::WITHIN, async || {
            let found = trusted();
            ensure!(found == Some(expected), "{found:?}");
            Ok(())
        })
        .await
    };
    trusted_becomes(0.0).await?;
    let in_effect = *replica.in_effect.borrow();
    ensure!(!in_effect, "no heartbeat while the API server refuses it");
    let why = "no trusted CA signed the certificate";
    assert_eq!(
        replica.readiness.report(),
        format!("[+]certificate ok: not trusted: CA bundle of {CONFIGURATION}: {why}\n")
    );

    inject(&api_server, &own).await?;
    trusted_becomes(1.0).await?;
    let mut in_effect = replica.in_effect.clone();
    timeout(Pace::WITHIN.limit, in_effect.wait_for(|is| *is)).await??;
    assert_eq!(replica.readiness.report(), "[+]certificate ok\n");

    let events = api_server.among("/apis/events.k8s.io/v1/namespaces/suite/events/");
    let [event] = events.as_slice() else {
        anyhow::bail!("{events:?}")
    };
    let pod = &event["regarding"];
    let found = json!([event["type"], event["reason"], pod["kind"], pod["name"]]);
    assert_eq!(
        found,
        json!(["Warning", "CertificateExpiring", "Pod", "webhook-0"])
    );
    Ok(())
}
