//! Replicas of cron schedules.

use super::*;

const NONE: Result<&[&str], &str> =
    Err("there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector");

/// A window from one full hour to another.
fn hours(start: u8, end: u8, target_replicas: i32) -> CronSpec {
    let (start, end) = (format!("0 {start} * * *"), format!("0 {end} * * *"));
    cron(&start, &end, target_replicas)
}

fn check_cron(cron_schedules: Vec<CronSchedule>, selector: &str, found: Result<&[&str], &str>) {
    let mut view = shop();
    for schedule in cron_schedules {
        view.cron_schedules.apply(Arc::new(schedule));
    }
    let found = found
        .map(|values| Some(values.iter().map(|&value| value.to_owned()).collect()))
        .map_err(|why| {
            format!("the server could not find the metric crane_autoscaling_cron: {why}")
        });
    assert_eq!(
        external(view, "crane_autoscaling_cron", selector),
        found,
        "{selector}"
    );
}

#[test]
fn open_windows_set_the_replicas() {
    let selector = format!("{OF_WEB}cron");
    let (open, open_too) = (hours(9, 17, 8), hours(10, 14, 6));
    let (over_midnight, low) = (hours(22, 13, 7), hours(9, 17, 1));
    let web = |crons: &[&CronSpec], has_metrics| {
        let crons = crons.iter().copied().cloned().collect();
        vec![schedule("web", "Deployment", crons, has_metrics)]
    };
    let closed = hours(13, 17, 9);
    for (schedules, expected) in [
        (web(&[&open, &open_too, &closed], true), Ok(&["8"][..])),
        (web(&[&over_midnight], true), Ok(&["7"])),
        (web(&[&low], true), Ok(&["2"])),
        (web(&[&closed], true), Ok(&["2"])),
        // The watch has not yet seen the change from five to eight replicas.
        (web(&[&closed], false), Ok(&["8"])),
        (web(&[&closed, &open], false), Ok(&["8"])),
        (web(&[], true), NONE),
        (vec![], NONE),
    ] {
        check_cron(schedules, &selector, expected);
    }
}

#[test]
fn of_several_ehpas_of_a_workload_the_oldest_counts() {
    let selector = format!("{OF_WEB}cron");
    let (open, closed) = (hours(9, 17, 8), hours(13, 17, 9));
    let made = |name: &str, ago: i64, cron: Option<&CronSpec>, has_metrics: bool| CronSchedule {
        key: ObjectKey::new("shop", name),
        created_at: now().checked_sub(SignedDuration::from_secs(ago)).ok(),
        ..schedule(
            "web",
            "Deployment",
            Vec::from_iter(cron.cloned()),
            has_metrics,
        )
    };
    let elder = || made("z", 60, Some(&closed), true);
    let younger = || made("a", 30, Some(&open), true);
    let as_old = made("a", 60, Some(&open), true);
    let idle = made("a", 30, Some(&closed), false);
    let leaving = CronSchedule {
        is_terminating: true,
        ..elder()
    };
    for (schedules, expected) in [
        (vec![elder(), younger()], Ok(&["2"][..])),
        (vec![elder(), as_old], Ok(&["8"])),
        (vec![elder(), idle], Ok(&["2"])),
        (vec![leaving.clone(), younger()], Ok(&["8"])),
        (vec![leaving], NONE),
        (vec![made("z", 60, None, true), younger()], NONE),
    ] {
        check_cron(schedules, &selector, expected);
    }
}

#[test]
fn of_several_predictions_of_a_workload_that_of_the_oldest_ehpa_counts() {
    for (identifier, expected) in [("resource.cpu", "2900m"), ("external.more", "5")] {
        let mut view = shop();
        for (name, seconds) in [("a", 1), ("web", 0)] {
            let created_at = now().checked_add(SignedDuration::from_secs(seconds)).ok();
            let key = ObjectKey::new("shop", name);
            let uid = name.to_owned();
            let object = CronSchedule {
                key,
                uid,
                created_at,
                ..schedule("web", "Deployment", vec![], true)
            };
            view.cron_schedules.apply(Arc::new(object));
        }
        // Only one of them has the second metric.
        let values = [("resource.cpu", 90.0), ("external.more", 5.0)];
        view.predicted_metrics
            .apply(Arc::new(prediction("a", "web", &values, 0)));
        let selector = format!("{OF_WEB}{identifier}");
        let found = external(view, "crane_autoscaling_prediction", &selector);
        assert_eq!(found, Ok(Some(vec![expected.to_owned()])), "{identifier}");
    }
}

#[test]
fn no_window_opens_on_a_holiday() {
    let selector = format!("{OF_WEB}cron");
    let on = |crons: Vec<CronSpec>, holidays| CronSchedule {
        holidays,
        ..schedule("web", "Deployment", crons, true)
    };
    let (open, over_midnight) = (hours(9, 17, 8), hours(22, 13, 7));
    let today = || Ok(vec!["2026-01-07".parse().expect("a date")]);
    let unreadable = Err(HolidaysError::Date("soon".to_owned()));
    for (cron, holidays, expected) in [
        (open.clone(), today(), "2"),
        (over_midnight, today(), "7"),
        (open, unreadable, "8"),
    ] {
        let schedules = vec![on(vec![cron], holidays)];
        check_cron(schedules, &selector, Ok(&[expected]));
    }
}

#[test]
fn invalid_windows_and_unreadable_workloads_are_errors() {
    let selector = |kind: &str, name: &str| {
        format!("targetKind={kind},targetName={name},resourceIdentifier=cron")
    };
    let (closed, odd) = (hours(13, 17, 9), cron("0 9 * * *", "0 17 * *", 8));
    let both = schedule("web", "Deployment", vec![closed.clone(), odd], true);
    let why = "crons[1] of shop/web: end: there must be five fields, not 4";
    check_cron(vec![both], &selector("Deployment", "web"), Err(why));
    check_cron(
        vec![schedule("web", "StatefulSet", vec![closed.clone()], false)],
        &selector("StatefulSet", "web"),
        Err("no window is open, StatefulSet shop/web keeps its replicas: it does not exist"),
    );
    let mut rollout = schedule("web", "Rollout", vec![closed.clone()], false);
    rollout.target.api_version = "argoproj.io/v1alpha1".to_owned();
    check_cron(vec![rollout], &selector("Rollout", "web"), Ok(&["8"]));
    check_cron(
        vec![schedule("gone", "Deployment", vec![closed], false)],
        &selector("Deployment", "gone"),
        Err("no window is open, Deployment shop/gone keeps its replicas: it does not exist"),
    );
}
