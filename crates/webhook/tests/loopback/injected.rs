//! Somebody else looks after the certificate and has the API server trust its authority, as
//! cert-manager does; and does it badly.

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

use crate::authority::Authority;
use crate::objects::Objects;
use crate::running::{NAME, Replica, registration};

/// Has the API server trust this authority.
async fn inject(objects: &Objects, authority: &Authority) -> Result<()> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(objects.client());
    let mut wanted = registration().wanted(Some(&authority.pem), None);
    wanted.metadata.annotations = Some(
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
            &Patch::Apply(wanted),
        )
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_somebody_else_is_compared_with_what_is_trusted_and_its_end_is_told()
-> Result<()> {
    let (objects, folder) = (Objects::default(), tempfile::tempdir()?);
    let (own, other) = (Authority::new("own")?, Authority::new("other")?);
    let (certificate, key) = own.issue(Some(3))?;
    let path = |name| folder.path().join(name);
    std::fs::write(path("cert"), certificate)?;
    std::fs::write(path("key"), key)?;
    inject(&objects, &other).await?;
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
    let replica = Replica::start(Source::Files(files), &objects, LIMITS).await?;

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
        "it is said that it is not trusted",
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

    inject(&objects, &own).await?;
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

    let events = objects.among("/apis/events.k8s.io/v1/namespaces/suite/events/");
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
