//! The heartbeat Lease, with tokio's clock paused.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use kube::Api;
use runtime::ApiServerClock;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use webhook::heartbeat::Heartbeat;

use crate::api_server::ApiServer;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/suite/leases/vpa-admission-controller";
const INTERVAL: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_hours(24);

/// The API server's time, which follows tokio's clock.
#[derive(Clone, Copy)]
struct Time {
    start: Instant,
}

impl Time {
    fn starting() -> Self {
        let start = Instant::now();
        Self { start }
    }

    fn now(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000 + self.start.elapsed()
    }
}

/// The heartbeat of a replica whose clock shows `own` at its start.
fn heartbeat(api_server: &ApiServer, holder: &str, time: Time, own: SystemTime) -> Heartbeat {
    let clock = ApiServerClock::default();
    clock.observe(own, own, Instant::now().into_std());
    let client = api_server.client_with(&clock, move || Timestamp::try_from(time.now()).ok());
    let leases = Api::namespaced(client, "suite");
    Heartbeat {
        leases,
        clock,
        name: "vpa-admission-controller".to_owned(),
        holder: holder.to_owned(),
        interval: INTERVAL,
    }
}

fn renewed_at(lease: &Value) -> Option<SystemTime> {
    let time = lease["spec"]["renewTime"].as_str()?;
    Some(time.parse::<Timestamp>().expect("a time").into())
}

#[tokio::test(start_paused = true)]
async fn the_renew_time_is_current_whatever_the_clocks_of_replicas_show() {
    let (api_server, time) = (ApiServer::default(), Time::starting());
    let (_sender, in_effect) = watch::channel(true);
    let now = time.now();
    for (holder, own) in [
        ("ahead", now + DAY * 200),
        ("behind", now - Duration::from_hours(1)),
        ("right", now),
    ] {
        tokio::spawn(heartbeat(&api_server, holder, time, own).run(in_effect.clone()));
        sleep(Duration::from_secs(3)).await;
    }
    let (mut last, mut before) = (None, 0);
    for second in (20..900).step_by(5) {
        sleep(Duration::from_secs(5)).await;
        let lease = api_server.get(PATH).expect("a lease");
        let renewed = renewed_at(&lease).expect("a renewTime");
        let age = time.now().duration_since(renewed);
        let ahead = renewed.duration_since(time.now());
        // The `Date` of a response has whole seconds.
        let is_current = age.is_ok_and(|age| age <= INTERVAL + Duration::from_secs(2))
            || ahead.is_ok_and(|ahead| ahead <= Duration::from_secs(1));
        // As an older version or a user may write it.
        let is_wrong = second % 300 == 0;
        assert!(is_current, "after {second} s: {lease}");
        let is_later = last.is_none_or(|last| renewed + Duration::from_secs(1) >= last);
        assert!(is_later, "moved back at {second} s");
        last = Some(renewed);
        if is_wrong {
            let mut wrong = lease;
            let ahead = Timestamp::try_from(time.now() + DAY * 200).expect("a time");
            wrong["spec"]["renewTime"] = json!(ahead.to_string());
            api_server.put(PATH, &wrong);
            sleep(INTERVAL).await;
        }
        let versions = api_server.versions(PATH).len();
        let writes = versions - before;
        assert!(writes <= 15, "{writes} writes in a few seconds");
        before = versions;
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_only_while_the_webhook_is_in_effect() {
    let (api_server, time) = (ApiServer::default(), Time::starting());
    let (sender, in_effect) = watch::channel(false);
    tokio::spawn(heartbeat(&api_server, "right", time, time.now()).run(in_effect));
    let renewed = || renewed_at(&api_server.get(PATH).expect("a lease")).expect("a renewTime");
    let hour = Duration::from_hours(1);
    sleep(hour).await;
    assert_eq!(api_server.get(PATH), None);
    for _ in 0..2 {
        sender.send(true).expect("a heartbeat");
        sleep(hour).await;
        assert!(renewed() + INTERVAL * 2 > time.now());
        sender.send(false).expect("a heartbeat");
        sleep(hour).await;
        assert!(renewed() + hour - INTERVAL * 2 < time.now());
    }
}
