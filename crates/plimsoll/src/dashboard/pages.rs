//! The pages, one read at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response, Sse};
use axum::routing::get;
use jiff::Timestamp;
use maud::{Markup, html};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};

use super::query::ListQuery;
use super::{
    DashboardArgs, changes, fleet, horizontal, nodes, overview, recorded, requests, timeline,
};
use crate::cluster::Cluster;
use crate::explain;
use crate::failure::Failure;
use crate::output::{Document, Table, page};
use crate::prices::Prices;
use crate::severity::Severity;
use crate::subject::is_name;
use crate::usage::{ContainerUsage, read_workload};
use crate::{check, status};

/// Time for which a page is shown again without reading.
const FRESH_FOR: Duration = Duration::from_secs(3);
/// Time for which recorded usage is shown again without reading, and for which the reason for its
/// absence is.
const USAGE_FRESH_FOR: [Duration; 2] = [Duration::from_mins(5), Duration::from_secs(30)];
/// Time limit of reading it. The page is shown without it then.
const USAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which the plot of the week is shown again without reading.
const SUMS_FRESH_FOR: Duration = Duration::from_mins(2);
const MAX_KEPT: usize = 4;
pub(super) const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Pages, and whether they can show one namespace.
const LINKS: [(&str, &str, bool); 5] = [
    ("/", "Overview", true),
    ("/vertical", "Vertical", true),
    ("/horizontal", "Horizontal", true),
    ("/nodes", "Nodes", false),
    ("/health", "Health", false),
];
/// Refreshes the page, unless an element of it has the focus, and copies manifests.
const SCRIPT: &str = include_str!("script.js");
pub(super) const SCRIPT_PATH: &str = "/script.js";

pub(super) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript")], SCRIPT)
}

/// The reader of the pages.
pub(super) enum Visitor {
    /// The one who runs the program.
    OwnComputer,
    /// Without a token.
    Anonymous,
    /// With a token that a proxy sends.
    OfProxy(String),
    User(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Overview(ListQuery),
    Fleet(ListQuery),
    /// `vpa` or `ehpa`, namespace and name.
    Object(&'static str, [String; 2]),
    Horizontal(ListQuery),
    Nodes,
    Health,
}

impl Page {
    fn form(&self) -> Markup {
        match self {
            Self::Overview(query) | Self::Horizontal(query) => query.form(false),
            Self::Fleet(query) => query.form(true),
            Self::Object(..) | Self::Nodes | Self::Health => html! {},
        }
    }

    /// The path, with the namespace that the page shows.
    fn path(&self) -> (&'static str, &str) {
        match self {
            Self::Overview(query) => ("/", &query.namespace),
            Self::Fleet(query) => ("/vertical", &query.namespace),
            Self::Object(_, [namespace, _]) => ("", namespace),
            Self::Horizontal(query) => ("/horizontal", &query.namespace),
            Self::Nodes => ("/nodes", ""),
            Self::Health => ("/health", ""),
        }
    }
}

/// Usage of the containers of a workload, or the reason for its absence.
type Usage = Result<Arc<[ContainerUsage]>, String>;

/// Pages with the times of their reads.
type Kept = VecDeque<(Instant, Page, String)>;

/// Reads of pages at a time by one user, and pages that follow changes: others are read every 30 s.
const READS_OF_USER: usize = 2;
const LIVE_OF_USER: usize = 4;
/// Reads at a time, of all visitors: those of pages, and of usage, which may be large.
static PAGE_READS: Semaphore = Semaphore::const_new(6);
static USAGE_READS: Semaphore = Semaphore::const_new(2);

/// Reads and open streams, which the sessions of one user share.
#[derive(Clone)]
pub(super) struct Turns {
    reads: Arc<Semaphore>,
    live: Arc<Semaphore>,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            reads: Arc::new(Semaphore::new(READS_OF_USER)),
            live: Arc::new(Semaphore::new(LIVE_OF_USER)),
        }
    }

    /// Whether a session, a read or a stream has them.
    pub(super) fn are_used(&self) -> bool {
        Arc::strong_count(&self.reads) > 1 || Arc::strong_count(&self.live) > 1
    }

    #[cfg(test)]
    pub(super) fn are_those_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.reads, &other.reads) && Arc::ptr_eq(&self.live, &other.live)
    }
}

pub(super) struct Pages {
    cluster: Cluster,
    args: DashboardArgs,
    prices: Prices,
    /// Folder of all pages, such as `/TOKEN`.
    folder: String,
    visitor: Visitor,
    turns: Turns,
    /// The plot of the week.
    sums: Mutex<Option<(Instant, Markup)>>,
    /// Usage of the workload that was shown last, or the reason for its absence.
    recorded: Mutex<Option<(Instant, [String; 2], Usage)>>,
    /// The latest pages. Locked while one is read.
    kept: Arc<Mutex<Kept>>,
}

impl Pages {
    pub(super) fn new(
        cluster: Cluster,
        args: &DashboardArgs,
        prices: &Prices,
        folder: &str,
        (visitor, turns): (Visitor, Turns),
    ) -> Self {
        Self {
            cluster,
            args: args.clone(),
            prices: prices.clone(),
            folder: folder.to_owned(),
            visitor,
            turns,
            sums: Mutex::default(),
            recorded: Mutex::default(),
            kept: Arc::default(),
        }
    }

    pub(super) fn router(self) -> Router {
        let list = |page: fn(ListQuery) -> Page| {
            move |State(pages): State<Arc<Self>>, Query(query): Query<ListQuery>| {
                pages.respond(page(query))
            }
        };
        let object = |kind: &'static str| {
            move |State(pages): State<Arc<Self>>, Path(name): Path<[String; 2]>| {
                pages.respond(Page::Object(kind, name))
            }
        };
        let of_cluster =
            |page: Page| move |State(pages): State<Arc<Self>>| pages.respond(page.clone());
        let path = |page: &str| format!("{}{page}", self.folder);
        Router::new()
            .route(
                &path("/"),
                get(list(|it| Page::Overview(it.of_namespace()))),
            )
            .route(&path("/vertical"), get(list(Page::Fleet)))
            .route(&path("/vpa/{namespace}/{name}"), get(object("vpa")))
            .route(&path("/ehpa/{namespace}/{name}"), get(object("ehpa")))
            .route(
                &path("/horizontal"),
                get(list(|it| Page::Horizontal(it.of_namespace()))),
            )
            .route(&path("/changes"), get(Self::changes))
            .route(&path("/nodes"), get(of_cluster(Page::Nodes)))
            .route(&path("/health"), get(of_cluster(Page::Health)))
            .route(&path(SCRIPT_PATH), get(script))
            .with_state(Arc::new(self))
    }

    async fn changes(State(pages): State<Arc<Self>>, Query(query): Query<ListQuery>) -> Response {
        if !query.namespace().is_none_or(is_name) {
            return StatusCode::BAD_REQUEST.into_response();
        }
        let events = match Arc::clone(&pages.turns.live).try_acquire_owned() {
            Ok(permit) => changes::events(&pages.cluster, query.namespace(), permit).await,
            Err(_) => None,
        };
        // No contents end the attempts of the browser.
        events.map_or_else(
            || StatusCode::NO_CONTENT.into_response(),
            Sse::into_response,
        )
    }

    async fn respond(self: Arc<Self>, page: Page) -> Response {
        let mut kept = Arc::clone(&self.kept).lock_owned().await;
        kept.retain(|(at, _, _)| at.elapsed() < FRESH_FOR);
        if let Some((_, _, html)) = kept.iter().find(|(_, known, _)| *known == page) {
            return Html(html.clone()).into_response();
        }
        match self.read_in_time(&page, kept).await {
            Ok(html) => Html(html).into_response(),
            Err(error) => {
                let document = Document {
                    notes: vec![format!("{error:#}")],
                    ..Document::titled("This page cannot be shown")
                };
                let html = self.html(&document, &html! {}, &page);
                (StatusCode::BAD_GATEWAY, Html(html)).into_response()
            }
        }
    }

    /// Reads on a thread of its own: these reads cannot move between threads. It has the lock, also when the
    /// browser does not wait for it any more, so that a visitor has one such thread.
    async fn read_in_time(
        self: &Arc<Self>,
        page: &Page,
        mut kept: OwnedMutexGuard<Kept>,
    ) -> anyhow::Result<String> {
        let server = &self.cluster.server;
        let late = || anyhow!("the API server {server} needs more than a minute for this page");
        // Who has more sessions than these waits for himself, and holds up no others.
        let own = Arc::clone(&self.turns.reads).acquire_owned();
        let own = tokio::time::timeout(READ_TIMEOUT, own).await;
        let own = own.map_err(|_| late())??;
        let (pages, page, runtime) = (Arc::clone(self), page.clone(), Handle::current());
        let began = Instant::now();
        let reading = tokio::task::spawn_blocking(move || {
            let _own = own;
            let read = tokio::time::timeout(READ_TIMEOUT, async {
                let _turn = PAGE_READS.acquire().await?;
                pages.read(&page).await
            });
            let read = runtime.block_on(read);
            if let Ok(Ok(html)) = &read {
                kept.truncate(MAX_KEPT - 1);
                kept.push_front((began, page, html.clone()));
            }
            read
        });
        reading.await?.unwrap_or_else(|_| Err(late()))
    }

    async fn read(&self, page: &Page) -> anyhow::Result<String> {
        let (_, namespace) = page.path();
        ensure!(
            namespace.is_empty() || is_name(namespace),
            "namespace: {namespace:?} is not a name"
        );
        match page {
            Page::Overview(query) => {
                let (cluster, prices) = (&self.cluster, &self.prices);
                // Rights of the program are no matter of those without a token.
                let is_known = !matches!(self.visitor, Visitor::Anonymous);
                let system_namespace = is_known.then(|| self.system_namespace());
                let read = overview::read(cluster, system_namespace, query, prices);
                let overview = read.await?;
                let plot = if query.namespace.is_empty() {
                    self.sums().await
                } else {
                    html! {}
                };
                let body = overview.html(prices, &plot, Timestamp::now());
                Ok(self.html(&Document::titled("Overview"), &body, page))
            }
            Page::Nodes => {
                let body = nodes::read(&self.cluster).await?;
                Ok(self.html(&Document::titled("Nodes"), &body, page))
            }
            Page::Fleet(query) => {
                let read = fleet::read(&self.cluster, query, fleet::PAGE, &self.prices);
                let fleet = read.await?;
                let document = fleet.document(&self.prices);
                Ok(self.html(&document, &fleet.next_page(query), page))
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
                    (Ok(usage), "vpa") => {
                        recorded::vertical(usage, &explained.recommendations, &explained.marks)
                    }
                    (Ok(usage), _) => recorded::horizontal(usage),
                    (Err(reason), _) => {
                        let note = format!("Usage is not shown: {reason}.");
                        document.notes.push(note);
                        html! {}
                    }
                };
                let steps = requests::steps(&mut document);
                let details = html! {
                    (steps)
                    (requests::yaml(&explained.recommendations))
                    (requests::forecasts(&explained.forecasts))
                    (usage)
                    (timeline::html(&explained.marks, Timestamp::now()))
                };
                Ok(self.html(&document, &details, page))
            }
            Page::Horizontal(query) => {
                let document = horizontal::read(&self.cluster, query.namespace()).await?;
                Ok(self.html(&document, &html! {}, page))
            }
            Page::Health => {
                let mut document = status::read(&self.cluster, self.system_namespace()).await?;
                "Health".clone_into(&mut document.title);
                let findings = check::all(&self.cluster, self.system_namespace()).await?;
                document.tables.insert(0, findings_table(&findings));
                Ok(self.html(&document, &html! {}, page))
            }
        }
    }

    fn system_namespace(&self) -> &str {
        &self.args.installation.system_namespace
    }

    /// The plot of the last week.
    async fn sums(&self) -> Markup {
        let mut kept = self.sums.lock().await;
        if let Some((at, plot)) = &*kept
            && at.elapsed() < SUMS_FRESH_FOR
        {
            return plot.clone();
        }
        let read = tokio::time::timeout(USAGE_TIMEOUT, async {
            let _turn = USAGE_READS.acquire().await;
            overview::over_a_week(&self.args.prometheus, &self.cluster).await
        });
        let late =
            || html! { p.note { "CPU over time is not shown: Prometheus needs more than 20 s." } };
        let plot = read.await.unwrap_or_else(|_| late());
        *kept = Some((Instant::now(), plot.clone()));
        plot
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
        let args = &self.args.prometheus;
        let days = recorded::HISTORY_DAYS;
        let turn = tokio::time::timeout(USAGE_TIMEOUT, USAGE_READS.acquire()).await;
        let _turn = turn.map_err(|_| "other pages read usage at this time".to_owned())?;
        let read = read_workload(args, &self.cluster, (namespace, workload), days);
        let usage: Usage = match tokio::time::timeout(USAGE_TIMEOUT, read).await {
            Ok(read) => read.map(Arc::from).map_err(|error| format!("{error:#}")),
            Err(_) => Err("Prometheus needs more than 20 s".to_owned()),
        };
        // That of a hundred visitors would need gigabytes.
        if matches!(self.visitor, Visitor::OwnComputer) || usage.is_err() {
            *recorded = Some((Instant::now(), id.map(str::to_owned), usage.clone()));
        }
        usage
    }

    /// A page with its form above the document, and the details below that.
    fn html(&self, document: &Document, details: &Markup, shown: &Page) -> String {
        let folder = &self.folder;
        let (path, namespace) = shown.path();
        let parameter = |has_namespace: bool| match namespace {
            "" => String::new(),
            _ if !has_namespace => String::new(),
            _ => format!("?namespace={namespace}"),
        };
        let follows = !matches!(shown, Page::Nodes | Page::Health);
        let changes = follows.then(|| format!("{folder}/changes?namespace={namespace}"));
        let navigation = html! {
            nav aria-label="Pages" {
                @for (link, name, has_namespace) in LINKS {
                    a href={ (folder) (link) (parameter(has_namespace)) } aria-current=[(link == path).then_some("page")] { (name) } " "
                }
                span { (self.cluster.server) } " "
                label { input #refresh type="checkbox" checked data-changes=[changes]; " live" }
                @match &self.visitor {
                    Visitor::OwnComputer => {}
                    Visitor::Anonymous => { a href="/login" { "Log in" } }
                    Visitor::OfProxy(user) => { span { (user) } }
                    Visitor::User(user) => {
                        form action="/logout" method="post" { button { "Log out " (user) } }
                    }
                }
            }
            script src={ (folder) (SCRIPT_PATH) } defer {}
        };
        page(
            &document.title,
            &navigation,
            &html! { (shown.form()) (document.html()) (details) },
        )
    }
}

/// Errors and warnings first, without the checks that passed.
fn findings_table(findings: &[check::Finding]) -> Table {
    let count = |status| findings.iter().filter(|it| it.status == status).count();
    let (passed, skipped) = (count(check::Status::Ok), count(check::Status::Skipped));
    let title = format!(
        "Checks ({passed} of {} passed, {skipped} not made)",
        findings.len()
    );
    let faults = findings
        .iter()
        .filter(|it| it.status >= check::Status::Warning);
    let mut faults: Vec<&check::Finding> = faults.collect();
    faults.sort_by_key(|it| std::cmp::Reverse(it.status));
    let columns = "expected=title|found=message|what to do=hint|severity=status";
    let mut table = Table::of(title, columns, &faults);
    for (row, finding) in table.rows.iter_mut().zip(faults) {
        let is_error = finding.status == check::Status::Error;
        row.severity = Some(if is_error {
            Severity::Critical
        } else {
            Severity::Warning
        });
    }
    table
}
