//! The webhook registered by URL, with upstream's flags and certificates from files. It watches one
//! namespace only, so that other tests do not meet it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::process::command;
use e2e::{eventually, free_address, kubectl, shared};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::process::Child;

use super::certificates::Mounted;
use super::fixture::{Fixture, RECOMMENDED};

/// A running webhook; killed when dropped.
pub(crate) struct Webhook {
    _child: Child,
    log: PathBuf,
}

impl Webhook {
    /// Starts one for the pods and VPA objects of this namespace, with more flags.
    pub(crate) fn start(
        sandbox: &Sandbox,
        namespace: &str,
        mounted: &Mounted,
        flags: &[&str],
    ) -> Result<Self> {
        let (ip, port) = (mounted.address.ip(), mounted.address.port());
        let log = sandbox.logs_dir().join("webhook-by-url.log");
        let file = |flag: &str, name: &str| format!("--{flag}={}", mounted.path(name).display());
        let child = command("webhook", &sandbox.kubeconfig(), &log)?
            .arg(format!("--address={}", free_address()?))
            .args([format!("--port={port}"), format!("--webhook-port={port}")])
            .args(["--register-by-url", "--webhook-timeout-seconds=10"])
            .arg(format!("--webhook-address=https://{ip}"))
            .arg(file("tls-cert-file", "serverCert.pem"))
            .arg(file("tls-private-key", "serverKey.pem"))
            .arg(file("client-ca-file", "caCert.pem"))
            .args(["--reload-cert", "--v=4", "--webhook-labels=team:sizes"])
            .arg(format!("--vpa-object-namespace={namespace}"))
            .arg("--status-lease-update-interval=1s")
            .args(flags)
            .env("NAMESPACE", namespace)
            .env("PLIMSOLL_LISTEN_IP", ip.to_string())
            .spawn()
            .context("start a webhook")?;
        Ok(Self { _child: child, log })
    }

    async fn says(&self, line: &str) -> Result<()> {
        eventually(&format!("it says {line:?}"), async || {
            let log = std::fs::read_to_string(&self.log)?;
            ensure!(log.lines().any(|said| said.contains(line)), "{log}");
            Ok(())
        })
        .await
    }
}

#[tokio::test]
async fn a_webhook_registered_by_url_follows_its_files_and_only_ever_changes_what_it_should()
-> Result<()> {
    let sandbox = shared().await?;
    let client = sandbox.client().await?;
    let fixture = Fixture::new(client.clone(), "hook").await?;
    let mut mounted = Mounted::new(
        sandbox.logs_dir().join("webhook-certificates"),
        free_address()?,
    )?;
    let webhook = Webhook::start(sandbox, &fixture.namespace, &mounted, &[])?;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let outcome = async {
        fixture.workload().await?;
        fixture.await_patches().await?;
        fixture.bears_resized(2).await?;
        super::limit_modes::pods_are_created_with_each_mode(&fixture).await?;
        fixture.errors_are_refused().await?;
        let object = fixture
            .autoscale("defaulted", &json!({"targetRef": {"name": "other"}}))
            .await?;
        assert_eq!(
            object["spec"]["updatePolicy"],
            json!({"updateMode": "Recreate"})
        );
        a_dry_run_is_answered_and_leaves_nothing(&fixture).await?;

        mounted.replace()?;
        for line in [
            "New certificate found, reloading",
            "New client CA found, reloading and patching webhook",
            "Successfully patched webhook with new client CA",
        ] {
            webhook.says(line).await?;
        }
        fixture.await_patches().await?;
        let configuration = configurations.get("vpa-webhook-config").await?;
        assert_eq!(
            configuration.metadata.labels,
            Some([("team".to_owned(), "sizes".to_owned())].into())
        );

        fixture
            .when::<Lease>("vpa-admission-controller", "it was renewed", |lease| {
                let spec = &lease["spec"];
                spec["leaseDurationSeconds"] == 1 && spec["renewTime"].is_string()
            })
            .await
            .map(drop)
    };
    let outcome = outcome.await;
    drop(webhook);
    configurations
        .delete("vpa-webhook-config", &DeleteParams::default())
        .await?;
    outcome
}

async fn a_dry_run_is_answered_and_leaves_nothing(fixture: &Fixture) -> Result<()> {
    let mut pod = serde_json::to_value(fixture.pod_of_workload().await?)?;
    pod["metadata"]["name"] = "dry".into();
    let file = shared().await?.logs_dir().join("dry.json");
    std::fs::write(&file, pod.to_string())?;
    let file = file.to_str().context("the path is text")?;
    let namespace = &fixture.namespace;
    let printed = kubectl(&format!(
        "-n {namespace} apply --dry-run=server -ojson -f {file}"
    ))
    .await?;
    let printed: Value = serde_json::from_str(&printed)?;
    assert_eq!(
        printed["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        RECOMMENDED.0
    );
    ensure!(
        fixture.typed::<Pod>().get_opt("dry").await?.is_none(),
        "a dry run made a pod"
    );
    Ok(())
}
