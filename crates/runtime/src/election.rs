//! One candidate's reads and writes of the Lease. The rules are in [`crate::lease`].

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, StreamExt as _};
use http::StatusCode;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams, WatchEvent, WatchParams};
use prometheus::IntGauge;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::client::NoAnswer;
use crate::leading::Leading;
use crate::lease::{self, Action, Timings, decide, held, released};

/// Conflicting writes in one attempt before it counts as failed.
const MAX_CONFLICTS: u32 = 3;

/// How long a leaving leader tries to give the lease away.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Wants to lead under one name.
pub(crate) struct Candidate {
    api: Api<Lease>,
    name: String,
    me: String,
    annotations: BTreeMap<String, String>,
    timings: Timings,
    /// The lease as last read or written, and since when its content has been that.
    seen: Option<Lease>,
    unchanged_since: Instant,
    /// A write of ours was sent and may have arrived, whatever became of its answer.
    perhaps_held: bool,
    changes: Option<Changes>,
}

enum Step {
    /// The lease is ours, from the moment at which the request that made it so was sent.
    Held { since: Instant },
    /// Another's, for at least this long unless it is released.
    Theirs { wait: Duration },
}

impl Candidate {
    pub(crate) fn new(api: Api<Lease>, name: String, me: String, timings: Timings) -> Self {
        let unchanged_since = now();
        let annotations = BTreeMap::new();
        Self { api, name, me, annotations, timings, seen: None, unchanged_since, perhaps_held: false, changes: None }
    }

    /// The same; while it holds the lease, that has these annotations beside others.
    pub(crate) fn annotating(self, annotations: BTreeMap<String, String>) -> Self {
        Self { annotations, ..self }
    }

    /// Takes the lease, runs `work` while it lasts, and begins again when it is lost; ends when `work` returns.
    pub(crate) async fn lead<W>(
        mut self,
        shutdown: &CancellationToken,
        status: &IntGauge,
        work: &mut impl FnMut(Leading) -> W,
    ) -> anyhow::Result<()>
    where
        W: Future<Output = anyhow::Result<()>>,
    {
        loop {
            tracing::info!(lease = self.name, identity = self.me, "waiting for leadership");
            let Some(since) = shutdown.run_until_cancelled(self.acquire()).await else {
                self.release().await;
                return Ok(());
            };
            tracing::info!(lease = self.name, "leading");
            status.set(1);
            let leading = Leading::new(self.term(), Some(since + self.timings.renew_deadline));
            let enough = CancellationToken::new();
            // In a task of its own: work that computes for long must not keep the lease from being renewed, or its loss
            // from being told.
            let mut holding =
                AbortOnDropHandle::new(tokio::spawn(self.hold_until(enough.clone(), since, leading.clone())));
            let ended = tokio::select! {
                ended = work(leading.clone()) => {
                    let is_lost = leading.lost().is_cancelled();
                    enough.cancel();
                    self = holding.await?;
                    // Work may end well because its term is over, and be seen to before the candidate is back.
                    (!is_lost || ended.is_err()).then_some(ended)
                }
                candidate = &mut holding => {
                    self = candidate?;
                    None
                }
            };
            status.set(0);
            if let Some(ended) = ended {
                self.release().await;
                return ended;
            }
        }
    }

    async fn hold_until(mut self, enough: CancellationToken, since: Instant, leading: Leading) -> Self {
        enough.run_until_cancelled(self.hold(since, &leading)).await;
        leading.end();
        self
    }

    /// Returns once the lease is ours, with the time at which the request that took it was sent.
    async fn acquire(&mut self) -> Instant {
        let mut said = None;
        // What was known in an earlier term may be old.
        self.changes = None;
        let mut known = self.refresh().await;
        loop {
            let step = match known {
                Ok(()) => self.step(false).await,
                Err(error) => Err(error),
            };
            let wait = match step {
                Ok(Step::Held { since }) => return since,
                Ok(Step::Theirs { wait }) => {
                    said = None;
                    wait
                }
                Err(error) => {
                    let error = error.to_string();
                    if said.as_ref() != Some(&error) {
                        tracing::warn!(lease = self.name, %error, "cannot take the lease; trying on");
                    }
                    said = Some(error);
                    Duration::MAX
                }
            };
            // client-go's jitter: candidates that start together do not ask together.
            let pause = self.timings.retry_period.mul_f64(1.0 + 1.2 * rand::random::<f64>());
            known = match tokio::time::timeout(pause.min(wait), self.next_change()).await {
                Ok(lease) => {
                    self.saw(lease);
                    Ok(())
                }
                Err(_) => self.refresh().await,
            };
        }
    }

    /// Renews until the lease is lost; then returns, at the latest when the renew deadline is over.
    async fn hold(&mut self, mut since: Instant, leading: &Leading) {
        let Timings { renew_deadline, retry_period, .. } = self.timings;
        loop {
            let attempt = async {
                tokio::time::sleep(retry_period).await;
                self.step(true).await
            };
            let attempt = tokio::select! {
                biased;
                () = tokio::time::sleep_until((since + renew_deadline).into()) => {
                    tracing::error!(lease = self.name, ?renew_deadline, "leadership lost: not renewed in time");
                    return;
                }
                attempt = attempt => attempt,
            };
            match attempt {
                Ok(Step::Held { since: sent }) => {
                    since = sent;
                    leading.extend(since + renew_deadline);
                }
                Ok(Step::Theirs { .. }) => {
                    tracing::error!(lease = self.name, "leadership lost: the lease is no longer ours");
                    return;
                }
                Err(error) => tracing::warn!(lease = self.name, %error, "cannot renew the lease"),
            }
        }
    }

    /// Does what the rules say about the lease as last seen; reads it again when a write shows that it has changed.
    async fn step(&mut self, holding: bool) -> kube::Result<Step> {
        let mut conflicts = 0;
        loop {
            let spec = self.seen.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
            let since = now();
            let action = decide(spec.as_ref(), self.unchanged_since, since, &self.me, self.timings.lease_duration);
            let written = match action {
                Action::Wait(wait) => return Ok(Step::Theirs { wait }),
                // Whoever gave the lease away while we held it meant another to lead.
                Action::Take if holding => return Ok(Step::Theirs { wait: Duration::ZERO }),
                Action::Create => {
                    let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                    self.write(metadata, held(None, &self.me, self.timings.lease_duration, Timestamp::now()), false)
                        .await
                }
                Action::Take | Action::Renew => {
                    let metadata = self.seen.as_ref().map(|lease| lease.metadata.clone()).unwrap_or_default();
                    let spec = held(spec.as_ref(), &self.me, self.timings.lease_duration, Timestamp::now());
                    self.write(metadata, spec, true).await
                }
            };
            match written {
                Ok(()) => return Ok(Step::Held { since }),
                Err(error) if conflicts < MAX_CONFLICTS && is_outdated(&error) => {
                    conflicts += 1;
                    self.refresh().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates or replaces the lease; the resource version in `metadata` makes a write to a changed lease fail.
    async fn write(&mut self, mut metadata: ObjectMeta, spec: LeaseSpec, exists: bool) -> kube::Result<()> {
        metadata.annotations.get_or_insert_default().extend(self.annotations.clone());
        let lease = Lease { metadata, spec: Some(spec) };
        self.perhaps_held = true;
        let params = PostParams::default();
        let written = if exists {
            answer(self.timings, self.api.replace(&self.name, &params, &lease)).await?
        } else {
            answer(self.timings, self.api.create(&params, &lease)).await?
        };
        self.saw(Some(written));
        Ok(())
    }

    /// The number of the term that the lease as last seen stands for.
    fn term(&self) -> u64 {
        let seen = self.seen.as_ref();
        let created = seen.and_then(|lease| lease.metadata.creation_timestamp.as_ref()).map(|time| time.0);
        let transitions = seen.and_then(|lease| lease.spec.as_ref()?.lease_transitions);
        lease::term(created.unwrap_or_default(), transitions.unwrap_or(0))
    }

    async fn refresh(&mut self) -> kube::Result<()> {
        let lease = answer(self.timings, self.api.get_opt(&self.name)).await?;
        self.saw(lease);
        Ok(())
    }

    fn saw(&mut self, lease: Option<Lease>) {
        let spec = |lease: &Option<Lease>| lease.as_ref().and_then(|lease| lease.spec.clone());
        if spec(&lease) != spec(&self.seen) {
            self.unchanged_since = now();
        }
        self.seen = lease;
    }

    /// The lease after its next change, absent when it was deleted. Waits for ever where it cannot be watched.
    async fn next_change(&mut self) -> Option<Lease> {
        loop {
            if self.changes.is_none() {
                self.changes = match &self.seen {
                    Some(seen) => watch(&self.api, &self.name, seen).await,
                    None => None,
                };
            }
            match self.changes.as_mut() {
                None => std::future::pending::<()>().await,
                Some(changes) => match changes.next().await {
                    Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => return Some(lease),
                    Some(Ok(WatchEvent::Deleted(_))) => return None,
                    Some(Ok(WatchEvent::Bookmark(_))) => {}
                    // The caller's next read says whether something is wrong; then a new watch begins.
                    Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                        self.changes = None;
                        std::future::pending::<()>().await;
                    }
                },
            }
        }
    }

    /// Gives the lease away if it is ours, so that the next candidate need not wait for it to run out.
    async fn release(&mut self) {
        if !self.perhaps_held {
            return;
        }
        match tokio::time::timeout(RELEASE_TIMEOUT, self.try_release()).await {
            Ok(Ok(true)) => tracing::info!(lease = self.name, "released the lease"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "cannot release the lease; it will run out"),
            Err(_) => tracing::warn!(lease = self.name, "no answer to releasing the lease; it will run out"),
        }
    }

    async fn try_release(&mut self) -> kube::Result<bool> {
        let mut conflicts = 0;
        loop {
            self.refresh().await?;
            let Some(lease) = self.seen.clone() else { return Ok(false) };
            let spec = lease.spec.unwrap_or_default();
            if spec.holder_identity.as_deref() != Some(&self.me) {
                return Ok(false);
            }
            match self.write(lease.metadata, released(&spec, Timestamp::now()), true).await {
                Ok(()) => {
                    self.perhaps_held = false;
                    return Ok(true);
                }
                // A renewal of ours that was under way has arrived.
                Err(error) if conflicts < MAX_CONFLICTS && is_outdated(&error) => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits no longer than leaves time for a second request before the renew deadline.
async fn answer<T>(timings: Timings, request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let limit = timings.renew_deadline / 2;
    let answer = tokio::time::timeout(limit, request).await;
    answer.unwrap_or_else(|_| Err(kube::Error::Service(NoAnswer(limit).into())))
}

type Changes = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

async fn watch(api: &Api<Lease>, name: &str, seen: &Lease) -> Option<Changes> {
    let version = seen.metadata.resource_version.as_deref()?;
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    match api.watch(&params, version).await {
        Ok(changes) => Some(changes.boxed()),
        Err(error) => {
            tracing::debug!(lease = name, %error, "cannot watch the lease; reading it from time to time instead");
            None
        }
    }
}

/// Someone else wrote, created or deleted the lease since we read it.
fn is_outdated(error: &kube::Error) -> bool {
    let outdated = [StatusCode::CONFLICT.as_u16(), StatusCode::NOT_FOUND.as_u16()];
    matches!(error, kube::Error::Api(status) if outdated.contains(&status.code))
}

/// The runtime's clock, so that it stands still where a test stops it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use axum::Json;
    use axum::body::Body;
    use axum::extract::State;
    use axum::response::{IntoResponse as _, Response};
    use axum::routing::{get, put};
    use tokio::sync::mpsc;
    use tower::ServiceExt as _;

    use super::*;

    /// The part of the API server that keeps one lease; like the real one it refuses writes to an old version.
    #[derive(Clone, Default)]
    struct Leases(Arc<Mutex<Option<Lease>>>);

    impl Leases {
        fn store(&self, mut lease: Lease) -> Json<Lease> {
            let mut stored = self.0.lock().unwrap();
            let version = stored.as_ref().map_or(0, version) + 1;
            lease.metadata.resource_version = Some(version.to_string());
            *stored = Some(lease.clone());
            Json(lease)
        }

        fn holder(&self) -> String {
            self.0.lock().unwrap().clone().and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
        }

        /// A client that fails while `cut` is set, as behind a broken network.
        fn client(&self, cut: Arc<AtomicBool>) -> kube::Client {
            let router = axum::Router::new()
                .route("/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease", put(replace).get(read))
                .route("/apis/coordination.k8s.io/v1/namespaces/ns/leases", get(watch_is_forbidden).post(create))
                .with_state(self.clone());
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let (router, cut) = (router.clone(), cut.load(Ordering::SeqCst));
                async move {
                    if cut {
                        return Err(std::io::Error::other("network is cut"));
                    }
                    Ok(router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {}))
                }
            });
            kube::Client::new(service, "ns")
        }
    }

    fn version(lease: &Lease) -> u64 {
        lease.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or_default()
    }

    fn refuse(code: StatusCode, reason: &str) -> Response {
        let status =
            serde_json::json!({"status": "Failure", "message": code.as_str(), "reason": reason, "code": code.as_u16()});
        (code, Json(status)).into_response()
    }

    async fn read(State(leases): State<Leases>) -> Response {
        let lease = leases.0.lock().unwrap().clone();
        lease.map_or_else(|| refuse(StatusCode::NOT_FOUND, "NotFound"), |lease| Json(lease).into_response())
    }

    async fn create(State(leases): State<Leases>, Json(lease): Json<Lease>) -> Response {
        let exists = leases.0.lock().unwrap().is_some();
        if exists { refuse(StatusCode::CONFLICT, "Conflict") } else { leases.store(lease).into_response() }
    }

    async fn replace(State(leases): State<Leases>, Json(lease): Json<Lease>) -> Response {
        let current = leases.0.lock().unwrap().as_ref().map(version);
        if current == Some(version(&lease)) {
            leases.store(lease).into_response()
        } else {
            refuse(StatusCode::CONFLICT, "Conflict")
        }
    }

    async fn watch_is_forbidden() -> Response {
        refuse(StatusCode::FORBIDDEN, "Forbidden")
    }

    const TIMINGS: Timings = Timings {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// A candidate that reports when its terms begin and end.
    struct Running {
        events: mpsc::UnboundedReceiver<(&'static str, Instant)>,
        shutdown: CancellationToken,
        cut: Arc<AtomicBool>,
    }

    impl Running {
        fn start(leases: &Leases, me: &str) -> Self {
            let (cut, shutdown) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
            let api = Api::namespaced(leases.client(Arc::clone(&cut)), "ns");
            let candidate = Candidate::new(api, "lease".to_owned(), me.to_owned(), TIMINGS);
            let (sender, events) = mpsc::unbounded_channel();
            let stop = shutdown.clone();
            tokio::spawn(async move {
                let status = IntGauge::new("status", "Status.").unwrap();
                let mut work = |leading: Leading| {
                    let (sender, stop) = (sender.clone(), stop.clone());
                    async move {
                        sender.send(("begins", now()))?;
                        let lost = leading.lost().clone();
                        tokio::spawn(async move {
                            lost.cancelled().await;
                            sender.send(("ends", now())).unwrap();
                        });
                        stop.cancelled().await;
                        Ok(())
                    }
                };
                candidate.lead(&stop, &status, &mut work).await
            });
            Self { events, shutdown, cut }
        }

        async fn expect(&mut self, expected: &str) -> Instant {
            let event = tokio::time::timeout(Duration::from_hours(1), self.events.recv()).await;
            let (event, at) = event.expect("an event within an hour of the stopped clock").unwrap();
            assert_eq!(event, expected);
            at
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_lease_is_taken_at_the_next_attempt() {
        let leases = Leases::default();
        let mut first = Running::start(&leases, "first");
        first.expect("begins").await;
        let mut second = Running::start(&leases, "second");
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(leases.holder(), "first");

        first.shutdown.cancel();
        let ended = first.expect("ends").await;
        let begun = second.expect("begins").await;
        assert!(ended <= begun && begun - ended < Duration::from_millis(4_500), "{:?}", begun - ended);
        assert_eq!(leases.holder(), "second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_cut_off_stops_before_another_begins() {
        let leases = Leases::default();
        let mut first = Running::start(&leases, "first");
        first.expect("begins").await;
        let mut second = Running::start(&leases, "second");
        tokio::time::sleep(Duration::from_secs(31)).await;

        let cut = now();
        first.cut.store(true, Ordering::SeqCst);
        let ended = first.expect("ends").await;
        let begun = second.expect("begins").await;
        assert!(ended - cut <= TIMINGS.renew_deadline, "{:?}", ended - cut);
        assert!(begun - ended >= Duration::from_secs(4), "{:?}", begun - ended);
        assert_eq!(leases.holder(), "second");

        // Back on the network, the first waits for its turn and begins a new term.
        first.cut.store(false, Ordering::SeqCst);
        second.shutdown.cancel();
        second.expect("ends").await;
        first.expect("begins").await;
        assert_eq!(leases.holder(), "first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_break_costs_no_leadership() {
        let leases = Leases::default();
        let mut first = Running::start(&leases, "first");
        first.expect("begins").await;
        first.cut.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(7)).await;
        first.cut.store(false, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(first.events.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_computes_for_long_keeps_the_lease() {
        let leases = Leases::default();
        let api = Api::namespaced(leases.client(Arc::default()), "ns");
        let timings = Timings { retry_period: Duration::from_millis(10), ..TIMINGS };
        let candidate = Candidate::new(api, "lease".to_owned(), "busy".to_owned(), timings);
        let status = IntGauge::new("status", "Status.").unwrap();
        let renewals = || leases.0.lock().unwrap().as_ref().map_or(0, version);
        let mut work = async |leading: Leading| {
            tokio::task::block_in_place(|| {
                while renewals() < 5 {
                    assert!(leading.holds(now()), "renewed only {} times", renewals());
                    std::thread::yield_now();
                }
            });
            Ok(())
        };
        candidate.lead(&CancellationToken::new(), &status, &mut work).await.unwrap();
        assert_eq!(leases.holder(), "", "released in the end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_given_to_another_ends_the_term() {
        let leases = Leases::default();
        let mut first = Running::start(&leases, "first");
        first.expect("begins").await;
        let stolen = leases.0.lock().unwrap().clone().unwrap();
        let spec = held(stolen.spec.as_ref(), "thief", Duration::from_secs(15), Timestamp::now());
        let Json(_) = leases.store(Lease { spec: Some(spec), ..stolen });
        first.expect("ends").await;
        first.expect("begins").await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_has_the_annotations_of_its_holder() {
        let leases = Leases::default();
        let annotations = [("kept".to_owned(), "as it is".to_owned())].into();
        let metadata = ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() };
        let Json(_) = leases.store(Lease { metadata, spec: Some(LeaseSpec::default()) });
        for name in ["first", "second"] {
            let api = Api::namespaced(leases.client(Arc::default()), "ns");
            let candidate = Candidate::new(api, "lease".to_owned(), name.to_owned(), TIMINGS);
            let candidate = candidate.annotating([("holder".to_owned(), name.to_owned())].into());
            let mut work = async |_| {
                let lease = leases.0.lock().unwrap().clone().unwrap();
                let expected = [("holder", name), ("kept", "as it is")].map(|(key, value)| (key.into(), value.into()));
                assert_eq!(lease.metadata.annotations, Some(expected.into()));
                Ok(())
            };
            let status = IntGauge::new("status", "Status.").unwrap();
            candidate.lead(&CancellationToken::new(), &status, &mut work).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_lease_is_created_again_by_its_holder() {
        let leases = Leases::default();
        let mut first = Running::start(&leases, "first");
        first.expect("begins").await;
        *leases.0.lock().unwrap() = None;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(leases.holder(), "first");
        assert!(first.events.is_empty());
    }
}
