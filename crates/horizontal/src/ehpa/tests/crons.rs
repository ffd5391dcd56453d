//! Cron schedules of a workload.

use api::ehpa::SCHEDULE_ACTIVE;
use serde_json::{Value, json};

use super::fixture::{
    Fixture, by_day, cpu, existing_hpa, external, owner, planned_hpa, planned_metrics, reasons,
};
use crate::ehpa::plan::Desired;
use crate::ehpa::status::status;

#[test]
fn crons_are_one_metric_and_an_invalid_one_is_reported() {
    let crons = |timezone: &str, second: &str| {
        json!({"metrics": [], "crons": [
            {"name": "day", "timezone": timezone, "start": "0 9 ? * *", "end": "0 18 * * *", "targetReplicas": 80},
            {"name": second, "timezone": timezone, "start": "0 9 ? * *", "end": "0 18 * * *", "targetReplicas": 10},
        ]})
    };
    let check = |extra: &Value, metrics: &Value, problem: &str| {
        let plan = Fixture::new(extra).plan();
        assert_eq!(planned_metrics(&plan), *metrics, "{extra}");
        assert_eq!(plan.prediction, Desired::Keep);
        let messages: String = plan
            .problems
            .iter()
            .map(|problem| problem.message.as_str())
            .collect();
        assert_eq!(messages, problem);
    };
    let metric = json!([external("crane_autoscaling_cron", "cron", "1")]);
    check(&crons("Local", "night"), &metric, "");
    let also = |crons: Value| json!({"prediction": null, "crons": crons["crons"]});
    let cpu = json!([cpu(50)]);
    let zone = "crons[0] (day): timezone: the time zone \"Mars/Olympus\" is not known";
    check(&also(crons("Mars/Olympus", "night")), &cpu, zone);
    let twice = "crons[1] (DAY): another cron has the same name except for upper and lower case, and the same times";
    check(&also(crons("UTC", "DAY")), &cpu, twice);

    // An invalid cron leaves the metric in an HPA that has it.
    let own = planned_hpa(&Fixture::new(&crons("UTC", "night")).plan());
    let plan = Fixture::new(&crons("Mars/Olympus", "night"))
        .hpa(own.clone())
        .plan();
    assert_eq!(
        (planned_metrics(&plan), reasons(&plan)),
        (metric, vec!["InvalidCron"])
    );
    let plan = Fixture::new(&json!({"metrics": []})).hpa(own).plan();
    assert_eq!(
        (planned_metrics(&plan), reasons(&plan)),
        (Value::Null, vec![])
    );
}

#[test]
fn without_any_valid_metric_no_default_is_used() {
    let invalid = vec!["InvalidCron", "NoScalingMetrics"];
    let wrong = |strategy: &str| {
        let mut cron = by_day();
        cron["timezone"] = json!("Mars/Olympus");
        Fixture::new(
            &json!({"metrics": [], "crons": [cron], "scaleStrategy": strategy, "maxReplicas": 30}),
        )
    };
    let cpu = json!([cpu(70)]);
    let working = |extra: &Value| {
        let mut there = existing_hpa("theirs", extra);
        there["spec"]["metrics"] = cpu.clone();
        there
    };
    let own = working(&json!({"ownerReferences": owner("u1")}));
    for strategy in ["Auto", "Preview"] {
        let plan = wrong(strategy).plan();
        assert_eq!(
            (plan.hpa.is_none(), reasons(&plan)),
            (true, invalid.clone()),
            "{strategy}"
        );
        assert_eq!(plan.substitute, Desired::Keep, "{strategy}: none is made");

        // An existing HPA keeps its metrics.
        let plan = wrong(strategy).hpa(own.clone()).plan();
        let spec = &planned_hpa(&plan)["spec"];
        assert_eq!(
            (&spec["metrics"], &spec["maxReplicas"]),
            (&cpu, &json!(30)),
            "{strategy}"
        );
        let has_substitute = matches!(plan.substitute, Desired::Apply(_));
        assert_eq!(
            (has_substitute, reasons(&plan)),
            (strategy == "Preview", invalid.clone())
        );
    }
    let plan = wrong("Auto").hpa(working(&json!({}))).plan();
    assert_eq!(
        (plan.hpa.is_none(), plan.adopts, reasons(&plan)),
        (true, false, invalid)
    );
}

#[test]
fn invalid_holidays_are_reported_and_ignored() {
    let mut fixture = Fixture::new(&json!({"metrics": [], "crons": [by_day()]}));
    for (holidays, expected) in [
        ("2026-12-25", vec![]),
        ("Christmas", vec!["InvalidHolidays"]),
    ] {
        fixture = fixture.annotated("plimsoll.dev/holidays", holidays);
        let plan = fixture.plan();
        assert_eq!(reasons(&plan), expected);
        let metrics = json!([external("crane_autoscaling_cron", "cron", "1")]);
        assert_eq!(planned_metrics(&plan), metrics);
    }
}

#[test]
fn the_condition_has_the_windows_of_seven_days() {
    let check = |cron: Value, expected: Option<(&str, &str)>| {
        let fixture = Fixture::new(&json!({"crons": [cron]}));
        let status = status(&fixture.observed(), &[], false);
        let mut conditions = status.conditions.iter();
        let found = conditions.find(|condition| condition.kind == SCHEDULE_ACTIVE);
        let found = found.map(|condition| (&*condition.reason, &*condition.message));
        assert_eq!(found, expected);
    };
    let cron = |start: &str, end: &str| {
        json!({"name": "day", "start": start, "end": end, "targetReplicas": 10,
               "timezone": "Europe/Berlin"})
    };
    // It is Thursday, one hour after midnight.
    let weekdays = "Thu 2026-01-01 08:00 to 18:00 CET: day, 10 replicas; \
                    Fri 2026-01-02 08:00 to 18:00 CET: day, 10 replicas; \
                    Mon 2026-01-05 08:00 to 18:00 CET: day, 10 replicas; \
                    Tue 2026-01-06 08:00 to 18:00 CET: day, 10 replicas; \
                    Wed 2026-01-07 08:00 to 18:00 CET: day, 10 replicas";
    check(
        cron("0 8 * * 1-5", "0 18 * * *"),
        Some(("SchedulesClosed", weekdays)),
    );
    let long = "Mon 2025-12-29 08:00 to Fri 2026-01-02 18:00 CET: day, 10 replicas; \
                Mon 2026-01-05 08:00 to later CET: day, 10 replicas";
    check(
        cron("0 8 * * 1", "0 18 * * 5"),
        Some(("ScheduleOpen", long)),
    );
    let none = "No schedule opens within seven days";
    check(
        cron("0 8 1 3 *", "0 18 1 3 *"),
        Some(("SchedulesClosed", none)),
    );
    check(cron("never", "0 18 1 3 *"), None);
}

#[test]
fn a_window_that_never_opens_is_a_problem() {
    for (start, end, why) in [
        ("0 8 31 4 *", "0 18 * * *", "start never comes"),
        ("0 8 * * *", "0 8 * * *", "start and end are the same"),
    ] {
        let cron = json!({"name": "day", "start": start, "end": end, "targetReplicas": 10});
        let plan = Fixture::new(&json!({"crons": [cron]})).plan();
        let expected = format!("crons[0] (day): {why}, so the window never opens");
        assert_eq!(plan.problems[0].message, expected);
    }
}
