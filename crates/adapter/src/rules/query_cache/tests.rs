//! Results over time, memory limits and coalesced queries.

use std::collections::BTreeMap;

use super::*;
use crate::flow_limiter::PriorityLevel;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn one(value: f64) -> Vec<InstantSample> {
    vec![InstantSample {
        labels: BTreeMap::new(),
        at: at(0),
        value,
    }]
}

/// One sample whose label has a value of this length.
fn labelled(length: usize) -> Vec<InstantSample> {
    let mut samples = one(1.0);
    samples[0]
        .labels
        .insert("pod".to_owned(), "x".repeat(length));
    samples
}

/// A cache that serves last good results for a minute.
fn cache() -> QueryCache {
    QueryCache::new(Duration::from_mins(1))
}

fn small_cache(max_bytes: usize) -> QueryCache {
    QueryCache {
        max_bytes,
        ..cache()
    }
}

fn failure(why: &str) -> QueryFailure {
    QueryFailure {
        message: why.to_owned(),
        is_timeout: false,
    }
}

/// Requests a query at a second; `answer` is the store's result. `expected`: the served value.
async fn check(
    answers: &QueryCache,
    second: i64,
    answer: Result<f64, &str>,
    expected: Result<(f64, Source), &str>,
) {
    let answer = answer.map(one).map_err(failure);
    let flow = Flow::default();
    let got = answers.get("up", &flow, at(second), async move { answer });
    let got = got
        .await
        .map(|(samples, from)| (samples[0].value, from))
        .map_err(|refusal| refusal.to_string());
    assert_eq!(got, expected.map_err(str::to_owned), "at {second}");
}

#[tokio::test]
async fn results_are_fresh_for_a_short_time() {
    let answers = cache();
    check(&answers, 0, Ok(1.0), Ok((1.0, Source::Store))).await;
    check(&answers, 4, Ok(2.0), Ok((1.0, Source::Store))).await;
    check(&answers, 6, Ok(3.0), Ok((3.0, Source::Store))).await;
}

#[tokio::test]
async fn the_last_good_result_is_served_for_a_bounded_time() {
    let answers = cache();
    check(&answers, 0, Ok(1.0), Ok((1.0, Source::Store))).await;
    check(&answers, 10, Err("gone"), Ok((1.0, Source::LastGood))).await;
    check(&answers, 60, Err("gone"), Ok((1.0, Source::LastGood))).await;
    let expired = Err("gone (the last answer is 62s old, limit 60s)");
    check(&answers, 62, Err("gone"), expired).await;
    check(&answers, 64, Ok(2.0), Ok((2.0, Source::Store))).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_request_has_the_value_of_a_query_that_takes_three_seconds() {
    let (answers, flow) = (cache(), Flow::default());
    let began = tokio::time::Instant::now();
    let ask = async |second: u64, value| {
        tokio::time::sleep_until(began + Duration::from_secs(second)).await;
        let slow = async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(one(value))
        };
        let answer = answers.get("up", &flow, at(second as i64), slow).await;
        assert!(began.elapsed() <= Duration::from_secs(second) + TIMEOUT);
        answer.map(|(samples, source)| (samples[0].value, source))
    };
    let late = QueryFailure::late(TIMEOUT).message;
    assert_eq!(ask(0, 1.0).await, Err(StatusError::Timeout(late)));
    assert_eq!(ask(15, 2.0).await, Ok((1.0, Source::LastGood)));
    assert_eq!(ask(30, 3.0).await, Ok((2.0, Source::LastGood)));
    assert_eq!(ask(34, 4.0).await, Ok((3.0, Source::Store)));
}

#[tokio::test]
async fn a_result_is_old_after_the_clock_was_set_back() {
    let answers = cache();
    check(&answers, 3600, Ok(1.0), Ok((1.0, Source::Store))).await;
    let expired = Err("gone (the last answer is 3600s old, limit 60s)");
    check(&answers, 0, Err("gone"), expired).await;
    check(&answers, 2, Ok(2.0), Ok((2.0, Source::Store))).await;
}

#[tokio::test(start_paused = true)]
async fn queries_beyond_the_memory_limit_are_rejected_until_unused_ones_are_removed() {
    let (answers, flow) = (small_cache(1000), Flow::default());
    let fetch = async |query: String, second| {
        let samples = async { Ok(labelled(200)) };
        let answer = answers.get(&query, &flow, at(second), samples).await;
        answer.map(|(samples, _)| samples[0].value.to_string())
    };
    let mut refused = Vec::new();
    for number in 0..10 {
        refused.push(fetch(format!("{number}"), 0).await == Err(StatusError::TooManyRequests));
    }
    let count = refused.iter().filter(|refused| **refused).count();
    assert_eq!(count, 6, "{refused:?}");
    let cached = fetch("0".to_owned(), 1).await;
    assert_eq!(cached, Ok("1".to_owned()), "a cached result is served");
    answers.sweep(at(200));
    assert_eq!(answers.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(fetch("x".repeat(2000), 200).await, Ok("1".to_owned()));
    let refused = fetch("y".to_owned(), 200).await;
    assert_eq!(refused, Err(StatusError::TooManyRequests));
}

#[tokio::test]
async fn unused_queries_make_room_for_others() {
    let (answers, flow) = (small_cache(10_000), Flow::default());
    // The number of samples of a result, and that of the entries after it.
    let fetch = async |query: &str, second| {
        let samples = async { Ok(one(1.0)) };
        let answer = answers.get(query, &flow, at(second), samples).await;
        (answer.map(|(samples, _)| samples.len()), answers.len())
    };
    assert_eq!(fetch("up", 0).await, (Ok(1), 1));
    for number in 0..10 {
        let query = format!("{number}{}", "x".repeat(1000));
        assert_eq!(fetch(&query, 0).await, (Ok(1), number + 2));
    }
    let refused = (Err(StatusError::TooManyRequests), 11);
    assert_eq!(fetch("full", 1).await, refused);
    assert_eq!(fetch("up", 15).await, (Ok(1), 11));
    assert_eq!(fetch("full", 16).await, refused);
    assert_eq!(fetch("other", 21).await, (Ok(1), 2), "a used entry stays");
    assert!(answers.entries.lock().map.contains_key("up"));
}

#[tokio::test]
async fn the_flow_that_holds_the_most_makes_room_for_others() {
    let answers = small_cache(100_000);
    let namespaced = |namespace: &str| Flow {
        namespace: namespace.into(),
        ..Flow::default()
    };
    let cluster_wide = |namespace: &str| Flow {
        level: PriorityLevel::ClusterWide,
        namespace: namespace.into(),
    };
    let fetch_at = async |flow: &Flow, query: &str, second| {
        let samples = async { Ok(labelled(5000)) };
        let query = format!("{}/{query}", flow.namespace);
        let answer = answers.get(&query, flow, at(second), samples).await;
        answer.map(|_| ())
    };
    let fetch = async |flow: &Flow, query: &str| fetch_at(flow, query, 0).await;
    let (hostile, shop) = (namespaced("hostile"), namespaced("shop"));
    let refused = async |flow: &Flow| {
        let mut refused = 0;
        for number in 0..32 {
            let answer = fetch(flow, &number.to_string()).await;
            refused += usize::from(answer == Err(StatusError::TooManyRequests));
        }
        refused
    };
    assert_eq!(fetch(&shop, "first").await, Ok(()));
    assert!(refused(&hostile).await > 10, "what it holds is used");
    assert_eq!(fetch(&cluster_wide("hostile"), "new pods").await, Ok(()));
    assert_eq!(fetch(&shop, "second").await, Ok(()));
    assert!(answers.entries.lock().map.contains_key("shop/first"));
    // Autoscalers of many namespaces take all memory of callers of one namespace, and none of
    // each other's.
    for number in 0..64 {
        let answer = fetch_at(&cluster_wide(&number.to_string()), "query", 1 + number / 4).await;
        assert!(answer.is_ok() || number > 15, "{number}");
    }
    assert!(answers.entries.lock().map.contains_key("0/query"));
    let answer = fetch(&hostile, "other").await;
    assert_eq!(answer, Err(StatusError::TooManyRequests));
    assert!(answers.bytes.load(Ordering::Relaxed) <= 110_000);
}

#[tokio::test]
async fn a_flow_makes_room_until_it_holds_no_more_than_the_one_that_asks() {
    let answers = small_cache(10_000);
    let flow = |namespace: &str| Flow {
        namespace: namespace.into(),
        ..Flow::default()
    };
    let fetch = async |namespace: &str, number: usize, length: usize, second| {
        let query = format!("{namespace}{number}{}", "x".repeat(length));
        let (flow, samples) = (flow(namespace), async { Ok(one(1.0)) });
        let answer = answers.get(&query, &flow, at(second), samples).await;
        answer.map(|_| ())
    };
    for namespace in ["a", "b", "c", "d"] {
        for number in 0..5 {
            let length = if namespace == "a" { 444 } else { 434 };
            assert_eq!(fetch(namespace, number, length, 0).await, Ok(()));
        }
    }
    let held = |namespace: &str| {
        let entries = &answers.entries.lock().map;
        let held = entries
            .values()
            .filter(|entry| entry.flow == flow(namespace));
        held.count()
    };
    assert_eq!(fetch("b", 5, 434, 1).await, Ok(()));
    assert_eq!(["a", "b", "c", "d"].map(held), [4, 6, 5, 5]);
}

#[test]
fn a_few_flows_of_each_level_evict_entries_per_second() {
    let mut entries = Entries::default();
    for second in 0..2 {
        for level in [PriorityLevel::Namespaced, PriorityLevel::ClusterWide] {
            let flow = |number: usize| Flow {
                level,
                namespace: (number / 2).to_string().into(),
            };
            let made = (0..1000)
                .filter(|number| entries.may_evict_for(&flow(*number), at(second)))
                .count();
            assert_eq!(made, EVICTIONS_PER_SECOND, "{level:?}");
        }
    }
}

#[tokio::test]
async fn after_a_failure_there_is_a_pause() {
    let answers = cache();
    check(&answers, 0, Err("gone"), Err("gone")).await;
    check(&answers, 1, Ok(1.0), Err("gone")).await;
    check(&answers, 3, Ok(1.0), Ok((1.0, Source::Store))).await;
}

#[tokio::test]
async fn concurrent_requests_share_one_query() {
    let answers = Arc::new(cache());
    let fetches = Arc::new(AtomicUsize::new(0));
    let (open, opened) = tokio::sync::watch::channel(false);
    let everybody = (0..50).map(|_| {
        let (answers, counter, mut opened) =
            (Arc::clone(&answers), Arc::clone(&fetches), opened.clone());
        tokio::spawn(async move {
            let fetch = async move {
                counter.fetch_add(1, Ordering::SeqCst);
                let _ = opened.wait_for(|open| *open).await;
                Ok(one(7.0))
            };
            let answer = answers.get("up", &Flow::default(), at(0), fetch).await;
            answer.expect("an answer").0[0].value
        })
    });
    let everybody: Vec<_> = everybody.collect();
    open.send(true).expect("a receiver");
    for one in everybody {
        assert!((one.await.expect("no panic") - 7.0).abs() < f64::EPSILON);
    }
    assert_eq!(fetches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn requests_time_out() {
    let answers = cache();
    let flow = Flow::default();
    let got = answers
        .get("up", &flow, at(0), std::future::pending())
        .await;
    assert!(matches!(got, Err(StatusError::Timeout(_))), "{got:?}");
}

#[tokio::test]
async fn unused_queries_are_removed() {
    let answers = cache();
    check(&answers, 0, Ok(1.0), Ok((1.0, Source::Store))).await;
    answers.sweep(at(100));
    assert_eq!(answers.entries.lock().map.len(), 1);
    answers.sweep(at(130));
    assert_eq!(answers.entries.lock().map.len(), 0);
    check(&answers, 3600, Ok(1.0), Ok((1.0, Source::Store))).await;
    answers.sweep(at(0));
    assert_eq!(
        answers.entries.lock().map.len(),
        0,
        "the clock was put back"
    );
}
