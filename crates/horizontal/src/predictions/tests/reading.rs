//! Reads of a history: ranges, chunks and times.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use promql::Excess;

#[test]
fn rounds_of_usage_become_a_history() {
    let mut fixture = Fixture::new(own(), START);
    let rounds = (2 * DAY + 4 * HOUR) / 300;
    for round in 0..rounds {
        // Some rounds have no sample.
        let sample = (round % 50 != 0).then(|| load(START + round * 300));
        let second = START + round * 300;
        fixture
            .pipeline
            .append_current(at(second + 7), sample, at(second + 8));
    }
    fixture.check_forecast(START + rounds * 300, true, "");
}

#[test]
fn after_a_clock_that_was_ahead_the_whole_history_is_read_again() {
    let now = START + 10 * DAY + 6 * HOUR + 60;
    let mut fixture = Fixture::new(own(), now);
    fixture.read(now, START);
    let expected = fixture.forecast(now);
    for ahead in [HOUR, 3 * DAY, 4000 * DAY] {
        fixture.read(now + ahead, START);
        assert!(fixture.pipeline.is_due(now), "{ahead}");
        assert_eq!(fixture.read(now, START), 14 * 288 + 1, "{ahead}");
        assert_eq!(fixture.forecast(now).metrics, expected.metrics, "{ahead}");
        let is_due = [0, 300 + 90].map(|later| fixture.pipeline.is_due(now + later));
        assert_eq!(is_due, [false, true], "{ahead}");
    }
}

#[test]
fn a_small_clock_step_back_loses_no_samples() {
    for step_seconds in [300, 3600] {
        let quantile = Quantile::Expected;
        let method = Method::Plimsoll {
            step_seconds,
            quantile,
        };
        let mut fixture = Fixture::new(method, START);
        let rounds = (3 * DAY + 4 * HOUR) / 300;
        for round in 0..rounds {
            let heard_at = START + round * 300;
            for second in [heard_at, heard_at - 5] {
                let sample = Some(load(heard_at));
                fixture
                    .pipeline
                    .append_current(at(second), sample, at(second));
            }
        }
        fixture.check_forecast(START + rounds * 300, true, "");
    }
}

#[test]
fn a_long_history_is_read_in_chunks_and_forecast_after_the_last() {
    let now = START + 20 * DAY + 60;
    let mut whole = Fixture::new(own(), now);
    whole.read(now, START);
    let mut fixture = Fixture::new(own(), now);
    let range = fixture.pipeline.range(at(now));
    let (mut parts, mut next) = (0, range.first);
    loop {
        let chunk = fixture.pipeline.chunk(at(now));
        let points = (chunk.range.last - chunk.range.first) / 300 + 1;
        assert!(chunk.range.first == next && points <= 2000, "{chunk:?}");
        let samples = answer(chunk.range, START);
        fixture.pipeline.append_chunk(chunk, samples, at(now));
        (parts, next) = (parts + 1, chunk.range.last);
        if chunk.is_last {
            break;
        }
        let result = fixture.result();
        assert!(result.is_known() && result.metrics[0].forecasts.is_none());
        assert!(fixture.pipeline.is_due(now));
        let pending = (ConditionStatus::Unknown, "HistoryPending", String::new());
        assert_eq!(result.history(), pending);
    }
    assert_eq!((parts, next), (3, range.last));
    assert!(!fixture.pipeline.is_due(now));
    assert_eq!(fixture.forecast(now).metrics, whole.forecast(now).metrics);
}

#[test]
fn slow_reads_get_smaller_chunks_and_then_longer_pauses() {
    let now = START + 20 * DAY + 60;
    let points = |pipeline: &MetricPipeline, now: i64| {
        let range = pipeline.chunk(at(now)).range;
        (range.last - range.first) / i64::from(range.step) + 1
    };
    for (excess, least) in [(Excess::Time, 500), (Excess::Size, 62)] {
        let mut pipeline = Fixture::new(own(), now).pipeline;
        let mut requested = vec![points(&pipeline, now)];
        while pipeline.reduce_chunk(pipeline.chunk(at(now)), excess, at(now)) {
            requested.push(points(&pipeline, now));
        }
        assert_eq!(requested[..2], [2000, 1000], "{excess:?}");
        assert_eq!(requested.last(), Some(&least), "{excess:?}");
        pipeline.fail_after("it takes too long", Duration::from_secs(65), at(now));
        assert_eq!(pipeline.due(), Some(now + 4 * 65));
        assert_eq!(points(&pipeline, now), least, "it begins with what is left");
        while !pipeline.chunk(at(now)).is_last {
            let chunk = pipeline.chunk(at(now));
            pipeline.append_chunk(chunk, answer(chunk.range, START), at(now));
        }
        pipeline.append(pipeline.range(at(now)), Samples::new(), at(now));
        // What was slow once may be quick later.
        assert_eq!(points(&pipeline, now + 10 * DAY), 2000);
    }
}

proptest! {
    /// For any times of reads, ranges are in order, multiples of the step, never longer than the
    /// history, and without gaps.
    #[test]
    fn ranges_are_in_order_and_leave_no_gap(pauses in prop::collection::vec(1_i64..20 * DAY, 1..20), step in prop::sample::select(vec![60_u32, 300, 432])) {
        let mut now = START;
        let mut pipeline = Fixture::new(Method::Plimsoll { step_seconds: step, quantile: Quantile::P90 }, now).pipeline;
        let mut last = None;
        for pause in pauses {
            now += pause;
            let range = pipeline.range(at(now));
            prop_assert!(range.first <= range.last && range.last < now);
            prop_assert!(range.last - range.first <= 14 * DAY);
            prop_assert_eq!((range.last % i64::from(step), range.first % i64::from(step)), (0, 0));
            if let Some(last) = last {
                prop_assert!(range.first == last || range.last - range.first > 14 * DAY - i64::from(step));
            }
            last = Some(range.last);
            pipeline.append(range, Samples::new(), at(now));
            prop_assert!(pipeline.due().is_some_and(|due| due > now));
        }
    }
}
