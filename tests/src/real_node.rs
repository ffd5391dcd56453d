//! A sandbox with a real node: kubelet, containerd and containers. Its tests are in a binary of their
//! own. Where the node cannot run they are skipped, except in CI.

use std::env;

use anyhow::{Result, ensure};
use sandbox::{Image, Options, PROMETHEUS, Sandbox};

use crate::control_plane::{built, options, options_named, start};
use crate::helm::Helm;
use crate::{apply, eventually, get_json, kubectl_in, program};

/// Programs of the suite, which have images.
const PROGRAMS: [&str; 6] = [
    "recommender",
    "updater",
    "webhook",
    "adapter",
    "extender",
    "plimsoll",
];

/// Image of the program `load`, which uses CPU and memory as a test says.
pub const LOAD_IMAGE: &str = "docker.io/plimsoll-tests/load:1";

/// Whether this machine can run a real node. If not: says so, or fails in CI.
pub fn can_run_real_node() -> Result<bool> {
    let missing = sandbox::missing_for_real_node();
    if missing.is_empty() {
        return Ok(true);
    }
    let missing = missing.join("; ");
    ensure!(
        env::var_os("CI").is_none(),
        "CI runs the tests of a real node: {missing}"
    );
    eprintln!("SKIPPED: tests of a real node: {missing}");
    Ok(false)
}

pub async fn real_node(purpose: &str) -> Result<Sandbox> {
    let sandbox = start(with_real_node(options(Some(purpose))?)).await?;
    let images = [vec![load_image()?], images_of_suite()?].concat();
    sandbox.import(images).await?;
    Ok(sandbox)
}

fn with_real_node(options: Options) -> Options {
    Options {
        nodes: 0,
        real_node: true,
        ..options
    }
}

/// Options of a bare sandbox with a real node and this name.
pub fn real_node_options(name: String) -> Result<Options> {
    Ok(with_real_node(options_named(name)?))
}

/// Runs Prometheus in a cluster with a real node, and returns its address in the cluster.
pub async fn install_prometheus(sandbox: &Sandbox) -> Result<String> {
    let program = built(&PROMETHEUS).await?.join("bin/prometheus");
    let image = Image::of_program("docker.io/plimsoll-tests/prometheus:1", &program)?;
    sandbox.import(vec![image]).await?;
    apply(sandbox, "tests/fixtures/prometheus.yaml").await?;
    let status = "rollout status deployment/prometheus -n monitoring --timeout=5m";
    kubectl_in(sandbox, status).await?;
    // There is no cluster DNS.
    let address = "get service prometheus -n monitoring -o jsonpath={.spec.clusterIP}";
    Ok(format!("http://{}", kubectl_in(sandbox, address).await?))
}

/// Images of the suite, by the names that the chart gives them.
pub fn images_of_suite() -> Result<Vec<Image>> {
    let image = |name: &str| {
        let version = env!("CARGO_PKG_VERSION");
        let image = format!("ghcr.io/plimsoll/{name}:{version}");
        Image::of_program(&image, &program(name)?)
    };
    PROGRAMS.into_iter().map(image).collect()
}

/// Installs the packaged chart with these values, and waits until all programs are ready and their APIs answer.
pub async fn install_suite(sandbox: &Sandbox, values: &[&str]) -> Result<()> {
    let client = sandbox.client().await?;
    apply(sandbox, "deploy/base/namespace.yaml").await?;
    let helm = Helm::find().await?.packaged().await?;
    let helm = helm.with(&sandbox.kubeconfig());
    helm.upgrade(&client, values).await?;
    eventually("the APIs of the suite answer", async || {
        get_json(&client, "/apis/external.metrics.k8s.io/v1beta1").await
    })
    .await
    .map(drop)
}

pub fn load_image() -> Result<Image> {
    Image::of_program(LOAD_IMAGE, &program("load")?)
}
