//! Limits the connections of a server and evicts one when the limit is reached.
//!
//! Every new connection is accepted. A connection is unauthenticated until a handler marks its peer
//! as trusted. When all slots for unauthenticated connections are taken, one of them is evicted:
//!
//! 1. If an address has more than [`CROWD`] of them, one of the address that has most.
//! 2. Among the candidates, the one whose last request is oldest. A connection without a request
//!    counts from its start.
//!
//! So a client that opens many connections evicts its own, and a new client has time for its
//! handshake. Trusted connections are never evicted.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections that one address may have before its own are evicted first.
const CROWD: usize = 16;

/// The shortest time between two log lines about evictions.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

#[derive(Clone)]
pub(super) struct ConnectionLimiter(Arc<Shared>);

struct Shared {
    max_unauthenticated: usize,
    max_trusted: usize,
    /// An evicted connection keeps its permit until it is closed.
    permits: Arc<Semaphore>,
    table: Mutex<Table>,
    /// A counter that names connections, and orders them by their last request.
    requests: AtomicU64,
}

#[derive(Default)]
struct Table {
    unauthenticated: HashMap<u64, Arc<Connection>>,
    trusted: usize,
    logged_at: Option<Instant>,
}

struct Connection {
    id: u64,
    address: IpAddr,
    last_request: AtomicU64,
    is_trusted: AtomicBool,
    evicted: CancellationToken,
}

pub(super) struct Slot {
    peer: Peer,
    _permit: OwnedSemaphorePermit,
}

/// The other end of a connection; an extension of each of its requests.
#[derive(Clone)]
pub struct Peer {
    limiter: ConnectionLimiter,
    connection: Arc<Connection>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer")
            .field("address", &self.connection.address)
            .finish_non_exhaustive()
    }
}

impl ConnectionLimiter {
    /// A limiter for `max` connections, at least 1, of which `max_unauthenticated` (1 to `max`) may
    /// be unauthenticated. Trusted connections get the rest.
    pub(super) fn new(max: usize, max_unauthenticated: usize) -> Self {
        let max_unauthenticated = max_unauthenticated.clamp(1, max.max(1));
        Self(Arc::new(Shared {
            max_unauthenticated,
            max_trusted: max.saturating_sub(max_unauthenticated),
            permits: Arc::new(Semaphore::new(max.max(1))),
            table: Mutex::default(),
            requests: AtomicU64::default(),
        }))
    }

    /// Acquires a slot for a new connection from `address`. Evicts another connection when all slots
    /// are taken, and waits until it is closed.
    pub(super) async fn acquire(&self, address: IpAddr) -> io::Result<Slot> {
        let shared = &self.0;
        let count = || shared.table.lock().unauthenticated.len();
        while count() >= shared.max_unauthenticated && self.evict() {}
        let permit = Arc::clone(&shared.permits).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let id = self.next_request();
        let connection = Arc::new(Connection {
            id,
            address: network(address),
            last_request: AtomicU64::new(id),
            is_trusted: AtomicBool::default(),
            evicted: CancellationToken::new(),
        });
        let mut table = shared.table.lock();
        table.unauthenticated.insert(id, Arc::clone(&connection));
        drop(table);
        Ok(Slot {
            peer: Peer {
                limiter: self.clone(),
                connection,
            },
            _permit: permit,
        })
    }

    pub(super) fn evict(&self) -> bool {
        let mut table = self.0.table.lock();
        let Some(victim) = table.victim().map(Arc::clone) else {
            return false;
        };
        table.remove(&victim);
        victim.evicted.cancel();
        let now = Instant::now();
        let is_due = |logged| now.duration_since(logged) >= LOG_INTERVAL;
        if table.logged_at.is_none_or(is_due) {
            table.logged_at = Some(now);
            tracing::warn!(
                limit = self.0.max_unauthenticated,
                address = %victim.address,
                "too many unauthenticated connections; closing the least recently used one"
            );
        }
        true
    }

    fn next_request(&self) -> u64 {
        self.0.requests.fetch_add(1, Ordering::Relaxed)
    }
}

impl Table {
    /// Removes an unauthenticated connection; false if it is not in the table.
    fn remove(&mut self, connection: &Connection) -> bool {
        self.unauthenticated.remove(&connection.id).is_some()
    }

    fn victim(&self) -> Option<&Arc<Connection>> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.unauthenticated.values() {
            *counts.entry(connection.address).or_default() += 1;
        }
        let crowds = counts.into_iter().filter(|(_, count)| *count > CROWD);
        let crowd = crowds.max_by_key(|(_, count)| *count);
        let candidates = self
            .unauthenticated
            .values()
            .filter(|connection| crowd.is_none_or(|(address, _)| address == connection.address));
        candidates.min_by_key(|connection| connection.last_request.load(Ordering::Relaxed))
    }
}

impl Slot {
    /// The other end of the slot's connection.
    pub(super) fn peer(&self) -> Peer {
        self.peer.clone()
    }

    /// Runs `work` until the connection is evicted; `None` if that happens first.
    pub(super) async fn until_evicted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.peer.connection.evicted.run_until_cancelled(work).await
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Peer {
            limiter,
            connection,
        } = &self.peer;
        let mut table = limiter.0.table.lock();
        if !table.remove(connection) && self.peer.is_trusted() {
            table.trusted -= 1;
        }
    }
}

impl Peer {
    pub fn is_trusted(&self) -> bool {
        self.connection.is_trusted.load(Ordering::Relaxed)
    }

    /// Marks the connection as trusted, so that it is never evicted. Has no effect while all slots
    /// for trusted connections are taken.
    pub fn mark_trusted(&self) {
        let mut table = self.limiter.0.table.lock();
        if table.trusted < self.limiter.0.max_trusted && table.remove(&self.connection) {
            table.trusted += 1;
            self.connection.is_trusted.store(true, Ordering::Relaxed);
        }
    }

    /// Records a request, which makes the connection the most recently used one.
    pub(super) fn record_request(&self) {
        let request = self.limiter.next_request();
        let connection = &self.connection;
        connection.last_request.store(request, Ordering::Relaxed);
    }
}

/// The address; of IPv6 its /64 network, which one machine can have to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "10.0.0.1";
    const MANY: &str = "10.0.0.66";

    async fn acquire(limiter: &ConnectionLimiter, from: &str) -> Slot {
        limiter.acquire(from.parse().unwrap()).await.unwrap()
    }

    fn is_open(slot: &Slot) -> bool {
        !slot.peer.connection.evicted.is_cancelled()
    }

    /// Opens connections one after the other. Evicted ones close at once.
    async fn crowd(limiter: &ConnectionLimiter, from: &str, count: usize) -> Vec<Slot> {
        let mut there = Vec::new();
        for _ in 0..count {
            there.retain(is_open);
            there.push(acquire(limiter, from).await);
        }
        there
    }

    #[tokio::test]
    async fn an_address_with_many_connections_evicts_its_own() {
        let limiter = ConnectionLimiter::new(100, 50);
        let mine = crowd(&limiter, OTHER, CROWD).await;
        let crowd = crowd(&limiter, MANY, 1000).await;
        assert!(mine.iter().all(is_open));
        let open = crowd.iter().filter(|slot| is_open(slot)).count();
        assert_eq!(open, 50 - CROWD);
    }

    #[tokio::test]
    async fn the_least_recently_used_connection_of_an_address_is_evicted() {
        let limiter = ConnectionLimiter::new(30, 20);
        let mut there = crowd(&limiter, MANY, 20).await;
        there[0].peer.record_request();
        let last = acquire(&limiter, MANY).await;
        assert!(is_open(&there[0]) && !is_open(&there[1]) && is_open(&last));
        there.remove(1);
        let next = acquire(&limiter, MANY).await;
        assert!(!is_open(&there[1]) && is_open(&last) && is_open(&next));
    }

    #[tokio::test]
    async fn without_a_crowded_address_the_least_recently_used_connection_is_evicted() {
        let limiter = ConnectionLimiter::new(30, 20);
        let mut there = crowd(&limiter, OTHER, CROWD).await;
        for number in 0..20 - CROWD {
            there.push(acquire(&limiter, &format!("10.0.1.{number}")).await);
        }
        let _last = acquire(&limiter, "10.0.2.1").await;
        assert_eq!(there.iter().position(|slot| !is_open(slot)), Some(0));
    }

    #[tokio::test]
    async fn trusted_connections_are_not_evicted() {
        let limiter = ConnectionLimiter::new(50, 20);
        let mut known = Vec::new();
        for _ in 0..30 {
            let slot = acquire(&limiter, MANY).await;
            slot.peer.mark_trusted();
            known.push(slot);
        }
        let beyond = acquire(&limiter, MANY).await;
        beyond.peer.mark_trusted();
        // Unauthenticated connections keep their slots.
        assert!(!beyond.peer.is_trusted());
        drop(known.pop());
        beyond.peer.mark_trusted();
        assert!(beyond.peer.is_trusted());
        known.truncate(20);
        let crowd = crowd(&limiter, MANY, 1000).await;
        assert!(known.iter().chain([&beyond]).all(is_open));
        assert_eq!(crowd.iter().filter(|slot| is_open(slot)).count(), 20);
    }

    #[tokio::test]
    async fn closed_connections_leave_nothing_behind() {
        let limiter = ConnectionLimiter::new(40, 20);
        for from in [OTHER, MANY, "2001:db8::1"] {
            let there = crowd(&limiter, from, 100).await;
            there[0].peer.mark_trusted();
        }
        let table = limiter.0.table.lock();
        assert!(table.unauthenticated.is_empty());
        assert_eq!(table.trusted, 0);
        assert_eq!(limiter.0.permits.available_permits(), 40);
    }

    #[tokio::test]
    async fn a_slot_is_free_only_when_its_connection_is_closed() {
        let limiter = ConnectionLimiter::new(1, 1);
        let first = acquire(&limiter, OTHER).await;
        let second = tokio::spawn({
            let limiter = limiter.clone();
            async move { acquire(&limiter, MANY).await }
        });
        first.peer.connection.evicted.cancelled().await;
        assert!(!second.is_finished());
        drop(first);
        assert!(is_open(&second.await.unwrap()));
    }

    #[test]
    fn an_ipv6_address_counts_as_its_network() {
        let check = |address: &str, expected: &str| {
            let network = network(address.parse().unwrap());
            assert_eq!(network.to_string(), expected, "{address}");
        };
        check("10.1.2.3", "10.1.2.3");
        check("::ffff:10.1.2.3", "10.1.2.3");
        check("2001:db8:0:1:a:b:c:d", "2001:db8:0:1::");
    }
}
