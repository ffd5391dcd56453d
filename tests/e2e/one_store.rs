//! One store of two clusters whose pods and nodes have the same names: `VictoriaMetrics`. With the matchers of a
//! cluster each program and command has its numbers, and without them it refuses by name.

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{EXTENDER, replicas};
use e2e::helm::Helm;
use e2e::remote_write::Receiver;
use e2e::victoria_metrics::VictoriaMetrics;
use e2e::{
    Namespace, another, condition, eventually, get_json, kubectl_in, plimsoll, requests, target,
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::config::Config;
use model::Quantity;
use sandbox::Sandbox;
use serde_json::{Value, json};

const STEP: i64 = 60;
/// Name, cores of the pod, length of the queue and utilization of the node.
const CLUSTERS: [(&str, f64, f64, f64); 2] = [("eu", 0.2, 3.0, 0.25), ("us", 0.8, 7.0, 0.75)];
const NODE: &str = "node-0";
const RULES: &str = "
externalRules:
  - seriesQuery: queue_depth
    resources: {overrides: {namespace: {resource: namespace}}}
    metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
";
/// The sentence about a store of several clusters.
const REFUSAL: &str = r#"cluster is "eu", "us""#;

struct Store<'a> {
    sandbox: &'a Sandbox,
    own: Namespace,
    metrics: VictoriaMetrics,
    helm: Helm,
}

impl Store<'_> {
    /// Three days of usage, and what the adapter and the extender read now; for each cluster the same names.
    async fn write(&self, pod: &str) -> Result<()> {
        let receiver = Receiver::at(&self.metrics.url)?;
        let now = Timestamp::now().as_second() / STEP * STEP;
        let namespace = self.own.namespace.as_str();
        let times =
            |days: i64, later: i64| (now - days * 86_400..=now + later).step_by(STEP as usize);
        for (cluster, cores, depth, utilization) in CLUSTERS {
            let of_cluster = ("cluster", cluster);
            let of_pod = [of_cluster, ("namespace", namespace), ("pod", pod)];
            let of_container = [&of_pod[..], &[("container", "app")]].concat();
            let cpu = times(3, 0).map(|at| (at, cores * (at - now + 4 * 86_400) as f64));
            let memory = times(3, 0).map(|at| (at, cores * f64::from(1 << 30)));
            let labels = [&of_pod[..], &[("label_app", "web")]].concat();
            receiver
                .write("container_cpu_usage_seconds_total", &of_container, cpu)
                .await?;
            receiver
                .write("container_memory_working_set_bytes", &of_container, memory)
                .await?;
            receiver
                .write("kube_pod_labels", &labels, times(3, 0).map(|at| (at, 1.0)))
                .await?;
            // The test may take some minutes.
            let queue = [of_cluster, ("namespace", namespace), ("queue", "a")];
            let depths = times(0, 3600).map(|at| (at, depth));
            receiver.write("queue_depth", &queue, depths).await?;
            let node = [of_cluster, ("instance", NODE)];
            let ratios = times(0, 3600).map(|at| (at, utilization));
            receiver
                .write("instance:node_cpu:ratio", &node, ratios)
                .await?;
        }
        Ok(())
    }

    /// Installs the chart, or upgrades it to these matchers.
    async fn install(&self, matchers: &str) -> Result<()> {
        let address = format!("prometheus.address={}", self.metrics.url);
        let matchers = format!("prometheus.matchers={matchers}");
        let rules = format!("adapter.rules={RULES}");
        let extender = format!("extender.config.prometheus.address={}", self.metrics.url);
        let values = [
            "mode=all",
            "updater.enabled=false",
            "extender.enabled=true",
            "recommender.pod.extraArgs[0]=--storage=prometheus",
            "recommender.pod.extraArgs[1]=--recommender-interval=2s",
            "recommender.pod.extraArgs[2]=--history-length=3d",
            &address,
            &matchers,
            &rules,
            "extender.config.load.interval=5s",
            "extender.config.load.metricProvider.type=Prometheus",
            &extender,
        ];
        self.helm.upgrade(&self.own.client, &values).await.map(drop)
    }

    /// A new VPA object has the history of the cluster.
    async fn recommender(&self, cores: f64) -> Result<()> {
        let spec = json!({"targetRef": target("Deployment", "web"), "updatePolicy": {"updateMode": "Off"}});
        self.own.make::<Vpa>("web", spec).await?;
        eventually("the history of the cluster counts", async || {
            let vpa = self.own.get::<Vpa>("web").await?;
            let container = &vpa["status"]["recommendation"]["containerRecommendations"][0];
            let cpu = container["target"]["cpu"].as_str();
            let cpu = cpu.with_context(|| format!("no target: {vpa:#}"))?;
            let ratio = cpu.parse::<Quantity>()?.to_f64() / (cores * 1.15);
            ensure!(
                (0.9..1.1).contains(&ratio),
                "{cpu} for {cores} cores: {vpa:#}"
            );
            Ok(())
        })
        .await?;
        Ok(self.own.delete::<Vpa>("web").await?)
    }

    /// The condition of a VPA object says why there is no history.
    async fn recommender_refuses(&self) -> Result<()> {
        let spec = json!({"targetRef": target("Deployment", "web"), "updatePolicy": {"updateMode": "Off"}});
        self.own.make::<Vpa>("web", spec).await?;
        eventually("the recommender refuses the store by name", async || {
            let vpa = self.own.get::<Vpa>("web").await?;
            let condition = condition(&vpa["status"], "FetchingHistory").context("no condition")?;
            let message = condition["message"].as_str().unwrap_or_default();
            ensure!(message.contains(REFUSAL), "{condition}");
            Ok(())
        })
        .await?;
        Ok(self.own.delete::<Vpa>("web").await?)
    }

    fn queue(&self) -> String {
        let namespace = &self.own.namespace;
        format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/queue_depth")
    }

    async fn adapter(&self, depth: f64) -> Result<()> {
        eventually("the queue of the cluster is served", async || {
            let list = get_json(&self.own.client, &self.queue()).await?;
            let value = list["items"][0]["value"].as_str().context("no value")?;
            let found = value.parse::<Quantity>()?.to_f64();
            ensure!((found - depth).abs() < 0.01, "{found} is not {depth}");
            Ok(())
        })
        .await
    }

    async fn adapter_refuses(&self) -> Result<()> {
        eventually("the adapter refuses the store by name", async || {
            let error = get_json(&self.own.client, &self.queue()).await;
            let error = error.err().context("it answers")?;
            ensure!(format!("{error:#}").contains(REFUSAL), "{error:#}");
            Ok(())
        })
        .await
    }

    /// The load of a node as load-watcher's clients read it.
    async fn load(&self) -> Result<Value> {
        let all = replicas(&self.own.client, EXTENDER).await?;
        let address = all.first().context("no replica")?.address;
        let url = format!("http://{address}:2020").parse()?;
        let client = kube::Client::try_from(Config::new(url))?;
        get_json(&client, &format!("/watcher?host={NODE}")).await
    }

    async fn extender(&self, utilization: f64) -> Result<()> {
        eventually("the load of the cluster's node is served", async || {
            let answer = self.load().await?;
            let metrics = &answer["data"]["NodeMetricsMap"][NODE]["metrics"];
            let metrics = metrics.as_array().with_context(|| answer.to_string())?;
            let mut cpu = metrics
                .iter()
                .filter(|it| it["type"] == "CPU" && it["operator"] != "STD");
            let found = cpu.next().and_then(|it| it["value"].as_f64());
            let found = found.with_context(|| answer.to_string())?;
            ensure!(
                (found - 100.0 * utilization).abs() < 1.0,
                "{found} %: {answer}"
            );
            Ok(())
        })
        .await
    }

    async fn extender_refuses(&self) -> Result<()> {
        let logs = "logs -n plimsoll-system -l app.kubernetes.io/name=extender --tail=-1";
        eventually("the extender refuses the store by name", async || {
            let log = kubectl_in(self.sandbox, logs).await?;
            ensure!(
                log.contains(&REFUSAL.replace('"', "\\\"")) || log.contains(REFUSAL),
                "{log}"
            );
            Ok(())
        })
        .await
    }

    /// Output and error of a command that reads the store.
    async fn command(
        &self,
        command: &str,
        matchers: &str,
    ) -> Result<(Option<i32>, String, String)> {
        let (url, namespace) = (&self.metrics.url, &self.own.namespace);
        let matchers = match matchers {
            "" => String::new(),
            some => format!(" --prometheus-matchers {some}"),
        };
        let command = format!("{command} --prometheus-address {url}{matchers} -n {namespace}");
        let output = plimsoll(&self.sandbox.kubeconfig(), &command).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        ))
    }

    async fn scan(&self, matchers: &str, cores: f64) -> Result<()> {
        let (_, printed, errors) = self.command("scan -o json", matchers).await?;
        let scan: Value = serde_json::from_str(&printed).context(errors)?;
        let highest = scan["containers"][0]["cpu"]["highestUsage"].as_str();
        let highest = highest.with_context(|| scan.to_string())?;
        let ratio = highest.parse::<Quantity>()?.to_f64() / cores;
        ensure!((0.95..1.05).contains(&ratio), "{highest} for {cores} cores");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_cluster_of_one_store_has_its_own_numbers() -> Result<()> {
    let sandbox = another("one-store").await?;
    let client = sandbox.client().await?;
    // The release has the definitions.
    let definitions = e2e::repository().join("deploy/crds");
    let kinds = "vpa,vpacheckpoint,ehpa,tsp,substitutes,sizingpolicies,clustersizingpolicies";
    eventually("the kinds can be listed", async || {
        kubectl_in(&sandbox, &format!("get {kinds} -A")).await
    })
    .await?;
    kubectl_in(&sandbox, &format!("delete -k {}", definitions.display())).await?;
    let store = Store {
        own: Namespace::new(client, "one-store").await?,
        metrics: VictoriaMetrics::start(&sandbox.logs_dir()).await?,
        helm: Helm::find().await?.with(&sandbox.kubeconfig()),
        sandbox: &sandbox,
    };
    store
        .own
        .deploy("web", 1, &requests("1", "1Gi"), &json!({}))
        .await?;
    let pod = eventually("the workload has a pod", async || {
        let pods = store.own.pods_of("web").await?;
        Ok(pods.first().context("no pod")?.name_any())
    })
    .await?;
    store.write(&pod).await?;

    for (cluster, cores, depth, utilization) in CLUSTERS {
        let matchers = format!("cluster=\"{cluster}\"");
        store.install(&matchers).await?;
        store.adapter(depth).await?;
        store.extender(utilization).await?;
        store.recommender(cores).await?;
        store.scan(&matchers, cores).await?;
        let (status, ..) = store.command("backtest", &matchers).await?;
        ensure!(status == Some(0), "backtest ends with {status:?}");
    }

    store.install("").await?;
    store.adapter_refuses().await?;
    store.recommender_refuses().await?;
    store.extender_refuses().await?;
    for command in ["scan", "backtest", "report"] {
        let (status, _, errors) = store.command(command, "").await?;
        let is_refused = status == Some(1) && errors.contains(REFUSAL);
        ensure!(is_refused, "{command} ends with {status:?}: {errors}");
    }
    sandbox.down().await
}
