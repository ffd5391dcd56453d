//! `plimsoll dashboard` as a browser sees it.

mod keyboard;
mod labels;
mod visitors;

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{
    Browser, Namespace, PATIENCE, Scheme, Signal, eventually, plimsoll_prints, program, requests,
    shared, target,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use labels::check_labels;

pub(super) struct Dashboard {
    child: Child,
    host: String,
    token: String,
}

impl Dashboard {
    pub(super) async fn start(kubeconfig: &Path, arguments: &str) -> Result<Self> {
        let mut child = Command::new(program("plimsoll")?)
            .arg("dashboard")
            .args(arguments.split_whitespace())
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("an output")?;
        let mut lines = BufReader::new(output).lines();
        let url = timeout(PATIENCE, lines.next_line()).await??;
        let url = url.context("it printed no address")?;
        let rest = url.strip_prefix("http://").context("a URL")?;
        let (host, token) = rest.split_once('/').context("a path")?;
        let token = token.strip_suffix('/').context("a folder")?;
        Ok(Self {
            child,
            host: host.to_owned(),
            token: token.to_owned(),
        })
    }

    /// Response to a request with these lines of headers.
    async fn request(&self, line: &str, headers: &[String]) -> Result<String> {
        let mut stream = TcpStream::connect(&self.host).await?;
        let headers = headers.join("\r\n");
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut response)).await??;
        Ok(response)
    }

    /// Reads a response that does not end, until a text comes.
    async fn read_until(stream: &mut TcpStream, text: &str) -> Result<()> {
        let (mut found, mut part) = (String::new(), [0; 4096]);
        while !found.contains(text) {
            let length = timeout(PATIENCE, stream.read(&mut part)).await??;
            ensure!(length > 0, "{text:?} is not in {found}");
            found += str::from_utf8(&part[..length])?;
        }
        Ok(())
    }

    fn host(&self) -> String {
        format!("Host: {}", self.host)
    }

    /// The request line of a page.
    fn line(&self, method: &str, path: &str) -> String {
        format!("{method} /{}{path}", self.token)
    }

    pub(super) async fn page(&self, path: &str) -> Result<String> {
        let line = self.line("GET", path);
        let response = self.request(&line, &[self.host()]).await?;
        ensure!(response.starts_with("HTTP/1.1 200 "), "{path}: {response}");
        Ok(response)
    }

    async fn refuses(&self, line: &str, headers: &[String], status: &str) -> Result<()> {
        let response = self.request(line, headers).await?;
        let expected = format!("HTTP/1.1 {status} ");
        ensure!(response.starts_with(&expected), "{line}: {response}");
        Ok(())
    }
}

/// A workload with a VPA object whose recommendation is twice the request, and an EHPA.
async fn arrange(own: &Namespace) -> Result<()> {
    own.deploy("web", 1, &requests("100m", "128Mi"), &json!({}))
        .await?;
    let spec = json!({"targetRef": target("Deployment", "web")});
    own.make::<Vpa>("web", spec).await?;
    let amounts = json!({"cpu": "200m", "memory": "256Mi"});
    let container = json!({
        "containerName": "app", "target": amounts, "lowerBound": amounts, "upperBound": amounts,
        "uncappedTarget": amounts,
    });
    let condition = json!({
        "type": "Applied", "status": "False", "reason": "DisruptionBudget",
        "message": "<script>alert(1)</script>", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let recommendation = json!({"containerRecommendations": [container]});
    let status = json!({"recommendation": recommendation, "conditions": [condition]});
    own.patch_status::<Vpa>("web", &status).await?;
    let spec = json!({
        "scaleTargetRef": target("Deployment", "web"), "minReplicas": 1, "maxReplicas": 3,
        "scaleStrategy": "Preview", "prediction": {"predictionWindowSeconds": 600},
    });
    // No recommender of another test acts on it.
    let annotations = json!({"plimsoll.dev/recommender": "dashboard-test"});
    let ehpa = own
        .make_annotated::<Ehpa>("front", &annotations, spec)
        .await?;
    forecast(own, &ehpa, &annotations).await
}

/// The prediction of an EHPA, with samples of the next hour.
async fn forecast(own: &Namespace, ehpa: &Value, annotations: &Value) -> Result<()> {
    let owner = json!({
        "apiVersion": ehpa["apiVersion"], "kind": ehpa["kind"],
        "name": ehpa["metadata"]["name"], "uid": ehpa["metadata"]["uid"],
    });
    let metadata =
        json!({"name": "ehpa-front", "ownerReferences": [owner], "annotations": annotations});
    let dsp = json!({"sampleInterval": "60s", "historyLength": "3d"});
    let metric = json!({
        "resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
        "algorithm": {"algorithmType": "dsp", "dsp": dsp},
    });
    let spec = json!({
        "predictionMetrics": [metric], "predictionWindowSeconds": 600,
        "targetRef": target("Deployment", "web"),
    });
    own.create::<Prediction>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    let now = Timestamp::now().as_second();
    let samples: Vec<Value> = (1..=60)
        .map(|minute| json!({"value": format!("0.{minute:02}"), "timestamp": now + 60 * minute}))
        .collect();
    let predicted = json!({
        "resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": samples}],
    });
    let status = json!({"predictionMetrics": [predicted]});
    own.patch_status::<Prediction>("ehpa-front", &status)
        .await?;
    Ok(())
}

#[tokio::test]
async fn pages_show_the_cluster_to_the_browser_with_the_token_only() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "dashboard").await?;
    arrange(&own).await?;
    let mut dashboard = Dashboard::start(&sandbox.kubeconfig(), "").await?;
    let namespace = own.namespace.as_str();

    eventually("the list has request and recommendation", async || {
        let list = format!("/vertical?namespace={namespace}&search=disruptionbudget");
        let page = dashboard.page(&list).await?;
        for text in [
            &format!("<a href=\"vpa/{namespace}/web\">{namespace}/web</a>"),
            "<td class=\"number\">100m</td><td class=\"number\">200m</td>",
            "DisruptionBudget",
            "<td class=\"critical\">",
        ] {
            ensure!(page.contains(text), "{text:?} is not in {page}");
        }
        Ok(())
    })
    .await?;
    let list = format!("/vertical?namespace={namespace}&search=other");
    let page = dashboard.page(&list).await?;
    ensure!(!page.contains("vpa/"), "{page}");
    let page = dashboard.page(&format!("/?namespace={namespace}")).await?;
    for text in [
        "Your container requests 0.1 cores",
        &format!("<a href=\"vertical?namespace={namespace}&amp;search=DisruptionBudget\">"),
        &format!("<a href=\"vertical?namespace={namespace}\">"),
        "<h2>What was done</h2>",
    ] {
        ensure!(page.contains(text), "{text:?} is not in {page}");
    }
    let page = dashboard.page("/nodes").await?;
    ensure!(
        page.contains("CPU requested") && page.contains("--heat:"),
        "{page}"
    );
    let page = dashboard.page(&format!("/vpa/{namespace}/web")).await?;
    let escaped = "&lt;script&gt;alert(1)";
    ensure!(
        page.contains(escaped) && !page.contains("<script>"),
        "{page}"
    );
    ensure!(
        page.contains("Time line") && page.contains("cpu: 200m"),
        "{page}"
    );
    let page = dashboard.page("/horizontal").await?;
    let link = format!("<a href=\"ehpa/{namespace}/front\">");
    ensure!(page.contains(&link) && page.contains("Preview"), "{page}");
    let page = dashboard.page(&format!("/ehpa/{namespace}/front")).await?;
    for text in [
        "DryRun",
        "Forecasts of the workload",
        "<g class=\"advice\"><path class=\"line\" d=\"M",
    ] {
        ensure!(page.contains(text), "{text:?} is not in {page}");
    }
    let page = dashboard.page("/health").await?;
    ensure!(
        page.contains("Checks (") && page.contains("Metrics APIs"),
        "{page}"
    );
    let script = dashboard.page("/script.js").await?;
    ensure!(script.contains("text/javascript"), "{script}");

    let host = dashboard.host();
    let missing = format!("/vpa/{namespace}/missing");
    for (line, host, status) in [
        (dashboard.line("GET", &missing), &*host, "502"),
        (dashboard.line("GET", "/other"), &host, "404"),
        ("GET /".to_owned(), &host, "403"),
        (dashboard.line("GET", "/"), "Host: example.com", "421"),
        (dashboard.line("POST", "/"), &host, "405"),
    ] {
        dashboard.refuses(&line, &[host.to_owned()], status).await?;
    }
    let page = dashboard.page("/horizontal").await?;
    ensure!(page.contains("default-src 'none'"), "{page}");
    ensure!(!page.contains("set-cookie"), "{page}");

    let pid = dashboard.child.id().context("it runs")?;
    e2e::signal(pid, Signal::INT)?;
    let status = timeout(PATIENCE, dashboard.child.wait()).await??;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test]
async fn changes_of_objects_are_events_for_the_pages() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "live").await?;
    arrange(&own).await?;
    let dashboard = Dashboard::start(&sandbox.kubeconfig(), "").await?;
    let path = format!("/changes?namespace={}", own.namespace);
    let request = format!(
        "{} HTTP/1.1\r\nConnection: close\r\n{}\r\n\r\n",
        dashboard.line("GET", &path),
        dashboard.host()
    );
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(&dashboard.host).await?;
        stream.write_all(request.as_bytes()).await?;
        Dashboard::read_until(&mut stream, "text/event-stream").await?;
        open.push(stream);
    }
    let condition = json!({
        "type": "Applied", "status": "True", "reason": "Applied", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"conditions": [condition]});
    own.patch_status::<Vpa>("web", &status).await?;
    for stream in &mut open {
        Dashboard::read_until(stream, "data: changed").await?;
    }
    let host = [dashboard.host()];
    for (path, status) in [(&*path, "204"), ("/changes?namespace=a%2fb", "400")] {
        let line = dashboard.line("GET", path);
        dashboard.refuses(&line, &host, status).await?;
    }
    drop(open);
    eventually("the places are free again", async || {
        let mut stream = TcpStream::connect(&dashboard.host).await?;
        stream.write_all(request.as_bytes()).await?;
        Dashboard::read_until(&mut stream, "text/event-stream").await
    })
    .await
}

#[tokio::test]
async fn a_browser_shows_the_pages_without_a_message_on_its_console() -> Result<()> {
    let Some(browser) = Browser::find().await? else {
        return Ok(());
    };
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "browser").await?;
    arrange(&own).await?;
    let dashboard = Dashboard::start(&sandbox.kubeconfig(), "").await?;
    let namespace = own.namespace.as_str();
    for (path, text) in [
        ("/", "What waits"),
        ("/vertical", "VPA objects"),
        ("/nodes", "memory requested"),
        (&*format!("/vpa/{namespace}/web"), "Requests as YAML"),
        (
            &*format!("/ehpa/{namespace}/front"),
            "Forecasts of the workload",
        ),
        ("/horizontal", "HPAs"),
        ("/health", "Metrics APIs"),
    ] {
        let url = format!("http://{}/{}{path}", dashboard.host, dashboard.token);
        let page = browser.open(&url).await?;
        ensure!(page.contains(text), "{text:?} is not in {page}");
        check_labels(&page)?;
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("report.html");
    let report = format!("report --sample -f {}", file.display());
    plimsoll_prints(&sandbox.kubeconfig(), &report).await?;
    let page = browser.open_file(&file).await?;
    check_labels(&page)
}

#[tokio::test]
async fn pages_are_accessible_at_every_width_and_in_both_themes() -> Result<()> {
    let Some(browser) = Browser::find().await? else {
        return Ok(());
    };
    let Some(axe) = browser.axe().await? else {
        return Ok(());
    };
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "axe").await?;
    arrange(&own).await?;
    let dashboard = Dashboard::start(&sandbox.kubeconfig(), "").await?;
    let namespace = own.namespace.as_str();
    let kubeconfig = sandbox.kubeconfig();
    let report = plimsoll_prints(&kubeconfig, "report --sample -f -").await?;
    let first = visitors::first_page(&kubeconfig).await?;
    let mut pages = vec![
        ("report".to_owned(), report),
        ("first page".to_owned(), first),
    ];
    for path in [
        "/".to_owned(),
        format!("/?namespace={namespace}"),
        "/nodes".to_owned(),
        format!("/vertical?namespace={namespace}&search=web"),
        format!("/vpa/{namespace}/web"),
        format!("/ehpa/{namespace}/front"),
        "/horizontal".to_owned(),
        "/health".to_owned(),
    ] {
        let page = dashboard.page(&path).await?;
        let (_, page) = page.split_once("\r\n\r\n").context("a body")?;
        pages.push((path, page.to_owned()));
    }
    let widths = [400, 1280, 2560];
    let mut faults = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let wrong = "<html><body><img src=\"a\"><pre>wide</pre></body></html>";
        let reports = browser.judge(&axe, wrong, &widths, scheme).await?;
        ensure!(
            reports.iter().all(|it| !it.violations.is_empty()),
            "{reports:?}"
        );
        for (path, page) in &pages {
            for report in browser.judge(&axe, page, &widths, scheme).await? {
                let is_dark = matches!(scheme, Scheme::Dark);
                ensure!(
                    report.passes > 10 && report.is_dark == is_dark,
                    "{path}: {report:?}"
                );
                if report.contents > report.frame || !report.violations.is_empty() {
                    faults.push(format!("{path}, {scheme:?}: {report:?}"));
                }
            }
        }
    }
    ensure!(faults.is_empty(), "{faults:#?}");
    Ok(())
}
