//! A cluster in which suites of specs run: upstream's manifests, as they are but for arguments of
//! upstream's own, with the programs under test.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::process::client_of;
use e2e::{Kubectl, Namespace, eventually, kubectl_in, upstream_certificates};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use sandbox::{Image, Sandbox};
use serde_json::{Value, json};

use crate::external_metrics;
use crate::ginkgo::{Ginkgo, Specs, results_of};
use crate::images::{self, COMPONENTS, Programs, image_name};
use crate::kind;
use crate::simulated;
use crate::source::Source;
use crate::suites::{Run, Suite};

/// The namespace of upstream's programs.
const SYSTEM: &str = "kube-system";
/// Flags of the admission controller, and the files in its Secret.
const CERTIFICATES: [(&str, &str); 3] = [
    ("client-ca-file", "caCert"),
    ("tls-cert-file", "serverCert"),
    ("tls-private-key", "serverKey"),
];
/// Time after which a suite is ended.
const LIMIT: &str = "90m";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    Simulated,
    Real,
    /// Those of a cluster that kind has made.
    Kind,
}

impl Nodes {
    fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
            Self::Kind => "kind",
        }
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Simulated => "Simulated nodes",
            Self::Real => "A real node",
            Self::Kind => "Nodes of kind",
        })
    }
}

/// A cluster in which suites run one after the other.
pub(crate) struct Cluster<'a> {
    kubectl: Kubectl,
    client: Client,
    /// `None` if kind has made the cluster.
    sandbox: Option<&'a Sandbox>,
    nodes: Nodes,
    source: &'a Source,
    /// Upstream's namespace.
    system: Namespace,
    /// The Secret of the admission controller, which a spec replaces.
    certificates: Value,
}

impl<'a> Cluster<'a> {
    pub(crate) async fn in_sandbox(
        sandbox: &'a Sandbox,
        nodes: Nodes,
        source: &'a Source,
        programs: Programs,
    ) -> Result<Self> {
        if nodes == Nodes::Simulated {
            simulate(sandbox).await?;
        } else {
            let images = [
                images::of_specs(&source.programs)?,
                images_under_test(source, programs)?,
            ];
            sandbox.import(images.concat()).await?;
        }
        let client = sandbox.client().await?;
        Self::start(Kubectl::of(sandbox), client, Some(sandbox), nodes, source).await
    }

    /// In the cluster that kind has made. Its nodes fetch the images of the specs themselves.
    pub(crate) async fn in_kind(
        folder: &Path,
        source: &'a Source,
        programs: Programs,
    ) -> Result<Self> {
        let images = images_under_test(source, programs)?;
        kind::load(&sandbox::image_archive(&images)?).await?;
        let kubectl = Kubectl {
            program: "kubectl".into(),
            kubeconfig: kind::kubeconfig(folder).await?,
        };
        let client = client_of(Kubeconfig::read_from(&kubectl.kubeconfig)?).await?;
        Self::start(kubectl, client, None, Nodes::Kind, source).await
    }

    /// Makes what all suites need.
    async fn start(
        kubectl: Kubectl,
        client: Client,
        sandbox: Option<&'a Sandbox>,
        nodes: Nodes,
        source: &'a Source,
    ) -> Result<Self> {
        for file in [
            "vpa-v1-crd-gen.yaml",
            "vpa-rbac.yaml",
            "admission-controller-service.yaml",
        ] {
            let path = source.manifests.join(file);
            let apply = format!("apply --server-side -f {}", path.display());
            kubectl.run(&apply).await?;
        }
        let cluster = Self {
            kubectl,
            system: Namespace::of(client.clone(), SYSTEM),
            client,
            sandbox,
            nodes,
            source,
            certificates: upstream_certificates(
                "vpa-tls-certs",
                CERTIFICATES.map(|(_, file)| file),
            )?,
        };
        let others = upstream_certificates("vpa-e2e-certs", ["e2eCaCert", "e2eCert", "e2eKey"])?;
        cluster.apply_secret(&others).await?;
        Ok(cluster)
    }

    pub(crate) async fn version(&self) -> Result<String> {
        Ok(self.client.apiserver_version().await?.git_version)
    }

    /// Replaces the programs of the last suite by those of the next.
    pub(crate) async fn install(&self, suite: &Suite) -> Result<()> {
        for component in COMPONENTS {
            let name = format!("vpa-{component}");
            self.kubectl(&format!("delete deployment {name} --ignore-not-found"))
                .await?;
            eventually(&format!("no pod of {name} is left"), async || {
                let pods = self.system.pods_of(&name).await?;
                ensure!(pods.is_empty(), "{} are", pods.len());
                Ok(())
            })
            .await?;
        }
        self.kubectl("delete mutatingwebhookconfiguration vpa-webhook-config --ignore-not-found")
            .await?;
        self.apply_secret(&self.certificates).await?;
        if suite.programs.is_empty() {
            return Ok(());
        }
        if suite.external_metrics {
            let rules = &self.source.external_metrics;
            Box::pin(external_metrics::deploy_adapter(self.sandbox()?, rules)).await?;
        }
        let folder = tempfile::tempdir()?;
        self.write_kustomization(folder.path(), suite)?;
        self.kubectl(&format!("apply -k {}", folder.path().display()))
            .await?;
        for component in suite.programs {
            let status = format!("rollout status deployment/vpa-{component} --timeout=4m");
            self.kubectl(&status).await?;
        }
        Ok(())
    }

    /// Writes upstream's manifests of the programs, with the arguments of its own tests.
    fn write_kustomization(&self, folder: &Path, suite: &Suite) -> Result<()> {
        let mut files = Vec::new();
        let mut patches = Vec::new();
        for component in suite.programs {
            let file = format!("{component}-deployment.yaml");
            fs::write(folder.join(&file), self.source.manifest(&file)?)?;
            files.push(file);
            let gates = "--feature-gates=AllAlpha=true,AllBeta=true".to_owned();
            let path = "/spec/template/spec/containers/0/args";
            let change = match *component {
                // It has arguments.
                "admission-controller" => {
                    let mut arguments = vec![gates];
                    if self.nodes == Nodes::Simulated {
                        // The defaults, which are no paths on this machine.
                        arguments.extend(
                            CERTIFICATES
                                .map(|(flag, file)| format!("--{flag}=/etc/tls-certs/{file}.pem")),
                        );
                    }
                    let path = format!("{path}/-");
                    let changes = arguments
                        .into_iter()
                        .map(|argument| json!({"op": "add", "path": path, "value": argument}));
                    Value::Array(changes.collect())
                }
                component => {
                    let interval = format!("--{component}-interval={}", suite.interval(self.nodes));
                    let mut arguments = vec![gates, interval, "--v=4".to_owned()];
                    if component == "recommender" {
                        arguments.push("--checkpoints-gc-interval=1m".to_owned());
                    }
                    if suite.external_metrics {
                        arguments.extend(external_metrics::ARGUMENTS.map(str::to_owned));
                    }
                    json!([{"op": "add", "path": path, "value": arguments}])
                }
            };
            let target = json!({"kind": "Deployment", "name": format!("vpa-{component}")});
            patches.push(json!({"target": target, "patch": change.to_string()}));
        }
        let kustomization = json!({"resources": files, "patches": patches});
        fs::write(folder.join("kustomization.yaml"), kustomization.to_string())?;
        Ok(())
    }

    /// Runs specs, and returns ginkgo's report of them.
    pub(crate) async fn run(&self, run: &Run) -> Result<Value> {
        let ginkgo = Ginkgo {
            programs: &self.source.programs,
            kubeconfig: self.kubectl.kubeconfig.clone(),
            results: results_of(self.nodes.name()),
        };
        let focus = run.focus();
        let specs = Specs {
            name: run.suite.name,
            program: run.program(),
            focus: &focus,
            processes: run.suite.processes(self.nodes),
            limit: LIMIT,
            arguments: &["--dump-logs-on-failure=false"],
        };
        if !run.suite.external_metrics {
            return ginkgo.run(&specs).await;
        }
        let sandbox = self.sandbox()?;
        tokio::select! {
            report = ginkgo.run(&specs) => report,
            ended = Box::pin(external_metrics::write_usage(sandbox)) => match ended? {},
        }
    }

    async fn kubectl(&self, arguments: &str) -> Result<()> {
        let in_namespace = format!("-n {SYSTEM} {arguments}");
        self.kubectl.run(&in_namespace).await.map(drop)
    }

    fn sandbox(&self) -> Result<&Sandbox> {
        self.sandbox.context("external metrics need a sandbox")
    }

    async fn apply_secret(&self, secret: &Value) -> Result<()> {
        let name = secret["metadata"]["name"].as_str().context("a name")?;
        let params = PatchParams::apply("conformance").force();
        let secrets = self.system.typed::<Secret>();
        secrets.patch(name, &params, &Patch::Apply(secret)).await?;
        Ok(())
    }
}

fn images_under_test(source: &Source, programs: Programs) -> Result<Vec<Image>> {
    let image = |component| {
        let manifest = source.manifest(&format!("{component}-deployment.yaml"))?;
        programs.image(component, image_name(&manifest)?, &source.programs)
    };
    COMPONENTS.into_iter().map(image).collect()
}

/// Lets the simulated nodes of a cluster do what the specs' containers do.
async fn simulate(sandbox: &Sandbox) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("simulated.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": simulated::objects()});
    fs::write(&file, list.to_string())?;
    let apply = format!("apply --server-side -f {}", file.display());
    kubectl_in(sandbox, &apply).await.map(drop)
}
