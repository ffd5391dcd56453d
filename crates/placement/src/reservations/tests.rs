use super::*;
use proptest::prelude::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a time")
}

fn cores(count: i64) -> Amounts {
    Amounts {
        cpu_millicores: count * 1000,
        memory_bytes: count,
    }
}

fn pod(uid: &str) -> PodKey<'_> {
    PodKey {
        namespace: "shop",
        uid,
    }
}

fn check(ledger: &Reservations, node: &str, end: Option<i64>, now: i64, expected: i64) {
    let found = ledger.reserved_for(PodKey::default(), node, end.map(at), at(now));
    assert_eq!(
        found,
        cores(expected),
        "{node} at {now}, metrics to {end:?}"
    );
}

#[test]
fn a_bound_pod_counts_until_the_metrics_include_it_or_five_minutes() {
    let mut ledger = Reservations::default();
    ledger.bind(pod("a"), "n1", cores(2), at(100), at(101));
    for (end, now, expected) in [
        (None, 101, 2),
        (Some(90), 110, 2),
        (Some(159), 170, 2),
        (Some(160), 170, 0),
        (None, 399, 2),
        (None, 400, 0),
    ] {
        check(&ledger, "n1", end, now, expected);
    }
    check(&ledger, "n2", None, 101, 0);
}

#[test]
fn a_tentative_reservation_moves_is_confirmed_or_expires() {
    let mut ledger = Reservations::default();
    ledger.reserve(pod("a"), "n1", cores(1), at(0));
    check(&ledger, "n1", Some(1000), 4, 1);
    check(&ledger, "n1", None, 5, 0);
    ledger.reserve(pod("a"), "n2", cores(1), at(6));
    check(&ledger, "n1", None, 6, 0);
    check(&ledger, "n2", None, 6, 1);
    let own = ledger.reserved_for(pod("a"), "n2", None, at(6));
    assert_eq!(own, cores(0), "a pod does not compete with itself");
    ledger.bind(pod("a"), "n3", cores(1), at(7), at(7));
    ledger.reserve(pod("a"), "n2", cores(1), at(8));
    check(&ledger, "n2", None, 8, 0);
    check(&ledger, "n3", None, 60, 1);
    ledger.remove(pod("a"), at(61));
    check(&ledger, "n3", None, 61, 0);
}

#[test]
fn pods_that_run_for_long_do_not_count_after_a_restart() {
    let mut ledger = Reservations::default();
    ledger.bind(pod("a"), "n1", cores(1), at(-9000), at(0));
    assert!(ledger.is_empty());
    ledger.bind(pod("a"), "n1", cores(1), at(50), at(0));
    check(&ledger, "n1", None, 299, 1);
    check(&ledger, "n1", None, 300, 0);
}

#[test]
fn a_namespace_makes_room_for_itself_and_the_largest_one_for_others() {
    let mut ledger = Reservations::new(ReservationConfig {
        max_pods: 4,
        max_pods_per_namespace: 3,
        ..ReservationConfig::default()
    });
    let mut second = 0;
    let mut bind = |ledger: &mut Reservations, namespace, uid: &str| {
        second += 1;
        let key = PodKey { namespace, uid };
        ledger.bind(key, uid, cores(1), at(second), at(second));
    };
    for uid in ["a1", "a2", "a3", "a4", "a4"] {
        bind(&mut ledger, "a", uid);
    }
    for (node, expected) in [("a1", 0), ("a2", 1), ("a3", 1), ("a4", 1)] {
        check(&ledger, node, None, 10, expected);
    }
    bind(&mut ledger, "b", "b1");
    bind(&mut ledger, "b", "b2");
    bind(&mut ledger, "c", "c1");
    // The largest namespace gave way, down to as many pods as others have.
    for (node, expected) in [
        ("a2", 0),
        ("a3", 1),
        ("a4", 1),
        ("b1", 0),
        ("b2", 1),
        ("c1", 1),
    ] {
        check(&ledger, node, None, 10, expected);
    }
    assert_eq!((ledger.len(), ledger.evicted()), (4, 3));
    // Expired pods go first.
    let late = PodKey {
        namespace: "c",
        uid: "c2",
    };
    ledger.bind(late, "c2", cores(1), at(400), at(400));
    assert_eq!((ledger.len(), ledger.evicted()), (1, 3));
}

/// Kind, pod, node, load and time.
type Event = (u8, u8, u8, i64, i64);

fn apply(ledger: &mut Reservations, (kind, number, node, load, second): Event) {
    let (uid, node, now) = (format!("p{number}"), format!("n{node}"), at(second));
    let pod = pod(&uid);
    match kind {
        0 => ledger.reserve(pod, &node, cores(load), now),
        1 => ledger.bind(pod, &node, cores(load), now, now),
        _ => ledger.remove(pod, now),
    }
}

fn event() -> impl Strategy<Value = Event> {
    (0..3_u8, 0..6_u8, 0..3_u8, -2..9_i64, 0..400_i64)
}

proptest! {
    #[test]
    fn the_order_of_events_is_irrelevant_and_all_expire(
        (events, shuffled) in prop::collection::vec(event(), 0..40)
            .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
        end in prop::option::of(0..500_i64),
        now in 400..460_i64,
    ) {
        let [mut ledger, mut other] = [Reservations::default(), Reservations::default()];
        for (one, two) in events.iter().zip(&shuffled) {
            apply(&mut ledger, *one);
            apply(&mut other, *two);
        }
        for node in ["n0", "n1", "n2"] {
            let found = ledger.reserved_for(PodKey::default(), node, end.map(at), at(now));
            prop_assert!(Amounts::default().fits(found), "{found:?}");
            prop_assert_eq!(found, other.reserved_for(PodKey::default(), node, end.map(at), at(now)));
            prop_assert_eq!(ledger.reserved_for(PodKey::default(), node, None, at(700)), Amounts::default());
        }
        ledger.prune(at(700));
        prop_assert!(ledger.is_empty() && ledger.nodes.is_empty());
        prop_assert!(ledger.namespaces.is_empty());
    }
}
