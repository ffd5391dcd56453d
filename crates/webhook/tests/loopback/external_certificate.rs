//! A certificate and CA bundle of another program, such as cert-manager, that do not match.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use serving::certificates::{Files, Source};
use serving::tls::{ServingProfile, TlsFiles};
use testing::{Pace, eventually};
use tokio::time::timeout;
use webhook::registration::CONFIGURATION;
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::ca::Ca;
use crate::fixture::{NAME, Replica, registration};

/// Writes this CA as the CA bundle.
async fn inject(api_server: &ApiServer, authority: &Ca) -> Result<()> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(api_server.client());
    let mut desired = registration().desired(Some(&authority.pem), None);
    desired.metadata.annotations = Some(
        [(
            "cert-manager.io/inject-ca-from".to_owned(),
            "suite/webhook".to_owned(),
        )]
        .into(),
    );
    configurations
        .patch(
            CONFIGURATION,
            &PatchParams::apply("cert-manager").force(),
            &Patch::Apply(desired),
        )
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn external_certificates_are_verified_and_their_expiry_causes_an_event() -> Result<()> {
    let (api_server, folder) = (ApiServer::default(), tempfile::tempdir()?);
    let (own, other) = (Ca::new("own")?, Ca::new("other")?);
    let (certificate, key) = own.issue(Some(3))?;
    let path = |name| folder.path().join(name);
    std::fs::write(path("cert"), certificate)?;
    std::fs::write(path("key"), key)?;
    inject(&api_server, &other).await?;
    let files = TlsFiles {
        certificate: path("cert"),
        private_key: path("key"),
        authorities: None,
    };
    let files = Files {
        files,
        authorities: None,
        follow: true,
        serving: ServingProfile::default(),
    };
    let replica = Replica::start(Source::Files(files), &api_server, LIMITS).await?;

    let trusted = || -> Option<f64> {
        let families = replica.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == "test_certificate_trusted")?;
        Some(family.get_metric().first()?.get_gauge().get_value())
    };
    let is_trusted = async |expected: f64| {
        let found = trusted();
        ensure!(found == Some(expected), "{found:?}");
        Ok(())
    };
    eventually(
        "the certificate is reported as not trusted",
        Pace::WITHIN,
        async || is_trusted(0.0).await,
    )
    .await?;
    ensure!(
        !*replica.in_effect.borrow(),
        "no heartbeat while the API server refuses it"
    );
    let why = "none of the trusted authorities signed it";
    assert_eq!(
        replica.readiness.report(),
        format!("[+]certificate ok: not trusted, as {CONFIGURATION} has it: {why}\n")
    );

    inject(&api_server, &own).await?;
    eventually("it is trusted", Pace::WITHIN, async || {
        is_trusted(1.0).await
    })
    .await?;
    timeout(
        Pace::WITHIN.limit,
        replica.in_effect.clone().wait_for(|is| *is),
    )
    .await??;
    assert_eq!(replica.readiness.report(), "[+]certificate ok\n");

    let events = api_server.among("/apis/events.k8s.io/v1/namespaces/suite/events/");
    let [event] = events.as_slice() else {
        anyhow::bail!("{events:?}")
    };
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("CertificateExpiring")),
        "{NAME}"
    );
    assert_eq!(
        (&event["regarding"]["kind"], &event["regarding"]["name"]),
        (&json!("Pod"), &json!("webhook-0"))
    );
    Ok(())
}
