//! Cron schedules of a workload.

use serde_json::{Value, json};

use super::fixture::{Fixture, existing_hpa, external, owner, planned_hpa, reasons, resource};
use crate::ehpa::plan::Desired;

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
        assert_eq!(planned_hpa(&plan)["spec"]["metrics"], *metrics, "{extra}");
        assert_eq!(plan.prediction, Desired::Keep);
        let messages: Vec<_> = plan
            .problems
            .iter()
            .map(|problem| problem.message.as_str())
            .collect();
        assert_eq!(messages.join(""), problem);
    };
    let metric = json!([external("crane_autoscaling_cron", "cron", "1")]);
    check(&crons("Local", "night"), &metric, "");
    let also = |crons: Value| json!({"prediction": null, "crons": crons["crons"]});
    let cpu = json!([resource(
        "cpu",
        &json!({"type": "Utilization", "averageUtilization": 50})
    )]);
    let zone = "crons[0] (day): timezone: the time zone \"Mars/Olympus\" is not known";
    check(&also(crons("Mars/Olympus", "night")), &cpu, zone);
    let twice =
        "crons[1] (DAY): another one has the same name, but for its case, and the same times";
    check(&also(crons("UTC", "DAY")), &cpu, twice);

    // An invalid cron leaves the metric in an HPA that has it.
    let own = planned_hpa(&Fixture::new(&crons("UTC", "night")).plan());
    let plan = Fixture::new(&crons("Mars/Olympus", "night"))
        .hpa(own.clone())
        .plan();
    assert_eq!(
        (&planned_hpa(&plan)["spec"]["metrics"], reasons(&plan)),
        (&metric, vec!["InvalidCron"])
    );
    let plan = Fixture::new(&json!({"metrics": []})).hpa(own).plan();
    assert_eq!(
        (&planned_hpa(&plan)["spec"]["metrics"], reasons(&plan)),
        (&Value::Null, vec![])
    );
}

#[test]
fn without_any_valid_metric_no_default_is_used() {
    let wrong = |strategy: &str| {
        let cron = json!({"timezone": "Mars/Olympus", "start": "0 9 * * *", "end": "0 18 * * *", "targetReplicas": 80});
        Fixture::new(
            &json!({"metrics": [], "crons": [cron], "scaleStrategy": strategy, "maxReplicas": 30}),
        )
    };
    for strategy in ["Auto", "Preview"] {
        let plan = wrong(strategy).plan();
        let found = (plan.hpa.is_none(), plan.substitute.clone(), reasons(&plan));
        assert_eq!(
            found,
            (true, Desired::Keep, vec!["InvalidCron", "NoScalingMetrics"]),
            "{strategy}: none is made"
        );
    }
    let cpu = json!([resource(
        "cpu",
        &json!({"type": "Utilization", "averageUtilization": 70})
    )]);
    let working = |extra: &Value| {
        let mut there = existing_hpa("theirs", extra);
        there["spec"]["metrics"] = cpu.clone();
        there
    };
    let plan = wrong("Auto").hpa(working(&json!({}))).plan();
    assert_eq!(
        (plan.hpa.is_none(), plan.adopts, reasons(&plan)),
        (true, false, vec!["InvalidCron", "NoScalingMetrics"])
    );
    // An existing HPA keeps its metrics.
    let own = working(&json!({"ownerReferences": owner("u1")}));
    for strategy in ["Auto", "Preview"] {
        let plan = wrong(strategy).hpa(own.clone()).plan();
        let spec = &planned_hpa(&plan)["spec"];
        assert_eq!(
            (&spec["metrics"], &spec["maxReplicas"]),
            (&cpu, &json!(30)),
            "{strategy}"
        );
        assert_eq!(
            (matches!(plan.substitute, Desired::Apply(_)), reasons(&plan)),
            (
                strategy == "Preview",
                vec!["InvalidCron", "NoScalingMetrics"]
            )
        );
    }
}

#[test]
fn invalid_holidays_are_reported_and_ignored() {
    let crons =
        json!([{"name": "day", "start": "0 9 * * *", "end": "0 18 * * *", "targetReplicas": 80}]);
    let mut fixture = Fixture::new(&json!({"metrics": [], "crons": crons}));
    for (holidays, expected) in [
        ("2026-12-25", vec![]),
        ("Christmas", vec!["InvalidHolidays"]),
    ] {
        let annotations = fixture.object.metadata.annotations.get_or_insert_default();
        annotations.insert("plimsoll.dev/holidays".to_owned(), holidays.to_owned());
        let plan = fixture.plan();
        assert_eq!(reasons(&plan), expected);
        assert_eq!(
            planned_hpa(&plan)["spec"]["metrics"],
            json!([external("crane_autoscaling_cron", "cron", "1")])
        );
    }
}
