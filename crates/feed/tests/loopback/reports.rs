//! Reports of the updater.

use std::sync::Arc;
use std::time::Duration;

use feed::client::{ReportPace, Reports};
use feed::proto::ReportApplicationsRequest;
use feed::{ApplicationReport, Reader};
use tokio::sync::watch;
use tonic::Code;

use crate::certificates::Authority;
use crate::fixture::{LIMIT, Replica, recommendation, server_name};

const PACE: ReportPace = ReportPace {
    pause: Duration::from_millis(10),
    refresh: Duration::from_mins(5),
};

fn report(uid: &str, reason: &str) -> Arc<ApplicationReport> {
    Arc::new(ApplicationReport {
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        applied: reason == "Applied",
        reason: reason.to_owned(),
        message: "No pod of 1 needs other requests".to_owned(),
    })
}

fn reports(all: &[(&str, &str)]) -> Reports {
    let report = |(uid, reason): &(&str, &str)| ((*uid).to_owned(), report(uid, reason));
    all.iter().map(report).collect()
}

/// Waits until the replica has these reasons, in any order of the calls.
async fn until(replica: &Replica, expected: &[(&str, &str)]) {
    let has_all = async {
        loop {
            let found = replica.reports.lock().unwrap().clone();
            if found == reports(expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let has_all = tokio::time::timeout(LIMIT, has_all).await;
    assert!(has_all.is_ok(), "{:?}", replica.reports.lock().unwrap());
}

#[tokio::test]
async fn changed_reports_reach_the_leader_and_all_of_them_its_successor() {
    let authority = Authority::new();
    let (first, second) = (
        Replica::start(&authority).await,
        Replica::start(&authority).await,
    );
    let term = first.lead(1, [recommendation("a", 1)]);
    let (leader, leaders) = watch::channel(Some(first.address.clone()));
    let (sender, receiver) = watch::channel(Reports::new());
    let tls = authority.named("plimsoll-updater");
    let reader = Reader {
        leaders: vec![leaders],
        tls: Arc::new(move || Arc::clone(&tls)),
        server_name: server_name(),
    };
    let reporting = tokio::spawn(reader.report(receiver, PACE));
    let many: Vec<String> = (0..450).map(|number| format!("u-{number}")).collect();
    let mut all: Vec<(&str, &str)> = many.iter().map(|uid| (uid.as_str(), "Applied")).collect();
    sender.send_replace(reports(&all));
    until(&first, &all).await;
    first.reports.lock().unwrap().clear();
    all[7].1 = "DisruptionBudget";
    sender.send_replace(reports(&all));
    until(&first, &all[7..8]).await;

    drop(term);
    let _term = second.lead(2, [recommendation("a", 1)]);
    leader.send_replace(Some(second.address.clone()));
    until(&second, &all).await;
    drop(sender);
    tokio::time::timeout(LIMIT, reporting)
        .await
        .expect("the task ends with its sender")
        .expect("no panic");
}

#[tokio::test]
async fn only_the_updater_may_report_and_only_to_the_leader() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let attempt = async |name: &str, reason: &str| {
        let mut client = replica.client(authority.named(name)).await.unwrap();
        let reports = vec![(*report("u-1", reason)).clone()];
        let request = ReportApplicationsRequest { reports };
        let called = client.report_applications(request).await;
        called
            .map(|response| response.into_inner().term)
            .map_err(|status| status.code())
    };
    let called = attempt("plimsoll-updater", "Applied").await;
    assert_eq!(called, Err(Code::Unavailable), "there is no leader");
    let _term = replica.lead(3, [recommendation("a", 1)]);
    assert_eq!(attempt("plimsoll-updater", "Applied").await, Ok(3));
    let long = "x".repeat(100_000);
    for (name, reason, code) in [
        ("plimsoll-updater", &*long, Code::OutOfRange),
        ("plimsoll-webhook", "Applied", Code::PermissionDenied),
        ("plimsoll-stranger", "Applied", Code::PermissionDenied),
        ("plimsoll-updater", "two words", Code::InvalidArgument),
    ] {
        assert_eq!(attempt(name, reason).await, Err(code), "{name}: {reason}");
    }
    assert_eq!(
        *replica.reports.lock().unwrap(),
        reports(&[("u-1", "Applied")])
    );
}
