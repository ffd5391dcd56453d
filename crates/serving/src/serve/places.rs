//! Who stays when more want in than there is room for.
//!
//! Whoever comes is let in. When the share of those for whom nobody vouches is full, one of them
//! has to go: of the address with most of them, if that has more than a few, the one whose last
//! request is the longest ago, or who has waited longest with its first one. So a stranger that
//! opens as many connections as it can turns out its own, and a client that has just come has all
//! the time that a handshake takes. Those who are vouched for are shown out by nobody.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// An address with so many connections is not one of a crowd.
const FEW: usize = 16;

/// How often it is said that there is no room.
const SAID_EVERY: Duration = Duration::from_mins(1);

/// The places of one server. Clones share them.
#[derive(Clone)]
pub(super) struct Places(Arc<Shared>);

struct Shared {
    /// The most of each.
    strangers: usize,
    known: usize,
    /// Also held by those who were shown out, until they are gone.
    free: Arc<Semaphore>,
    table: Mutex<Table>,
    /// Counts requests, which tells who was quiet for longest.
    requests: AtomicU64,
}

/// Who is there.
#[derive(Default)]
struct Table {
    last_id: u64,
    /// Those for whom nobody vouches.
    strangers: HashMap<u64, Arc<Seat>>,
    /// How many of them there are of each address; never none.
    of: HashMap<IpAddr, usize>,
    /// How many others there are.
    known: usize,
    said: Option<Instant>,
}

/// One connection.
struct Seat {
    id: u64,
    from: IpAddr,
    last_request: AtomicU64,
    is_known: AtomicBool,
    is_shown_out: CancellationToken,
}

/// A connection's place, which is free again when this is dropped.
pub(super) struct Place {
    visitor: Visitor,
    _permit: OwnedSemaphorePermit,
}

/// The connection that a request came by; an extension of each request.
#[derive(Clone)]
pub struct Visitor {
    places: Places,
    seat: Arc<Seat>,
}

impl std::fmt::Debug for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visitor")
            .field("from", &self.seat.from)
            .finish_non_exhaustive()
    }
}

impl Places {
    /// So many places, of which so many at most are for strangers.
    pub(super) fn new(all: usize, strangers: usize) -> Self {
        let strangers = strangers.clamp(1, all.max(1));
        Self(Arc::new(Shared {
            strangers,
            known: all.saturating_sub(strangers),
            free: Arc::new(Semaphore::new(all.max(1))),
            table: Mutex::default(),
            requests: AtomicU64::default(),
        }))
    }

    /// A place for whoever has come from there. If need be somebody else goes first.
    pub(super) async fn take(&self, from: IpAddr) -> io::Result<Place> {
        let shared = &self.0;
        while self.table().strangers.len() >= shared.strangers && self.show_out() {}
        let permit = Arc::clone(&shared.free)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let mut table = self.table();
        table.last_id += 1;
        let seat = Arc::new(Seat {
            id: table.last_id,
            from: network(from),
            last_request: AtomicU64::new(self.next_request()),
            is_known: AtomicBool::default(),
            is_shown_out: CancellationToken::new(),
        });
        table.enter(&seat);
        drop(table);
        Ok(Place {
            visitor: Visitor {
                places: self.clone(),
                seat,
            },
            _permit: permit,
        })
    }

    /// Has one stranger go; false if there is none.
    pub(super) fn show_out(&self) -> bool {
        let mut table = self.table();
        let Some(seat) = table.first_to_go().map(Arc::clone) else {
            return false;
        };
        table.leave(&seat);
        seat.is_shown_out.cancel();
        let now = Instant::now();
        if table
            .said
            .is_none_or(|said| now.duration_since(said) >= SAID_EVERY)
        {
            table.said = Some(now);
            tracing::warn!(strangers = self.0.strangers, from = %seat.from, "too many connections; some are closed to make room");
        }
        true
    }

    fn next_request(&self) -> u64 {
        self.0.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// The table is whole after every call, so a panic elsewhere leaves nothing half-done.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn enter(&mut self, seat: &Arc<Seat>) {
        *self.of.entry(seat.from).or_default() += 1;
        self.strangers.insert(seat.id, Arc::clone(seat));
    }

    /// Whether it was a stranger.
    fn leave(&mut self, seat: &Seat) -> bool {
        let was_there = self.strangers.remove(&seat.id).is_some();
        if was_there && let Some(count) = self.of.get_mut(&seat.from) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&seat.from);
            }
        }
        was_there
    }

    fn first_to_go(&self) -> Option<&Arc<Seat>> {
        let crowds = self.of.iter().filter(|(_, count)| **count > FEW);
        let crowd = crowds
            .max_by_key(|(_, count)| **count)
            .map(|(from, _)| from);
        let candidates = self
            .strangers
            .values()
            .filter(|seat| crowd.is_none_or(|crowd| *crowd == seat.from));
        candidates.min_by_key(|seat| seat.last_request.load(Ordering::Relaxed))
    }
}

impl Place {
    /// Whom it is for.
    pub(super) fn visitor(&self) -> Visitor {
        self.visitor.clone()
    }

    /// What comes of it, unless the visitor has to go before.
    pub(super) async fn until_shown_out<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.visitor
            .seat
            .is_shown_out
            .run_until_cancelled(work)
            .await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Visitor { places, seat } = &self.visitor;
        let mut table = places.table();
        if !table.leave(seat) && self.visitor.is_known() {
            table.known -= 1;
        }
    }
}

impl Visitor {
    /// Whether somebody has vouched for whoever is at the other end.
    pub fn is_known(&self) -> bool {
        self.seat.is_known.load(Ordering::Relaxed)
    }

    /// Vouches for whoever is at the other end: it is no stranger from now on, as far as there is
    /// room for such.
    pub fn vouch(&self) {
        let mut table = self.places.table();
        if table.known < self.places.0.known && table.leave(&self.seat) {
            table.known += 1;
            self.seat.is_known.store(true, Ordering::Relaxed);
        }
    }

    /// There is a request.
    pub(super) fn asks(&self) {
        self.seat
            .last_request
            .store(self.places.next_request(), Ordering::Relaxed);
    }
}

/// The address, or of IPv6 the network that one machine has to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str = "10.0.0.1";
    const CROWD: &str = "10.0.0.66";

    async fn take(places: &Places, from: &str) -> Place {
        places.take(from.parse().unwrap()).await.unwrap()
    }

    fn stays(place: &Place) -> bool {
        !place.visitor.seat.is_shown_out.is_cancelled()
    }

    /// Takes places one after the other. Those who were shown out leave at once.
    async fn crowd(places: &Places, from: &str, count: usize) -> Vec<Place> {
        let mut there = Vec::new();
        for _ in 0..count {
            there.retain(stays);
            there.push(take(places, from).await);
        }
        there
    }

    #[tokio::test]
    async fn a_crowd_from_one_address_turns_out_its_own() {
        let places = Places::new(100, 50);
        let mine = crowd(&places, ME, FEW).await;
        let crowd = crowd(&places, CROWD, 1000).await;
        assert!(mine.iter().all(stays));
        assert_eq!(crowd.iter().filter(|place| stays(place)).count(), 50 - FEW);
    }

    #[tokio::test]
    async fn of_a_crowd_the_one_that_was_quiet_for_longest_goes() {
        let places = Places::new(30, 20);
        let mut there = crowd(&places, CROWD, 20).await;
        there[0].visitor.asks();
        let last = take(&places, CROWD).await;
        assert!(stays(&there[0]) && !stays(&there[1]) && stays(&last));
        there.remove(1);
        let next = take(&places, CROWD).await;
        assert!(!stays(&there[1]) && stays(&last) && stays(&next));
    }

    #[tokio::test]
    async fn of_many_with_few_each_the_one_that_was_quiet_for_longest_goes() {
        let places = Places::new(30, 20);
        let mut there = crowd(&places, ME, FEW).await;
        for number in 0..20 - FEW {
            there.push(take(&places, &format!("10.0.1.{number}")).await);
        }
        let _last = take(&places, "10.0.2.1").await;
        assert_eq!(there.iter().position(|place| !stays(place)), Some(0));
    }

    #[tokio::test]
    async fn whoever_is_known_stays() {
        let places = Places::new(50, 20);
        let mut known = Vec::new();
        for _ in 0..30 {
            let place = take(&places, CROWD).await;
            place.visitor.vouch();
            known.push(place);
        }
        let beyond = take(&places, CROWD).await;
        beyond.visitor.vouch();
        assert!(
            !beyond.visitor.is_known(),
            "strangers have their share, and so have the others"
        );
        drop(known.pop());
        beyond.visitor.vouch();
        assert!(
            beyond.visitor.is_known(),
            "the place of one that has gone is free"
        );
        known.truncate(20);
        let crowd = crowd(&places, CROWD, 1000).await;
        assert!(known.iter().chain([&beyond]).all(stays));
        assert_eq!(crowd.iter().filter(|place| stays(place)).count(), 20);
    }

    #[tokio::test]
    async fn nothing_is_left_of_those_who_have_gone() {
        let places = Places::new(40, 20);
        for from in [ME, CROWD, "2001:db8::1"] {
            let there = crowd(&places, from, 100).await;
            there[0].visitor.vouch();
        }
        let table = places.table();
        assert!(table.strangers.is_empty() && table.of.is_empty() && table.known == 0);
        assert_eq!(places.0.free.available_permits(), 40);
    }

    #[tokio::test]
    async fn a_place_is_had_only_when_its_last_holder_is_gone() {
        let places = Places::new(1, 1);
        let first = take(&places, ME).await;
        let second = tokio::spawn({
            let places = places.clone();
            async move { take(&places, CROWD).await }
        });
        first.visitor.seat.is_shown_out.cancelled().await;
        assert!(!second.is_finished());
        drop(first);
        assert!(stays(&second.await.unwrap()));
    }

    #[test]
    fn an_address_is_one_machine() {
        let check = |address: &str, expected: &str| {
            assert_eq!(
                network(address.parse().unwrap()),
                expected.parse::<IpAddr>().unwrap(),
                "{address}"
            );
        };
        check("10.1.2.3", "10.1.2.3");
        check("::ffff:10.1.2.3", "10.1.2.3");
        check("2001:db8:0:1:a:b:c:d", "2001:db8:0:1::");
    }
}
