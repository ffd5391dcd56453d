//! The API server and clocks.

use crate::check::facts::Facts;
use crate::check::finding::Findings;

/// Oldest minor version of Kubernetes 1 that the tests run against, as README names it.
const OLDEST_TESTED_MINOR: u32 = 33;
/// Largest offset of clocks, in seconds.
const MAX_OFFSET: i64 = 60;

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "api-server";
    let mut check = findings.check("api-server-reachable", "the API server responds");
    check.ok(&facts.server);
    version(facts, findings);
    let mut check = findings.check("clock-offset", "clocks agree");
    match facts.server_time {
        Some(server) => {
            let offset = facts.local_time.as_second() - server.as_second();
            if offset.abs() > MAX_OFFSET {
                check.warn(
                    format!("this computer's clock is {offset} s off the API server's"),
                    "Synchronize the clocks with NTP; ages in the output follow the API server",
                );
            } else {
                check.ok("");
            }
        }
        None => check.skip("the API server's response has no Date header"),
    }
}

fn version(facts: &Facts, findings: &mut Findings) {
    let mut check = findings.check("api-server-version", "Kubernetes is of a tested version");
    let version = &facts.version;
    // Providers append a plus sign.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    match (number(&version.major), number(&version.minor)) {
        (Some(major), Some(minor)) if (major, minor) >= (1, OLDEST_TESTED_MINOR) => {
            check.ok(version.text.clone());
        }
        (Some(_), Some(_)) => check.warn(format!(
                "the API server is {}, the oldest version that tests run against is 1.{OLDEST_TESTED_MINOR}",
                version.text
            ),
            "Update the cluster, or try each mode on one workload first",
        ),
        _ => check.skip(format!("{:?} is not a version", version.text)),
    }
}
