//! Several candidates for one Lease, on the paused clock.

mod leases;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use tokio::sync::mpsc;

use super::*;
use leases::{Leases, version};

const TIMINGS: Timings = Timings {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn candidate(
    leases: &Leases,
    me: &str,
    timings: Timings,
    cut: &Arc<AtomicBool>,
    clock: ApiServerClock,
) -> Candidate {
    let api = Api::namespaced(leases.client(Arc::clone(cut)), "ns");
    Candidate::new(api, "lease".to_owned(), me.to_owned(), timings, clock)
}

async fn lead_once<W>(candidate: Candidate, mut work: impl FnMut(Leading) -> W)
where
    W: Future<Output = anyhow::Result<()>>,
{
    let status = IntGauge::new("status", "Status.").unwrap();
    let shutdown = CancellationToken::new();
    let led = candidate.lead(&shutdown, &status, &mut work).await;
    led.unwrap();
}

/// A candidate that reports when its terms begin and end.
struct Running {
    events: mpsc::UnboundedReceiver<(&'static str, Instant)>,
    shutdown: CancellationToken,
    cut: Arc<AtomicBool>,
}

impl Running {
    fn start(leases: &Leases, me: &str) -> Self {
        Self::start_with(leases, me, ApiServerClock::default())
    }

    fn start_with(leases: &Leases, me: &str, clock: ApiServerClock) -> Self {
        let (cut, shutdown) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let candidate = candidate(leases, me, TIMINGS, &cut, clock);
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
        Self {
            events,
            shutdown,
            cut,
        }
    }

    async fn expect(&mut self, expected: &str) -> Instant {
        let event = tokio::time::timeout(Duration::from_hours(1), self.events.recv()).await;
        let (event, at) = event
            .expect("an event within an hour of the stopped clock")
            .unwrap();
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
    assert!(
        ended <= begun && begun - ended < Duration::from_millis(4_500),
        "{:?}",
        begun - ended
    );
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
    assert!(
        begun - ended >= Duration::from_secs(4),
        "{:?}",
        begun - ended
    );
    assert_eq!(leases.holder(), "second");

    // Back on the network, the first candidate waits and begins a new term.
    first.cut.store(false, Ordering::SeqCst);
    second.shutdown.cancel();
    second.expect("ends").await;
    first.expect("begins").await;
    assert_eq!(leases.holder(), "first");
}

#[tokio::test(start_paused = true)]
async fn one_candidate_leads_at_a_time_whatever_their_clocks_show() {
    const DAY: Duration = Duration::from_hours(24);
    let (leases, begin) = (
        Leases::default(),
        std::time::SystemTime::UNIX_EPOCH + DAY * 20_000,
    );
    let clocks: [ApiServerClock; 3] = Default::default();
    let show = |clock: &ApiServerClock, time| clock.observe(time, time, now());
    show(&clocks[0], begin + DAY * 200);
    show(&clocks[1], begin - Duration::from_hours(1));
    show(&clocks[2], begin);
    let mut ahead = Running::start_with(&leases, "ahead", clocks[0].clone());
    ahead.expect("begins").await;
    let mut others = [("behind", 1), ("jumping", 2)]
        .map(|(name, clock)| Running::start_with(&leases, name, clocks[clock].clone()));
    // Ten minutes, in which one clock jumps back and forth.
    let stays = async |holder: &str| {
        for step in 0..20 {
            show(
                &clocks[2],
                if step % 2 == 0 {
                    begin + DAY * 8
                } else {
                    begin - DAY * 8
                },
            );
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert_eq!(leases.holder(), holder, "step {step}");
        }
    };
    stays("ahead").await;
    assert!(ahead.events.is_empty() && others.iter().all(|other| other.events.is_empty()));

    ahead.shutdown.cancel();
    ahead.expect("ends").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let holder = leases.holder();
    let mut leads = others.iter_mut().map(|other| {
        other
            .events
            .try_recv()
            .is_ok_and(|(event, _)| event == "begins")
    });
    assert!(leads.next() != leads.next(), "one of the two leads");
    stays(&holder).await;
    assert!(
        others.iter().all(|other| other.events.is_empty()),
        "no other term began or ended"
    );
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
async fn work_that_blocks_keeps_the_lease() {
    let leases = Leases::default();
    let timings = Timings {
        retry_period: Duration::from_millis(10),
        ..TIMINGS
    };
    let busy = candidate(
        &leases,
        "busy",
        timings,
        &Arc::default(),
        ApiServerClock::default(),
    );
    let renewals = || leases.0.lock().unwrap().as_ref().map_or(0, version);
    lead_once(busy, async |leading: Leading| {
        tokio::task::block_in_place(|| {
            while renewals() < 5 {
                assert!(leading.holds(now()), "renewed only {} times", renewals());
                std::thread::yield_now();
            }
        });
        Ok(())
    })
    .await;
    assert_eq!(leases.holder(), "", "released in the end");
}

#[tokio::test(start_paused = true)]
async fn a_lease_given_to_another_ends_the_term() {
    let leases = Leases::default();
    let mut first = Running::start(&leases, "first");
    first.expect("begins").await;
    let stolen = leases.0.lock().unwrap().clone().unwrap();
    let spec = held(
        stolen.spec.as_ref(),
        "thief",
        Duration::from_secs(15),
        Timestamp::UNIX_EPOCH,
    );
    let Json(_) = leases.store(Lease {
        spec: Some(spec),
        ..stolen
    });
    first.expect("ends").await;
    first.expect("begins").await;
}

#[tokio::test(start_paused = true)]
async fn the_lease_has_the_annotations_of_its_holder() {
    let leases = Leases::default();
    let annotations = [("kept".to_owned(), "as it is".to_owned())].into();
    let metadata = ObjectMeta {
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    let Json(_) = leases.store(Lease {
        metadata,
        spec: Some(LeaseSpec::default()),
    });
    for name in ["first", "second"] {
        let candidate = candidate(
            &leases,
            name,
            TIMINGS,
            &Arc::default(),
            ApiServerClock::default(),
        );
        let candidate = candidate.with_annotations([("holder".to_owned(), name.to_owned())].into());
        lead_once(candidate, async |_| {
            let lease = leases.0.lock().unwrap().clone().unwrap();
            let expected = [("holder", name), ("kept", "as it is")]
                .map(|(key, value)| (key.into(), value.into()));
            assert_eq!(lease.metadata.annotations, Some(expected.into()));
            Ok(())
        })
        .await;
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
