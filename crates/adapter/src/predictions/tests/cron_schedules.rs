//! Replicas of cron schedules.

use super::*;

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
    let (open, open_too) = (
        cron("0 9 * * *", "0 17 * * *", 8),
        cron("0 10 * * *", "0 14 * * *", 6),
    );
    let over_midnight = cron("0 22 * * *", "0 13 * * *", 7);
    let (closed, low) = (
        cron("0 13 * * *", "0 17 * * *", 9),
        cron("0 9 * * *", "0 17 * * *", 1),
    );
    let web =
        |crons: Vec<CronSpec>, has_metrics| vec![schedule("web", "Deployment", crons, has_metrics)];
    check_cron(
        web(vec![open.clone(), open_too, closed.clone()], true),
        &selector,
        Ok(&["8"]),
    );
    check_cron(web(vec![over_midnight], true), &selector, Ok(&["7"]));
    check_cron(web(vec![low], true), &selector, Ok(&["2"]));
    check_cron(web(vec![closed.clone()], true), &selector, Ok(&["2"]));
    // The watch has not yet seen the change from five to eight replicas.
    check_cron(web(vec![closed.clone()], false), &selector, Ok(&["8"]));
    check_cron(
        web(vec![closed.clone(), open.clone()], false),
        &selector,
        Ok(&["8"]),
    );
    let none =
        Err("there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector");
    check_cron(web(vec![], true), &selector, none);
    check_cron(vec![], &selector, none);
}

#[test]
fn of_several_ehpas_of_a_workload_the_oldest_counts() {
    let selector = format!("{OF_WEB}cron");
    let (open, closed) = (
        cron("0 9 * * *", "0 17 * * *", 8),
        cron("0 13 * * *", "0 17 * * *", 9),
    );
    let made = |name: &str, ago: i64, cron: Option<&CronSpec>, has_metrics: bool| CronSchedule {
        key: ObjectKey::new("shop", name),
        created_at: now().checked_sub(SignedDuration::from_secs(ago)).ok(),
        ..schedule(
            "web",
            "Deployment",
            cron.cloned().into_iter().collect(),
            has_metrics,
        )
    };
    let elder = || made("z", 60, Some(&closed), true);
    check_cron(
        vec![elder(), made("a", 30, Some(&open), true)],
        &selector,
        Ok(&["2"]),
    );
    check_cron(
        vec![elder(), made("a", 60, Some(&open), true)],
        &selector,
        Ok(&["8"]),
    );
    check_cron(
        vec![elder(), made("a", 30, Some(&closed), false)],
        &selector,
        Ok(&["2"]),
    );
    let leaving = CronSchedule {
        is_terminating: true,
        ..elder()
    };
    check_cron(
        vec![leaving.clone(), made("a", 30, Some(&open), true)],
        &selector,
        Ok(&["8"]),
    );
    let none =
        Err("there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector");
    check_cron(vec![leaving], &selector, none);
    check_cron(
        vec![made("z", 60, None, true), made("a", 30, Some(&open), true)],
        &selector,
        none,
    );
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
        view.predicted_metrics.apply(Arc::new(prediction(
            "a",
            workload("Deployment", "web"),
            &values,
            0,
        )));
        let found = external(
            view,
            "crane_autoscaling_prediction",
            &format!("{OF_WEB}{identifier}"),
        );
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
    let (open, over_midnight) = (
        cron("0 9 * * *", "0 17 * * *", 8),
        cron("0 22 * * *", "0 13 * * *", 7),
    );
    let today = || Ok(vec!["2026-01-07".parse().expect("a date")]);
    check_cron(vec![on(vec![open.clone()], today())], &selector, Ok(&["2"]));
    check_cron(
        vec![on(vec![over_midnight], today())],
        &selector,
        Ok(&["7"]),
    );
    check_cron(
        vec![on(vec![open], Err(HolidaysError::Date("soon".to_owned())))],
        &selector,
        Ok(&["8"]),
    );
}

#[test]
fn invalid_windows_and_unreadable_workloads_are_errors() {
    let selector = |kind: &str, name: &str| {
        format!("targetKind={kind},targetName={name},resourceIdentifier=cron")
    };
    let (closed, odd) = (
        cron("0 13 * * *", "0 17 * * *", 9),
        cron("0 9 * * *", "0 17 * *", 8),
    );
    check_cron(
        vec![schedule(
            "web",
            "Deployment",
            vec![closed.clone(), odd],
            true,
        )],
        &selector("Deployment", "web"),
        Err("crons[1] of shop/web: end: there must be five fields, not 4"),
    );
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
