//! Crane's DSP predictor, whose fits take long.

use forecast::crane;

use super::*;

#[test]
fn the_forecast_is_that_of_cranes_predictor() {
    let now = START + 5 * DAY + 40;
    let Method::Dsp { dsp, .. } = of_crane() else {
        panic!("it is Crane's")
    };
    let mut fixture = Fixture::new(of_crane(), now);
    fixture.read(now, START);
    let range = ReadRange {
        first: START + 2 * DAY - HOUR,
        last: START + 5 * DAY,
        step: 300,
    };
    let samples = only_series(range);
    let expected = dsp
        .forecast_while(&samples, || true)
        .expect("it is periodic");
    let series = fixture.metric_forecast(now).series.remove(0);
    assert_eq!(series.first_second, expected.first_second);
    let first: Vec<f64> = expected.values().take(series.values.len()).collect();
    assert_eq!((series.values.len(), &series.values), (24, &first));
}

fn of_crane() -> Method {
    let dsp = crane::Dsp {
        step_seconds: 300,
        ..crane::Dsp::default()
    };
    let history_seconds = u32::try_from(3 * DAY).expect("three days");
    Method::Dsp {
        dsp,
        history_seconds,
    }
}

#[test]
fn during_a_fit_the_written_forecast_stays_and_read_errors_are_reported() {
    let now = START + 5 * DAY + 40;
    let mut before = Fixture::new(of_crane(), now);
    before.read(now, START);
    before.write(now).expect("a first status");
    let mut after = Fixture::new(of_crane(), now + 60);
    after.written = before.written;
    let range = after.pipeline.range(at(now + 60));
    let samples = answer(range, START);
    after.pipeline.append(range, samples, at(now + 60));
    let metric = after.metric_forecast(now + 60);
    assert_eq!((metric.is_ready, metric.reason.as_str()), (true, ""));
    let fit_task = after.pipeline.fit_task().expect("it is to be looked at");
    after.pipeline.fail("connection refused", at(now + 90));
    fit_task.run();
    after.pipeline.collect_fits(at(now + 90));
    after.check_forecast(now + 90, true, "connection refused");
    assert_eq!(after.metric_forecast(now + 90).made_at, Some(at(now + 90)));
    // A lost fit is reported, and repeated after a while.
    let mut lost = Fixture::new(of_crane(), now);
    let range = lost.pipeline.range(at(now));
    lost.pipeline.append(range, answer(range, START), at(now));
    drop(lost.pipeline.fit_task());
    lost.pipeline.collect_fits(at(now));
    assert_eq!(lost.metric_forecast(now).reason, "the predictor failed");
    lost.read(now + 2 * HOUR, START);
    lost.check_forecast(now + 2 * HOUR, true, "");
}
