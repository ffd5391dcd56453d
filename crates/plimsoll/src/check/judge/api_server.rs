//! The API server and clocks.

use crate::check::facts::Facts;
use crate::check::finding::{Finding, Findings};

/// Oldest minor version of Kubernetes 1 that the tests run against, as README names it.
const OLDEST_TESTED_MINOR: u32 = 33;
/// Largest offset of clocks, in seconds.
const MAX_OFFSET: i64 = 60;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::new("api-server");
    findings.ok(
        ("api-server-reachable", "the API server responds"),
        facts.server.clone(),
    );
    version(facts, &mut findings);
    let check = ("clock-offset", "clocks agree");
    match facts.server_time {
        Some(server) => {
            let offset = facts.local_time.as_second() - server.as_second();
            if offset.abs() > MAX_OFFSET {
                findings.warn(
                    check,
                    format!("this computer's clock is {offset} s off the API server's"),
                    "Synchronize the clocks with NTP; ages in the output follow the API server",
                );
            } else {
                findings.ok(check, "");
            }
        }
        None => findings.skip(check, "the API server's response has no Date header"),
    }
    findings.list
}

fn version(facts: &Facts, findings: &mut Findings) {
    let check = ("api-server-version", "Kubernetes is of a tested version");
    let version = &facts.version;
    // Providers append a plus sign.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    match (number(&version.major), number(&version.minor)) {
        (Some(major), Some(minor)) if (major, minor) >= (1, OLDEST_TESTED_MINOR) => {
            findings.ok(check, version.text.clone());
        }
        (Some(_), Some(_)) => findings.warn(
            check,
            format!(
                "the API server is {}, the oldest version that tests run against is 1.{OLDEST_TESTED_MINOR}",
                version.text
            ),
            "Update the cluster, or try each mode on one workload first",
        ),
        _ => findings.skip(check, format!("{:?} is not a version", version.text)),
    }
}
