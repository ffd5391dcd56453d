//! A cluster in which suites of specs run: upstream's manifests, as they are but for arguments of
//! upstream's own, with the programs under test.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{Authority, Namespace, eventually, kubectl_in, repository};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use sandbox::{Image, Sandbox};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::external_metrics;
use crate::images::{self, COMPONENTS, Programs, image_name};
use crate::simulated;
use crate::source::Source;
use crate::suites::{Run, Suite};

/// The namespace of upstream's programs.
const SYSTEM: &str = "kube-system";
/// The name in the certificate of the admission controller.
const WEBHOOK: &str = "vpa-webhook.kube-system.svc";
/// Flags of the admission controller, and the files in its Secret.
const CERTIFICATES: [(&str, &str); 3] = [
    ("client-ca-file", "caCert"),
    ("tls-cert-file", "serverCert"),
    ("tls-private-key", "serverKey"),
];
/// Time after which a suite is ended.
const LIMIT: &str = "90m";

/// Nodes of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    Simulated,
    Real,
}

impl Nodes {
    fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
        }
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Simulated => "Simulated nodes",
            Self::Real => "A real node",
        })
    }
}

/// A cluster in which suites run one after the other.
pub(crate) struct Cluster<'a> {
    sandbox: &'a Sandbox,
    nodes: Nodes,
    source: &'a Source,
    /// Upstream's namespace.
    system: Namespace,
    /// The Secret of the admission controller, which a spec replaces.
    certificates: Value,
    /// Folder of the results.
    results: PathBuf,
}

impl<'a> Cluster<'a> {
    /// Makes what all suites need.
    pub(crate) async fn start(
        sandbox: &'a Sandbox,
        nodes: Nodes,
        source: &'a Source,
        programs: Programs,
    ) -> Result<Self> {
        match nodes {
            Nodes::Real => sandbox.import(all_images(source, programs)?).await?,
            Nodes::Simulated => simulate(sandbox).await?,
        }
        for file in [
            "vpa-v1-crd-gen.yaml",
            "vpa-rbac.yaml",
            "admission-controller-service.yaml",
        ] {
            let path = source.manifests.join(file);
            let apply = format!("apply --server-side -f {}", path.display());
            kubectl_in(sandbox, &apply).await?;
        }
        let results = repository()
            .join("target/conformance/results")
            .join(nodes.name());
        fs::create_dir_all(&results).with_context(|| format!("create {}", results.display()))?;
        let cluster = Self {
            sandbox,
            nodes,
            source,
            system: Namespace::of(sandbox.client().await?, SYSTEM),
            certificates: certificates("vpa-tls-certs", CERTIFICATES.map(|(_, file)| file))?,
            results,
        };
        let others = certificates("vpa-e2e-certs", ["e2eCaCert", "e2eCert", "e2eKey"])?;
        cluster.apply_secret(&others).await?;
        Ok(cluster)
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
            Box::pin(external_metrics::deploy_adapter(
                self.sandbox,
                &self.source.external_metrics,
            ))
            .await?;
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
        let name = run.suite.name;
        let log = self.results.join(format!("{name}.log"));
        println!("{name}: the log is {}", log.display());
        let report = self.results.join(format!("{name}.json"));
        // That of an earlier run.
        _ = fs::remove_file(&report);
        let output = fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut ginkgo = Command::new(self.source.programs.join("ginkgo"));
        ginkgo
            .arg(format!("--procs={}", run.suite.processes(self.nodes)))
            .arg(format!("--timeout={LIMIT}"))
            .args(["--no-color", "--keep-going"])
            .arg(format!("--output-dir={}", self.results.display()))
            .arg(format!("--json-report={name}.json"))
            .arg(format!("--junit-report={name}.xml"))
            .arg(format!("--focus={}", run.focus()))
            .arg(self.source.programs.join(run.program()))
            .arg("--")
            .arg(format!(
                "--kubeconfig={}",
                self.sandbox.kubeconfig().display()
            ))
            .args(["--disable-log-dump", "--dump-logs-on-failure=false"])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true);
        let run_specs = async { ginkgo.status().await.context("run ginkgo") };
        // It fails when a spec does, which the report tells.
        if run.suite.external_metrics {
            tokio::select! {
                status = run_specs => drop(status?),
                ended = Box::pin(external_metrics::write_usage(self.sandbox)) => match ended? {},
            }
        } else {
            run_specs.await?;
        }
        let text = fs::read(&report)
            .with_context(|| format!("{name}: no report was written, see {}", log.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("parse {}", report.display()))
    }

    async fn kubectl(&self, arguments: &str) -> Result<()> {
        let in_namespace = format!("-n {SYSTEM} {arguments}");
        kubectl_in(self.sandbox, &in_namespace).await.map(drop)
    }

    async fn apply_secret(&self, secret: &Value) -> Result<()> {
        let name = secret["metadata"]["name"].as_str().context("a name")?;
        let params = PatchParams::apply("conformance").force();
        let secrets = self.system.typed::<Secret>();
        secrets.patch(name, &params, &Patch::Apply(secret)).await?;
        Ok(())
    }
}

/// All images of a real node.
fn all_images(source: &Source, programs: Programs) -> Result<Vec<Image>> {
    let mut all = images::of_specs(&source.programs)?;
    for component in COMPONENTS {
        let manifest = source.manifest(&format!("{component}-deployment.yaml"))?;
        all.push(programs.image(component, image_name(&manifest)?, &source.programs)?);
    }
    Ok(all)
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

/// A Secret with a CA and a certificate of the admission controller. `files` are the names of CA,
/// certificate and key.
fn certificates(name: &str, [ca, certificate, key]: [&str; 3]) -> Result<Value> {
    let authority = Authority::new(name)?;
    let issued = authority.issue(WEBHOOK)?;
    let file = |name: &str| format!("{name}.pem");
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {
            file(ca): authority.pem(),
            file(certificate): issued.certificate.pem(),
            file(key): issued.key.serialize_pem(),
        },
    }))
}
