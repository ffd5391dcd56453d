//! The pages, one read at a time.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::{DashboardArgs, bands, fleet, horizontal, recorded, timeline};
use crate::cluster::Cluster;
use crate::explain;
use crate::failure::Failure;
use crate::output::{Document, Row, Table, escape, page};
use crate::prices::Prices;
use crate::severity::Severity;
use crate::usage::{ContainerUsage, read_workload};
use crate::{check, status};

/// Time for which a page is shown again without reading.
const FRESH_FOR: Duration = Duration::from_secs(3);
/// Time for which recorded usage is shown again without reading, and for which the reason for its
/// absence is.
const USAGE_FRESH_FOR: [Duration; 2] = [Duration::from_mins(5), Duration::from_secs(30)];
/// Time limit of reading it. The page is shown without it then.
const USAGE_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_KEPT: usize = 16;
const READ_TIMEOUT: Duration = Duration::from_mins(1);
const LINKS: [(&str, &str); 3] = [
    ("/", "Vertical"),
    ("/horizontal", "Horizontal"),
    ("/health", "Health"),
];
/// Refreshes the page, unless an element of it has the focus, and copies manifests.
const SCRIPT: &str = include_str!("script.js");

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(super) struct FleetQuery {
    pub(super) namespace: String,
    /// Position in the list, from the page before.
    pub(super) after: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Fleet(FleetQuery),
    /// `vpa` or `ehpa`, namespace and name.
    Object(&'static str, [String; 2]),
    Horizontal,
    Health,
}

/// Usage of the containers of a workload, or the reason for its absence.
type Usage = Result<Arc<[ContainerUsage]>, String>;

pub(super) struct Pages {
    pub(super) cluster: Cluster,
    pub(super) args: DashboardArgs,
    pub(super) prices: Prices,
    /// Folder of all pages, such as `/TOKEN`.
    pub(super) folder: String,
    /// Usage of the workload that was shown last, or the reason for its absence.
    pub(super) recorded: Mutex<Option<(Instant, [String; 2], Usage)>>,
    /// The latest pages. Locked while one is read.
    pub(super) kept: Mutex<VecDeque<(Instant, Page, String)>>,
}

impl Pages {
    pub(super) fn router(self) -> Router {
        let fleet = async |State(pages): State<Arc<Self>>, Query(query): Query<FleetQuery>| {
            pages.respond(Page::Fleet(query)).await
        };
        let object = |kind: &'static str| {
            move |State(pages): State<Arc<Self>>, Path(name): Path<[String; 2]>| {
                pages.respond(Page::Object(kind, name))
            }
        };
        let other = |page: Page| move |State(pages): State<Arc<Self>>| pages.respond(page);
        let script = async || ([(header::CONTENT_TYPE, "text/javascript")], SCRIPT);
        let path = |page: &str| format!("{}{page}", self.folder);
        Router::new()
            .route(&path("/"), get(fleet))
            .route(&path("/vpa/{namespace}/{name}"), get(object("vpa")))
            .route(&path("/ehpa/{namespace}/{name}"), get(object("ehpa")))
            .route(&path("/horizontal"), get(other(Page::Horizontal)))
            .route(&path("/health"), get(other(Page::Health)))
            .route(&path("/script.js"), get(script))
            .with_state(Arc::new(self))
    }

    async fn respond(self: Arc<Self>, page: Page) -> Response {
        let mut kept = self.kept.lock().await;
        kept.retain(|(at, _, _)| at.elapsed() < FRESH_FOR);
        if let Some((_, _, html)) = kept.iter().find(|(_, known, _)| *known == page) {
            return Html(html.clone()).into_response();
        }
        match self.read_in_time(&page).await {
            Ok(html) => {
                kept.truncate(MAX_KEPT - 1);
                kept.push_front((Instant::now(), page, html.clone()));
                Html(html).into_response()
            }
            Err(error) => {
                let document = Document {
                    title: "This page cannot be shown".to_owned(),
                    tables: Vec::new(),
                    notes: vec![format!("{error:#}")],
                    data: serde_json::Value::Null,
                };
                let html = self.html(&document, "", "");
                (StatusCode::BAD_GATEWAY, Html(html)).into_response()
            }
        }
    }

    /// Reads on a thread of its own: these reads cannot move between threads.
    async fn read_in_time(self: &Arc<Self>, page: &Page) -> anyhow::Result<String> {
        let (pages, page, runtime) = (Arc::clone(self), page.clone(), Handle::current());
        let reading = tokio::task::spawn_blocking(move || {
            runtime.block_on(tokio::time::timeout(READ_TIMEOUT, pages.read(&page)))
        });
        let server = &self.cluster.server;
        let late = || anyhow!("the API server {server} needs more than a minute for this page");
        reading.await?.unwrap_or_else(|_| Err(late()))
    }

    async fn read(&self, page: &Page) -> anyhow::Result<String> {
        match page {
            Page::Fleet(query) => {
                let fleet = fleet::read(&self.cluster, query).await?;
                let document = fleet.document(&self.prices);
                Ok(self.html(&document, &fleet.navigation(query), "/"))
            }
            Page::Object(kind, [namespace, name]) => {
                let subject = format!("{kind}/{name}").parse().map_err(Failure::Usage)?;
                let explained =
                    explain::explain(&self.cluster, self.system_namespace(), namespace, &subject)
                        .await?;
                let mut document = explained.document;
                document.title = format!("{namespace}/{name}");
                let usage = self.usage([namespace, &explained.workload]).await;
                let usage = match (&usage, *kind) {
                    (Ok(usage), "vpa") => recorded::vertical(usage, &explained.recommendations),
                    (Ok(usage), _) => recorded::horizontal(usage),
                    (Err(reason), _) => {
                        let note = format!("Usage is not shown: {reason}.");
                        document.notes.push(note);
                        String::new()
                    }
                };
                let details = [
                    bands::bands(&explained.recommendations),
                    bands::forecasts(&explained.forecasts),
                    usage,
                    timeline::html(&explained.marks, Timestamp::now()),
                ];
                Ok(self.html(&document, &details.concat(), ""))
            }
            Page::Horizontal => {
                let document = horizontal::read(&self.cluster).await?;
                Ok(self.html(&document, "", "/horizontal"))
            }
            Page::Health => {
                let mut document = status::read(&self.cluster, self.system_namespace()).await?;
                "Health".clone_into(&mut document.title);
                let findings = check::all(&self.cluster, self.system_namespace()).await?;
                document.tables.insert(0, findings_table(&findings));
                Ok(self.html(&document, "", "/health"))
            }
        }
    }

    fn system_namespace(&self) -> &str {
        &self.args.installation.system_namespace
    }

    async fn usage(&self, id: [&str; 2]) -> Usage {
        let mut recorded = self.recorded.lock().await;
        if let Some((at, known, usage)) = &*recorded
            && *known == id
            && at.elapsed() < USAGE_FRESH_FOR[usize::from(usage.is_err())]
        {
            return usage.clone();
        }
        let [namespace, workload] = id;
        let args = (&self.args.prometheus, &self.args.installation.cluster);
        let days = recorded::HISTORY_DAYS;
        let read = read_workload(args, &self.cluster, (namespace, workload), days);
        let usage: Usage = match tokio::time::timeout(USAGE_TIMEOUT, read).await {
            Ok(read) => read.map(Arc::from).map_err(|error| format!("{error:#}")),
            Err(_) => Err("Prometheus needs more than 20 s".to_owned()),
        };
        *recorded = Some((Instant::now(), id.map(str::to_owned), usage.clone()));
        usage
    }

    fn html(&self, document: &Document, details: &str, path: &str) -> String {
        let mut navigation = String::from("<nav aria-label=\"Pages\">");
        let folder = &self.folder;
        for (link, name) in LINKS {
            let current = " aria-current=\"page\"";
            let current = if link == path { current } else { "" };
            let _ = write!(
                navigation,
                "<a href=\"{folder}{link}\"{current}>{name}</a> "
            );
        }
        let _ = writeln!(
            navigation,
            "<span>{}</span> <label><input type=\"checkbox\" id=\"refresh\" checked> \
             refresh every 30 s</label></nav>\n<script src=\"{folder}/script.js\" defer></script>",
            escape(&self.cluster.server)
        );
        page(document, &navigation, details)
    }
}

/// Errors and warnings first, without the checks that passed.
fn findings_table(findings: &[check::Finding]) -> Table {
    let faults = [
        (check::Status::Error, Severity::Critical),
        (check::Status::Warning, Severity::Warning),
    ];
    let rows = faults.into_iter().flat_map(|(status, severity)| {
        let findings = findings.iter().filter(move |it| it.status == status);
        findings.map(move |finding| Row {
            severity: Some(severity),
            ..Row::plain([
                finding.title.clone(),
                finding.message.clone(),
                finding.hint.clone(),
                severity.as_str().to_owned(),
            ])
        })
    });
    let passed = findings.iter().filter(|it| it.status == check::Status::Ok);
    let passed = passed.count();
    Table::new(
        format!("Checks ({passed} of {} passed)", findings.len()),
        "expected|found|what to do|severity",
        rows,
    )
}
