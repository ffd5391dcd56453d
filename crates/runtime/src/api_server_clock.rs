//! The API server's time, from the `Date` headers of its responses.
//!
//! Responses of aggregated APIs and of `proxy` subresources have another server's date: ignored.
//!
//! The API server checks certificates by its own clock and dates objects by it. A node's clock can
//! be hours or months off, so this clock is used for times that are compared with certificates or
//! written to objects. Replicas that use the same API server have the same time.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, SystemTimeError};

use http::header::DATE;
use http::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use prometheus::Gauge;
use tower::layer::layer_fn;
use tower::{Layer, Service};

const LOGGED_OFFSET: Duration = Duration::from_mins(1);
/// Minimum interval between two log lines about the offset. API servers' clocks may differ.
const LOG_INTERVAL: Duration = Duration::from_mins(10);

/// The API server's clock. Before the first response it shows the local time. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ApiServerClock(Arc<Mutex<ClockState>>);

#[derive(Debug, Default)]
struct ClockState {
    reading: Option<Reading>,
    /// Whether the last log line said that the local clock is off.
    is_off: bool,
    logged_at: Option<Instant>,
    offset: Option<Gauge>,
}

/// The `Date` of a response, and its time of arrival by the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    date: SystemTime,
    at: Instant,
}

impl ApiServerClock {
    /// A clock that exports the offset of the local clock as a metric.
    pub fn with_metric(offset: Gauge) -> Self {
        Self(Arc::new(Mutex::new(ClockState {
            offset: Some(offset),
            ..ClockState::default()
        })))
    }

    pub fn now(&self) -> SystemTime {
        self.at(SystemTime::now(), steady())
    }

    /// The current time as Kubernetes writes it to objects.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::try_from(self.now()).unwrap_or(Timestamp::MAX)
    }

    /// The time when the local clock shows `local` and the monotonic clock `now`.
    pub fn at(&self, local: SystemTime, now: Instant) -> SystemTime {
        let reading = self.0.lock().reading;
        let time = |Reading { date, at }| date.checked_add(now.saturating_duration_since(at));
        reading.and_then(time).unwrap_or(local)
    }

    /// Sets the clock by the `Date` of a response that arrives when the local clock shows `local`
    /// and the monotonic clock `now`.
    pub fn observe(&self, date: SystemTime, local: SystemTime, now: Instant) {
        let mut state = self.0.lock();
        state.reading = Some(Reading { date, at: now });
        let ahead = local.duration_since(date);
        let apart = ahead
            .as_ref()
            .map_or_else(SystemTimeError::duration, |ahead| *ahead);
        let offset = apart.as_secs_f64() * if ahead.is_ok() { 1.0 } else { -1.0 };
        if let Some(gauge) = &state.offset {
            gauge.set(offset);
        }
        let is_off = apart >= LOGGED_OFFSET;
        if state.is_change_to_log(is_off, now) {
            if is_off {
                tracing::warn!(
                    offset_seconds = offset,
                    "the local clock differs from the API server's; using the API server's time for certificates and Leases"
                );
            } else {
                tracing::info!(
                    offset_seconds = offset,
                    "the local clock agrees with the API server's again"
                );
            }
        }
    }

    /// A client layer that sets the clock by the headers of each response of the API server itself.
    pub fn layer<S>(&self) -> impl Layer<S, Service = ClockService<S>> + use<S> {
        let clock = self.clone();
        layer_fn(move |inner| ClockService {
            inner,
            clock: clock.clone(),
        })
    }
}

impl ClockState {
    /// Whether to log that the local clock is off, or no longer off.
    fn is_change_to_log(&mut self, is_off: bool, now: Instant) -> bool {
        let is_due = self
            .logged_at
            .is_none_or(|at| now.saturating_duration_since(at) >= LOG_INTERVAL);
        let is_logged = is_off != self.is_off && is_due;
        if is_logged {
            self.is_off = is_off;
            self.logged_at = Some(now);
        }
        is_logged
    }
}

#[derive(Debug, Clone)]
pub struct ClockService<S> {
    inner: S,
    clock: ApiServerClock,
}

impl<S, A, B> Service<Request<A>> for ClockService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let clock = is_answered_by_api_server(request.uri().path()).then(|| self.clock.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            if let (Some(clock), Some(date)) = (clock, date(&response)) {
                clock.observe(date, SystemTime::now(), steady());
            }
            Ok(response)
        })
    }
}

/// Whether the API server itself answers a path: the core API and Leases.
fn is_answered_by_api_server(path: &str) -> bool {
    let is_built_in = path.starts_with("/api/") || path.starts_with("/apis/coordination.k8s.io/");
    is_built_in && path.split('/').all(|segment| segment != "proxy")
}

fn date<B>(response: &Response<B>) -> Option<SystemTime> {
    let text = response.headers().get(DATE)?.to_str().ok()?;
    DateTimeParser::new()
        .parse_timestamp(text)
        .ok()
        .map(SystemTime::from)
}

/// The monotonic clock; tokio's, so that tests can pause it.
pub fn steady() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tower::ServiceExt as _;
    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::{self, SubscriberExt as _};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_clock_runs_from_the_last_response_whatever_the_local_clock_shows() {
        let (clock, start) = (ApiServerClock::default(), Instant::now());
        assert_eq!(clock.at(at(7), start), at(7), "no answer yet");
        clock.observe(at(1000), at(1), start);
        for local in [0, 1, 1_000_000_000] {
            let later = start + Duration::from_secs(9);
            assert_eq!(clock.at(at(local), later), at(1009));
        }
        clock.observe(at(500), at(1), start + Duration::from_secs(10));
        assert_eq!(clock.at(at(1), start + Duration::from_secs(11)), at(501));
    }

    #[test]
    fn the_offset_of_the_local_clock_is_exported() {
        let offset = Gauge::new("offset", "Offset.").unwrap();
        let clock = ApiServerClock::with_metric(offset.clone());
        for (local, expected) in [(1000, 0.0), (4600, 3600.0), (400, -600.0)] {
            clock.observe(at(1000), at(local), Instant::now());
            let exported = offset.get();
            assert!((exported - expected).abs() < 1e-9, "{exported}");
        }
    }

    #[test]
    fn the_date_of_an_answer_is_read_as_go_writes_it() {
        let answer = |text: &str| Response::builder().header(DATE, text).body(()).unwrap();
        let read = date(&answer("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(read, Some(at(784_111_777)));
        for text in ["", "yesterday", "1994-11-06T08:49:37Z"] {
            assert_eq!(date(&answer(text)), None, "{text:?}");
        }
        assert_eq!(date(&Response::new(())), None);
    }

    #[tokio::test]
    async fn only_answers_of_the_api_server_itself_set_the_clock() {
        for (path, is_taken) in [
            ("/api/v1/namespaces/shop/pods?watch=true", true),
            (
                "/apis/coordination.k8s.io/v1/namespaces/shop/leases/a",
                true,
            ),
            ("/apis/metrics.k8s.io/v1beta1/pods", false),
            ("/apis/custom.metrics.k8s.io/v1beta2", false),
            ("/apis/autoscaling.k8s.io/v1/verticalpodautoscalers", false),
            ("/api/v1/namespaces/shop/pods/web:8080/proxy/metrics", false),
            ("/version", false),
        ] {
            let clock = ApiServerClock::default();
            let service = tower::service_fn(|_: Request<()>| {
                let answer = Response::builder()
                    .header(DATE, "Sun, 06 Nov 1994 08:49:37 GMT")
                    .body(());
                std::future::ready(answer)
            });
            let request = Request::get(path).body(()).unwrap();
            clock.layer().layer(service).oneshot(request).await.unwrap();
            assert_eq!(clock.now() < at(1_000_000_000), is_taken, "{path}");
        }
    }

    struct Lines(Arc<AtomicU64>);

    impl<S: Subscriber> tracing_subscriber::Layer<S> for Lines {
        fn on_event(&self, _: &Event<'_>, _: layer::Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn two_api_servers_whose_clocks_differ_do_not_flood_the_log() {
        let lines = Arc::new(AtomicU64::new(0));
        let _guard = tracing::subscriber::set_default(
            tracing_subscriber::registry().with(Lines(Arc::clone(&lines))),
        );
        let (clock, start) = (ApiServerClock::default(), Instant::now());
        let minute = Duration::from_mins(1);
        let observe = |date, after| {
            clock.observe(at(date), at(1000), start + after);
            lines.load(Ordering::Relaxed)
        };
        assert_eq!(observe(1000, Duration::ZERO), 0);
        assert_eq!(observe(5000, minute), 1, "off");
        for second in 0..599 {
            let date = [1000, 5000][second as usize % 2];
            assert_eq!(observe(date, minute + Duration::from_secs(second)), 1);
        }
        assert_eq!(observe(1000, minute * 11), 2, "on again");
        assert_eq!(observe(5000, minute * 12), 2);
        assert_eq!(observe(1000, minute * 40), 2, "as was logged last");
        assert_eq!(observe(5000, minute * 40), 3);
    }
}
