//! The API server's time, as the `Date` headers of its answers give it.
//!
//! The API server judges certificates by its own clock and dates objects by it. A node's clock may be hours or months off, so
//! times that are compared with certificates or written into objects come from here. Replicas that ask the same API server thereby
//! have the same time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::Response;
use http::header::DATE;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use prometheus::{Gauge, Registry};
use tower::util::MapResponseLayer;

/// The offset of the own clock from which on it is logged.
const NOTABLE: Duration = Duration::from_mins(1);

/// The API server's clock. Before the first answer it shows the time of the own machine. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ApiServerClock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    reading: Option<Reading>,
    /// The own clock was found to be off, and that was logged.
    is_off: bool,
    offset: Option<Gauge>,
}

/// The `Date` of an answer, and when it arrived by the steady clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    date: SystemTime,
    at: Instant,
}

impl ApiServerClock {
    /// A clock that exports the offset of the own one as a metric.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = "plimsoll_clock_offset_seconds";
        let offset = Gauge::new(name, "This machine's clock minus the API server's, at the last answer.")?;
        registry.register(Box::new(offset.clone()))?;
        Ok(Self(Arc::new(Mutex::new(State { offset: Some(offset), ..State::default() }))))
    }

    /// The time now.
    pub fn now(&self) -> SystemTime {
        self.at(SystemTime::now(), steady())
    }

    /// The time as Kubernetes writes it into objects.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::try_from(self.now()).unwrap_or(Timestamp::MAX)
    }

    /// The time when the own clock shows `own` and the steady one `now`.
    pub fn at(&self, own: SystemTime, now: Instant) -> SystemTime {
        let reading = self.state().reading;
        let time = |Reading { date, at }| date.checked_add(now.saturating_duration_since(at));
        reading.and_then(time).unwrap_or(own)
    }

    /// Takes over the `Date` of an answer that arrives when the own clock shows `own` and the steady one `now`.
    pub fn observe(&self, date: SystemTime, own: SystemTime, now: Instant) {
        let mut state = self.state();
        state.reading = Some(Reading { date, at: now });
        let (ahead, behind) = (own.duration_since(date), date.duration_since(own));
        let apart = ahead.as_ref().or(behind.as_ref()).copied().unwrap_or_default();
        let offset = if ahead.is_ok() { apart.as_secs_f64() } else { -apart.as_secs_f64() };
        if let Some(gauge) = &state.offset {
            gauge.set(offset);
        }
        let is_off = apart >= NOTABLE;
        if is_off != std::mem::replace(&mut state.is_off, is_off) {
            if is_off {
                tracing::warn!(
                    offset_seconds = offset,
                    "this machine's clock differs from the API server's; certificates and Leases follow the API server's"
                );
            } else {
                tracing::info!(offset_seconds = offset, "this machine's clock agrees with the API server's again");
            }
        }
    }

    /// A layer of a client to the API server that sets the clock by each answer, as soon as its headers are there.
    pub fn layer<B>(&self) -> MapResponseLayer<impl Fn(Response<B>) -> Response<B> + Clone + use<B>> {
        let clock = self.clone();
        MapResponseLayer::new(move |response: Response<B>| {
            if let Some(date) = date(&response) {
                clock.observe(date, SystemTime::now(), steady());
            }
            response
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn date<B>(response: &Response<B>) -> Option<SystemTime> {
    let text = response.headers().get(DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(text).ok().map(SystemTime::from)
}

/// The steady clock. In tests it stands still where tokio's does.
pub(crate) fn steady() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn it_goes_on_from_the_last_answer_whatever_the_own_clock_does() {
        let (clock, start) = (ApiServerClock::default(), Instant::now());
        assert_eq!(clock.at(at(7), start), at(7), "no answer yet");
        clock.observe(at(1000), at(1), start);
        for own in [0, 1, 1_000_000_000] {
            assert_eq!(clock.at(at(own), start + Duration::from_secs(9)), at(1009));
        }
        clock.observe(at(500), at(1), start + Duration::from_secs(10));
        assert_eq!(clock.at(at(1), start + Duration::from_secs(11)), at(501));
    }

    #[test]
    fn the_offset_of_the_own_clock_is_exported() {
        let registry = Registry::new();
        let clock = ApiServerClock::register(&registry).unwrap();
        for (date, own, expected) in [(1000, 1000, 0.0), (1000, 4600, 3600.0), (1000, 400, -600.0)] {
            clock.observe(at(date), at(own), Instant::now());
            let exported = registry.gather()[0].get_metric()[0].get_gauge().get_value();
            assert!((exported - expected).abs() < 1e-9, "{exported} for {expected}");
        }
    }

    #[test]
    fn the_date_of_an_answer_is_read_as_go_writes_it() {
        let answer = |text: &str| Response::builder().header(DATE, text).body(()).unwrap();
        assert_eq!(date(&answer("Sun, 06 Nov 1994 08:49:37 GMT")), Some(at(784_111_777)));
        for text in ["", "yesterday", "1994-11-06T08:49:37Z"] {
            assert_eq!(date(&answer(text)), None, "{text:?}");
        }
        assert_eq!(date(&Response::new(())), None);
    }
}
