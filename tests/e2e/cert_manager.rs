//! Certificates that the programs do not make themselves: issued and renewed by cert-manager, and then
//! from Secrets of the user. The suite is installed by the chart.

mod team;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{ADAPTER, Program, RECOMMENDER, SUITE, SYSTEM, WEBHOOK, replicas, scrape};
use e2e::deployment::{restarts, system, total};
use e2e::{Authority, WithCertManager, eventually, is_true, kubectl_in, patch, until, while_asked};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::json;

use e2e::helm::Helm;
use team::Team;

/// The program, the Secret with its certificate, and the name in it.
const SECRETS: [&str; 7] = [
    "webhook plimsoll-webhook-tls vpa-webhook.plimsoll-system.svc",
    "adapter plimsoll-adapter-tls plimsoll-adapter.plimsoll-system.svc",
    "feed.recommender plimsoll-recommender-feed-tls plimsoll-recommender",
    "feed.updater plimsoll-updater-feed-tls plimsoll-updater",
    "feed.webhook plimsoll-webhook-feed-tls plimsoll-webhook",
    "feed.adapter plimsoll-adapter-feed-tls plimsoll-adapter",
    "extender plimsoll-extender-tls plimsoll-extender.plimsoll-system.svc",
];

fn words(row: &str) -> Result<[&str; 3]> {
    let words: Vec<&str> = row.split(' ').collect();
    <[&str; 3]>::try_from(words).map_err(|words| anyhow::anyhow!("{words:?}"))
}

/// Secrets that the programs make unless they are given certificates.
const SELF_MANAGED: [&str; 4] = [
    "vpa-tls-certs",
    "plimsoll-adapter-certificates",
    "plimsoll-extender-certificates",
    "plimsoll-feed-certificates",
];
/// Two replicas of each reader of the feed.
const READERS: f64 = 6.0;
const API_SERVICES: [&str; 3] = [
    "v1beta1.external.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
];
const CLIENTS: usize = 2;
const INTERVAL: Duration = Duration::from_millis(200);

const VALUES: [&str; 4] = [
    "mode=all",
    "extender.enabled=true",
    "recommender.pod.extraArgs[0]=--recommender-interval=1s",
    "updater.settlingTime=0s",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cert_manager_renews_all_certificates_unnoticed_and_secrets_of_the_user_replace_them()
-> Result<()> {
    let cert_manager = WithCertManager::start("cert-manager").await?;
    let sandbox = &cert_manager.sandbox;
    let suite = Suite {
        client: sandbox.client().await?,
        helm: Helm::find().await?.with(&sandbox.kubeconfig()),
        sandbox,
    };
    suite.install().await?;
    let team = Team::new(suite.client.clone()).await?;
    team.is_sized().await?;
    team.is_scaled().await?;
    suite.renew(&team).await?;
    suite.use_own_secrets(&team).await?;
    cert_manager.sandbox.down().await
}

struct Suite<'a> {
    client: Client,
    helm: Helm,
    sandbox: &'a Sandbox,
}

impl Suite<'_> {
    fn secrets(&self) -> Api<Secret> {
        system(&self.client).typed()
    }

    /// Installs the suite: cert-manager issues all certificates, and the programs none.
    async fn install(&self) -> Result<()> {
        let values = [&VALUES[..], &["certificates.mode=certManager"]].concat();
        self.helm.upgrade(&self.client, &values).await?;
        let wait = "wait certificates --all --for=condition=Ready --timeout=120s";
        kubectl_in(self.sandbox, &format!("-n {SYSTEM} {wait}")).await?;
        for row in SECRETS {
            let [_, name, _] = words(row)?;
            let secret = self.secrets().get(name).await?;
            let annotations = secret.annotations();
            ensure!(
                annotations.contains_key("cert-manager.io/certificate-name"),
                "{name}: {annotations:?}"
            );
        }
        for name in SELF_MANAGED {
            ensure!(self.secrets().get_opt(name).await?.is_none(), "{name}");
        }
        self.works().await
    }

    /// Waits until the API server trusts webhook and adapter, and all readers are on the feed.
    async fn works(&self) -> Result<()> {
        let services: Api<APIService> = Api::all(self.client.clone());
        for name in API_SERVICES {
            eventually(&format!("{name} is available"), async || {
                let service = serde_json::to_value(services.get(name).await?)?;
                ensure!(is_true(&service["status"], "Available"), "{service:#}");
                Ok(())
            })
            .await?;
        }
        for (program, prefix) in [
            (WEBHOOK, "vpa_admission_controller"),
            (ADAPTER, "plimsoll_adapter"),
        ] {
            let trusted = format!("{prefix}_certificate_trusted");
            eventually("the API server trusts each replica", async || {
                for replica in replicas(&self.client, program).await? {
                    let value = e2e::deployment::metric(&replica, &trusted).await?;
                    ensure!(value > 0.0, "{}: {value}", replica.pod);
                }
                Ok(())
            })
            .await?;
        }
        until(
            "all readers are on the feed",
            async || total(&self.client, RECOMMENDER, "plimsoll_feed_readers").await,
            |open| *open >= READERS,
        )
        .await
    }

    /// Renews certificates while metrics and pods are requested: no request fails, and no program
    /// restarts.
    async fn renew(&self, team: &Team) -> Result<()> {
        let pods = self.pods().await?;
        let mut before = BTreeMap::new();
        for program in [ADAPTER, WEBHOOK] {
            before.insert(program.labels, self.ends(program).await?);
        }
        let clients = (0..CLIENTS).map(|_| {
            async || {
                team.reads_the_metric().await?;
                team.creates_a_sized_pod().await
            }
        });
        while_asked(INTERVAL, clients.collect(), async |asked| {
            asked.some_more().await?;
            self.trigger("plimsoll-adapter").await?;
            self.trigger("plimsoll-recommender-feed").await?;
            self.trigger("plimsoll-updater-feed").await?;
            self.replace("plimsoll-webhook-tls").await?;
            for program in [ADAPTER, WEBHOOK] {
                let before = &before[program.labels];
                eventually("each replica serves the new certificate", async || {
                    let now = self.ends(program).await?;
                    let is_new = now.iter().zip(before).all(|(now, old)| now != old);
                    ensure!(is_new, "{now:?}");
                    Ok(())
                })
                .await?;
            }
            asked.some_more().await
        })
        .await?;
        self.works().await?;
        team.reads_the_feed().await?;
        assert_eq!(self.pods().await?, pods, "no pod was replaced or restarted");
        Ok(())
    }

    /// Names and restarts of all pods of the suite.
    async fn pods(&self) -> Result<BTreeMap<String, i32>> {
        let mut found = BTreeMap::new();
        for program in [RECOMMENDER, e2e::deployment::UPDATER, WEBHOOK, ADAPTER] {
            for replica in replicas(&self.client, program).await? {
                let count = restarts(&self.client, &replica).await?;
                found.insert(replica.pod, count);
            }
        }
        Ok(found)
    }

    /// Expiry of the certificate that each replica serves, by its own metric.
    async fn ends(&self, program: Program<'_>) -> Result<Vec<String>> {
        let mut ends = Vec::new();
        for replica in replicas(&self.client, program).await? {
            let metrics = scrape(&replica).await?;
            let mut lines = metrics.lines();
            let line = lines.find(|line| {
                line.contains("_certificate_end_timestamp_seconds{") && line.contains("\"server\"")
            });
            ends.push(line.context("no end")?.to_owned());
        }
        Ok(ends)
    }

    fn certificates(&self) -> Api<DynamicObject> {
        let kind = ApiResource {
            group: "cert-manager.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "cert-manager.io/v1".to_owned(),
            kind: "Certificate".to_owned(),
            plural: "certificates".to_owned(),
        };
        Api::namespaced_with(self.client.clone(), SYSTEM, &kind)
    }

    /// Asks for a renewal as `cmctl renew` does.
    async fn trigger(&self, name: &str) -> Result<()> {
        let certificates = self.certificates();
        let present = certificates.get(name).await?;
        let mut conditions = present.data["status"]["conditions"].clone();
        let issuing = json!({
            "type": "Issuing", "status": "True", "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
        });
        conditions
            .as_array_mut()
            .context("conditions")?
            .push(issuing);
        let status = Patch::Merge(json!({"status": {"conditions": conditions}}));
        let params = PatchParams::default();
        certificates.patch_status(name, &params, &status).await?;
        eventually(&format!("{name} is renewed"), async || {
            let now = certificates.get(name).await?;
            let revision = |object: &DynamicObject| object.data["status"]["revision"].as_i64();
            ensure!(revision(&now) > revision(&present), "{:#}", now.data);
            Ok(())
        })
        .await
    }

    /// Deletes a Secret, which cert-manager creates again.
    async fn replace(&self, name: &str) -> Result<()> {
        let secrets = self.secrets();
        let before = secrets.get(name).await?;
        secrets.delete(name, &DeleteParams::default()).await?;
        eventually(&format!("{name} is issued again"), async || {
            let now = secrets.get(name).await?;
            ensure!(now.uid() != before.uid(), "it is the old one");
            ensure!(now.data != before.data, "it has the old certificate");
            Ok(())
        })
        .await
    }

    /// Goes on with certificates of the user, whose CA is followed.
    async fn use_own_secrets(&self, team: &Team) -> Result<()> {
        let authority = Authority::new("of the user")?;
        let mut values: Vec<String> = VALUES.map(str::to_owned).into();
        values.push("certificates.mode=existing".to_owned());
        for row in SECRETS {
            let [program, name, host] = words(row)?;
            let own = name.replace("plimsoll", "own");
            let issued = authority.issue(host)?;
            let data = json!({
                "tls.crt": issued.certificate.pem(), "tls.key": issued.key.serialize_pem(),
                "ca.crt": authority.pem(),
            });
            let secret = json!({"metadata": {"name": own}, "stringData": data});
            e2e::create(&self.secrets(), secret).await?;
            values.push(format!("certificates.secrets.{program}={own}"));
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        self.helm.upgrade(&self.client, &values).await?;
        self.pods_are_replaced().await?;
        self.trusts(&authority.pem()).await?;
        self.works().await?;
        eventually("new pods are sized", async || {
            team.creates_a_sized_pod().await
        })
        .await?;
        eventually("the metric is served", async || {
            team.reads_the_metric().await
        })
        .await?;

        let both = format!("{}{}", authority.pem(), Authority::new("next")?.pem());
        for name in ["own-webhook-tls", "own-adapter-tls"] {
            let change = json!({"stringData": {"ca.crt": both}});
            patch(&self.secrets(), name, change).await?;
        }
        self.trusts(&both).await?;
        team.creates_a_sized_pod().await?;
        team.reads_the_metric().await
    }

    /// Waits until each pod of the suite is one of the last revision.
    async fn pods_are_replaced(&self) -> Result<()> {
        let pods: Api<Pod> = system(&self.client).typed();
        eventually("all pods use the Secrets of the user", async || {
            for pod in pods.list(&ListParams::default().labels(SUITE)).await? {
                let text = serde_json::to_string(&pod.spec)?;
                ensure!(text.contains("\"own-"), "{} does not", pod.name_any());
            }
            Ok(())
        })
        .await
    }

    /// Waits until the registration and all APIs have this CA bundle.
    async fn trusts(&self, bundle: &str) -> Result<()> {
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let services: Api<APIService> = Api::all(self.client.clone());
        eventually("the CA bundle is registered", async || {
            let mut found = Vec::new();
            let webhook = registrations.get("vpa-webhook-config").await?;
            let webhook = webhook.webhooks.unwrap_or_default();
            let webhook = webhook.into_iter().next().context("a webhook")?;
            found.push(("webhook", webhook.client_config.ca_bundle));
            for name in API_SERVICES {
                let spec = services.get(name).await?.spec;
                found.push((name, spec.and_then(|spec| spec.ca_bundle)));
            }
            for (name, present) in found {
                let present = present.with_context(|| format!("{name} has none"))?;
                ensure!(present.0 == bundle.as_bytes(), "{name} has another one");
            }
            Ok(())
        })
        .await
    }
}
