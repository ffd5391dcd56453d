//! The dashboard in the cluster: visitors see what their own tokens allow, and nothing without one.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::dashboard_client::{DashboardClient, HOST, ORIGIN, viewer};
use e2e::{Namespace, PATIENCE, Signal, eventually, program, shared};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::arrange;

struct Dashboard {
    child: Child,
    client: DashboardClient,
    /// All that it has printed.
    log: Arc<Mutex<String>>,
}

impl Dashboard {
    async fn start(kubeconfig: &Path, public: &str) -> Result<Self> {
        let config = format!(
            "--config={{host: plimsoll.example.com, port: 0, publicNamespaces: [{public}]}}"
        );
        let mut child = Command::new(program("plimsoll")?)
            .args(["dashboard", &config])
            .env("KUBECONFIG", kubeconfig)
            .env("PLIMSOLL_LISTEN_IP", "127.0.0.1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("an output")?).lines();
        let first = timeout(PATIENCE, lines.next_line()).await??;
        let first = first.context("it printed no address")?;
        let address = first.rsplit(' ').next().context("an address")?.parse()?;
        let log = Arc::new(Mutex::new(first));
        let written = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                written
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&line);
            }
        });
        Ok(Self {
            child,
            client: DashboardClient::Direct(address),
            log,
        })
    }
}
/// The page of a visitor without a session.
pub(super) async fn first_page(kubeconfig: &Path) -> Result<String> {
    let dashboard = Dashboard::start(kubeconfig, "shop").await?;
    let page = dashboard.client.check("GET /", &[HOST], 401).await?;
    let (_, page) = page.split_once("\r\n\r\n").context("a body")?;
    Ok(page.to_owned())
}

/// Namespaces with a workload and its VPA object: of the visitor, of others, and one that is shown without a token.
struct Visit<'a> {
    dashboard: &'a DashboardClient,
    names: [&'a str; 3],
    token: String,
}

fn list(namespace: &str) -> String {
    format!("GET /vertical?namespace={namespace}")
}

fn object(namespace: &str) -> String {
    format!("GET /vpa/{namespace}/web")
}

impl Visit<'_> {
    async fn without_a_token(&self) -> Result<()> {
        let (dashboard, [own, other, open]) = (self.dashboard, self.names);
        let (mine, theirs) = (list(own), list(other));
        let health = format!("GET /health?namespace={open}");
        for line in [
            "GET /",
            "GET /horizontal",
            "GET /nodes",
            &health,
            &mine,
            &theirs,
        ] {
            let page = dashboard.check(line, &[HOST], 401).await?;
            ensure!(
                page.contains("Your token") && !page.contains("/web"),
                "{page}"
            );
            for header in [
                "x-frame-options: DENY",
                "frame-ancestors 'none'",
                "cache-control: no-store",
            ] {
                ensure!(page.contains(header), "{header} is not in {page}");
            }
        }
        let page = dashboard.check(&list(open), &[HOST], 200).await?;
        ensure!(page.contains(&format!("{open}/web")), "{page}");
        let overview = format!("GET /?namespace={open}");
        for line in [&overview, &object(open)] {
            let page = dashboard.check(line, &[HOST], 200).await?;
            ensure!(page.contains("href=\"/login\""), "{page}");
        }
        for line in [
            object(other),
            format!("GET /?namespace={other}&namespace={open}"),
            format!("GET /vpa/{open}%2f..%2f{other}/web"),
            format!("GET /?after=a&namespace={other}"),
        ] {
            dashboard.check(&line, &[HOST], 401).await?;
        }
        let twice = format!("GET /?namespace={open}&namespace={other}");
        dashboard.check(&twice, &[HOST], 400).await?;
        Ok(())
    }

    async fn attack(&self) -> Result<()> {
        let (dashboard, token) = (self.dashboard, &self.token);
        let form = format!("token={token}");
        for headers in [
            &[HOST][..],
            &[HOST, "Origin: null"],
            &[HOST, "Origin: https://evil.example.com"],
            &[HOST, "Origin: http://plimsoll.example.com"],
        ] {
            for line in ["POST /login", "POST /logout"] {
                let response = dashboard.send(line, headers, &form).await?;
                ensure!(response.starts_with("HTTP/1.1 403 "), "{response}");
            }
        }
        let rebound = ["Host: evil.example.com"];
        dashboard.check("GET /", &rebound, 421).await?;
        dashboard.check("DELETE /", &[HOST, ORIGIN], 405).await?;
        for (form, status) in [
            ("token=a.b.c", "401"),
            ("token=", "400"),
            ("token=a%0d%0ab", "400"),
            ("token=%3Cscript%3E", "401"),
            (&*format!("token={}", "a".repeat(17 << 10)), "413"),
        ] {
            let response = dashboard.send("POST /login", &[HOST, ORIGIN], form).await?;
            let expected = format!("HTTP/1.1 {status} ");
            ensure!(
                response.starts_with(&expected) && !response.contains("<script>"),
                "{response}"
            );
        }
        let forged = format!("Cookie: __Host-plimsoll={}", "0".repeat(32));
        let mine = list(self.names[0]);
        dashboard.check(&mine, &[HOST, &forged], 401).await?;
        let attempts = (0..50).map(|number| async move {
            let form = format!("token=wrong-{number}");
            dashboard.send("POST /login", &[HOST, ORIGIN], &form).await
        });
        for response in join_all(attempts).await {
            let response = response?;
            ensure!(response.starts_with("HTTP/1.1 401 "), "{response}");
        }
        Ok(())
    }

    /// The pages of a visitor by this line of a header.
    async fn with_a_token(&self, header: &str) -> Result<Vec<String>> {
        let (dashboard, [own, other, _]) = (self.dashboard, self.names);
        let list_of_own = dashboard.check(&list(own), &[HOST, header], 200).await?;
        for text in [&format!("{own}/web"), "system:serviceaccount:"] {
            ensure!(list_of_own.contains(text), "{list_of_own}");
        }
        let mut pages = vec![list_of_own];
        pages.push(dashboard.check(&object(own), &[HOST, header], 200).await?);
        let overview = format!("GET /?namespace={own}");
        let overview = dashboard.check(&overview, &[HOST, header], 200).await?;
        for text in ["What waits", "DisruptionBudget", "Health is not known: "] {
            ensure!(overview.contains(text), "{text} is not in {overview}");
        }
        pages.push(overview);
        for line in ["GET /", "GET /nodes", &list(other), &object(other)] {
            let acting = "Impersonate-User: system:admin";
            let page = dashboard.check(line, &[HOST, header, acting], 502).await?;
            ensure!(
                page.contains("forbidden") && !page.contains("<td>"),
                "{page}"
            );
            pages.push(page);
        }
        let everywhere = dashboard.check("GET /", &[HOST, header], 502).await?;
        ensure!(everywhere.contains("name=\"namespace\""), "{everywhere}");
        Ok(pages)
    }
}

#[tokio::test]
async fn visitors_see_what_their_tokens_allow_and_nothing_without() -> Result<()> {
    let sandbox = shared().await?;
    let client = sandbox.client().await?;
    let [own, other, open] = [
        Namespace::new(client.clone(), "visitors").await?,
        Namespace::new(client.clone(), "others").await?,
        Namespace::new(client.clone(), "open").await?,
    ];
    for namespace in [&own, &other, &open] {
        arrange(namespace).await?;
    }
    let started = Dashboard::start(&sandbox.kubeconfig(), &open.namespace).await?;
    let dashboard = &started.client;
    let visit = Visit {
        dashboard,
        names: [&own, &other, &open].map(|it| it.namespace.as_str()),
        token: viewer(sandbox, &own).await?,
    };
    visit.without_a_token().await?;
    visit.attack().await?;
    let token = &visit.token;
    let session = eventually("a visitor logs in", async || dashboard.log_in(token).await).await?;
    let bearer = format!("Authorization: Bearer {token}");
    for header in [&session, &bearer] {
        for page in visit.with_a_token(header).await? {
            ensure!(!page.contains(token), "{page}");
        }
    }

    let mine = list(&own.namespace);
    let as_cookie = format!("Cookie: __Host-plimsoll=bearer {token}");
    dashboard.check(&mine, &[HOST, &as_cookie], 401).await?;
    let wrong = "Authorization: Bearer wrong";
    dashboard
        .check(&mine, &[HOST, &session, wrong], 401)
        .await?;
    let second = dashboard.log_in(token).await?;
    let log_out = [HOST, ORIGIN, &session];
    dashboard.check("POST /logout", &log_out, 303).await?;
    dashboard.check(&mine, &[HOST, &session], 401).await?;
    dashboard.check(&mine, &[HOST, &second], 200).await?;
    own.delete::<ServiceAccount>("viewer").await?;
    eventually("a token without its account shows nothing", async || {
        let page = dashboard.send(&mine, &[HOST, &second], "").await?;
        ensure!(page.starts_with("HTTP/1.1 502 "), "{page}");
        Ok(())
    })
    .await?;
    let log = started.log.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(
        !log.contains(token) && log.contains("a session of"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn a_stop_waits_for_no_page_that_follows_changes() -> Result<()> {
    let sandbox = shared().await?;
    let open = Namespace::new(sandbox.client().await?, "followed").await?;
    let mut dashboard = Dashboard::start(&sandbox.kubeconfig(), &open.namespace).await?;
    let DashboardClient::Direct(address) = dashboard.client else {
        bail!("it is reached directly");
    };
    let mut stream = TcpStream::connect(address).await?;
    let path = format!("/changes?namespace={}", open.namespace);
    let request = format!("GET {path} HTTP/1.1\r\n{HOST}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    super::Dashboard::read_until(&mut stream, "text/event-stream").await?;
    e2e::signal(dashboard.child.id().context("it runs")?, Signal::TERM)?;
    // A Deployment's pod has 30 seconds, and the stream lasts for 50.
    let status = timeout(Duration::from_secs(30), dashboard.child.wait()).await??;
    ensure!(status.success(), "{status}");
    Ok(())
}
