//! A cache that coalesces concurrent requests with the same key. The number of its entries and of
//! its requests in flight is bounded.
//!
//! `moka` keeps the entries and coalesces the requests. The limits on requests in flight are ours,
//! and so is the age of an entry: it follows tokio's clock, which tests control.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use model::FairSlots;
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

const CAPACITY: u64 = 8192;

/// The largest number of requests in flight.
const IN_FLIGHT: usize = 256;
const IN_FLIGHT_PER_FLOW: usize = IN_FLIGHT / 8;

/// The key of a request: of constant size, and without the secrets of the request.
pub type Key = [u8; 32];

pub fn key(request: &[u8]) -> Key {
    Sha256::digest(request).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Cached,
    /// A request of another caller that was in flight.
    Coalesced,
    /// A request of this caller.
    Fetched,
}

/// A cache of responses. Clones share it.
#[derive(Clone)]
pub struct CoalescingCache<V> {
    entries: Cache<Key, Entry<V>>,
    in_flight: InFlight,
}

/// The requests in flight of each flow.
type InFlight = Arc<Mutex<FairSlots<Arc<str>>>>;

#[derive(Debug, Clone)]
struct Entry<V> {
    /// `None` if the request exceeded a limit.
    response: Option<V>,
    expires: Instant,
}

impl<V> Entry<V> {
    fn is_expired(&self) -> bool {
        self.expires <= Instant::now()
    }
}

impl<V: Clone + Send + Sync + 'static> Default for CoalescingCache<V> {
    fn default() -> Self {
        Self {
            entries: Cache::builder()
                .max_capacity(CAPACITY)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            in_flight: Arc::new(Mutex::new(FairSlots::new(IN_FLIGHT, IN_FLIGHT_PER_FLOW))),
        }
    }
}

impl<V: Clone + Send + Sync + 'static> CoalescingCache<V> {
    /// Returns the response of a request and its source. `fetch` sends the request; it returns the
    /// response and the time for which the response may be cached. It runs to its end even if the
    /// caller goes away, so that the next caller finds the response.
    ///
    /// Returns `None` if too many requests are in flight, in total or of this `flow`.
    pub async fn get(
        &self,
        key: Key,
        flow: &str,
        fetch: impl Future<Output = (V, Duration)> + Send + 'static,
    ) -> Option<(V, Source)> {
        if let Some(entry) = self.entries.get(&key).await
            && !entry.is_expired()
        {
            return Some((entry.response?, Source::Cached));
        }
        let (cache, flow) = (self.clone(), Arc::from(flow));
        let fetched = tokio::spawn(async move {
            let fetch = run(Arc::clone(&cache.in_flight), flow, fetch);
            let entry = cache.entries.entry(key);
            let entry = entry.or_insert_with_if(fetch, Entry::is_expired).await;
            let source = if entry.is_fresh() {
                Source::Fetched
            } else {
                Source::Coalesced
            };
            let entry = entry.into_value();
            if entry.is_expired() {
                cache.entries.invalidate(&key).await;
            }
            entry.response.map(|response| (response, source))
        });
        // An error means that the request panicked.
        fetched.await.ok()?
    }
}

/// Fetches a response, unless too many requests are in flight.
async fn run<V>(
    in_flight: InFlight,
    flow: Arc<str>,
    fetch: impl Future<Output = (V, Duration)>,
) -> Entry<V> {
    if !in_flight.lock().try_acquire(Arc::clone(&flow)) {
        return Entry {
            response: None,
            expires: Instant::now(),
        };
    }
    let permit = Permit { in_flight, flow };
    let (response, ttl) = fetch.await;
    drop(permit);
    Entry {
        response: Some(response),
        expires: Instant::now() + ttl,
    }
}

/// One request in flight. Dropping it makes room for another.
struct Permit {
    in_flight: InFlight,
    flow: Arc<str>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.in_flight.lock().release(&self.flow);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join_all, pending};

    use super::*;

    impl<V: Clone + Send + Sync + 'static> CoalescingCache<V> {
        async fn sizes(&self) -> (u64, usize) {
            self.entries.run_pending_tasks().await;
            (self.entries.entry_count(), self.in_flight.lock().in_use())
        }
    }

    const MINUTE: Duration = Duration::from_mins(1);
    const SECOND: Duration = Duration::from_secs(1);

    type TestCache = CoalescingCache<&'static str>;

    fn numbered(request: u32) -> Key {
        key(&request.to_be_bytes())
    }

    /// Sends the request `a` of the flow `shop`, whose response takes `time` and is valid for a
    /// minute. Returns the source of the response.
    async fn get(cache: &TestCache, time: Duration) -> Option<Source> {
        let slowly = async move {
            tokio::time::sleep(time).await;
            ("yes", MINUTE)
        };
        let (response, source) = cache.get(key(b"a"), "shop", slowly).await?;
        assert_eq!(response, "yes");
        Some(source)
    }

    /// Sends requests that get no response until `in_flight` of them are in flight.
    async fn hang(
        cache: &TestCache,
        flow: fn(u32) -> String,
        in_flight: usize,
    ) -> tokio::task::JoinSet<()> {
        let mut waiting = tokio::task::JoinSet::new();
        for request in 0..IN_FLIGHT as u32 {
            let cache = cache.clone();
            waiting.spawn(async move {
                cache
                    .get(numbered(request), &flow(request), pending())
                    .await;
            });
        }
        while cache.sizes().await.1 < in_flight {
            tokio::task::yield_now().await;
        }
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_with_one_key_are_sent_once() {
        let cache = CoalescingCache::default();
        let found = join_all((0..100).map(|_| get(&cache, SECOND))).await;
        let count = |source| found.iter().filter(|found| **found == Some(source)).count();
        assert_eq!((count(Source::Fetched), count(Source::Coalesced)), (1, 99));
        assert_eq!(get(&cache, SECOND).await, Some(Source::Cached));
        tokio::time::sleep(MINUTE).await;
        assert_eq!(get(&cache, SECOND).await, Some(Source::Fetched));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_outlives_its_caller() {
        let cache = CoalescingCache::default();
        let impatient = tokio::time::timeout(SECOND, get(&cache, 2 * SECOND));
        assert!(impatient.await.is_err());
        assert_eq!(get(&cache, 2 * SECOND).await, Some(Source::Coalesced));
        assert_eq!(get(&cache, 2 * SECOND).await, Some(Source::Cached));
    }

    #[tokio::test]
    async fn a_response_without_a_ttl_is_fetched_again() {
        let cache = CoalescingCache::default();
        for _ in 0..2 {
            let fetch = async { ("?", Duration::ZERO) };
            let found = cache.get(key(b"a"), "shop", fetch).await;
            assert_eq!(found, Some(("?", Source::Fetched)));
        }
        assert_eq!(cache.sizes().await, (0, 0));
    }

    #[tokio::test]
    async fn distinct_keys_do_not_exceed_the_capacity() {
        let cache = CoalescingCache::default();
        for request in 0..50_000 {
            let fetch = async { ("no", MINUTE) };
            cache.get(numbered(request), "shop", fetch).await.unwrap();
        }
        let (entries, in_flight) = cache.sizes().await;
        assert!(
            entries <= CAPACITY && in_flight == 0,
            "{entries} entries, {in_flight} in flight"
        );
    }

    #[tokio::test]
    async fn many_keys_do_not_evict_an_entry_that_is_used() {
        let cache = CoalescingCache::default();
        let get = async |name: u32| {
            let fetch = async { ("yes", MINUTE) };
            let (_, source) = cache.get(numbered(name), "shop", fetch).await?;
            Some(source)
        };
        assert_eq!(get(0).await, Some(Source::Fetched));
        for other in 1..20_000 {
            get(other).await;
            if other % 1000 == 0 {
                assert_eq!(get(0).await, Some(Source::Cached), "after {other}");
            }
        }
        assert_eq!(get(1).await, Some(Source::Fetched));
        assert_eq!(get(19_999).await, Some(Source::Cached));
    }

    #[tokio::test]
    async fn requests_beyond_the_limit_are_not_sent() {
        let cache = CoalescingCache::default();
        let _waiting = hang(&cache, |request| (request % 8).to_string(), IN_FLIGHT).await;
        assert_eq!(get(&cache, Duration::ZERO).await, None);
    }

    #[tokio::test]
    async fn slow_requests_of_one_flow_leave_room_for_others() {
        let cache = CoalescingCache::default();
        let _waiting = hang(&cache, |_| "hostile".to_owned(), IN_FLIGHT_PER_FLOW).await;
        for _ in 0..IN_FLIGHT {
            tokio::task::yield_now().await;
        }
        assert_eq!(cache.sizes().await.1, IN_FLIGHT_PER_FLOW);
        assert_eq!(get(&cache, Duration::ZERO).await, Some(Source::Fetched));
    }

    #[tokio::test]
    async fn a_request_that_panics_leaves_nothing_behind() {
        let cache = CoalescingCache::default();
        let broken = async { panic!("a test's own panic") };
        assert_eq!(cache.get(key(b"a"), "shop", broken).await, None);
        assert_eq!(cache.sizes().await, (0, 0));
        assert_eq!(get(&cache, Duration::ZERO).await, Some(Source::Fetched));
    }
}
