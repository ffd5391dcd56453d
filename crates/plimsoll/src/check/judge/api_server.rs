//! The API server and clocks.

use k8s_openapi::apimachinery::pkg::version::Info;

use crate::check::facts::Facts;
use crate::check::finding::{Findings, Verdict, skip, warn};

/// Oldest minor version of Kubernetes 1 that the tests run against, as README names it.
const OLDEST_TESTED_MINOR: u32 = 33;
/// Largest offset of clocks, in seconds.
const MAX_OFFSET: i64 = 60;

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "api-server";
    let responds = Ok(facts.server.clone());
    findings.add("api-server-reachable", "the API server responds", responds);
    let title = "Kubernetes is of a tested version";
    findings.add("api-server-version", title, version(&facts.version));
    findings.add("clock-offset", "clocks agree", clocks(facts));
}

fn version(version: &Info) -> Verdict {
    // Providers append a plus sign.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    let text = &version.git_version;
    match (number(&version.major), number(&version.minor)) {
        (Some(major), Some(minor)) if (major, minor) >= (1, OLDEST_TESTED_MINOR) => {
            Ok(text.clone())
        }
        (Some(_), Some(_)) => warn(
            format!(
                "the API server is {text}, the oldest version that tests run against is 1.{OLDEST_TESTED_MINOR}"
            ),
            "Update the cluster, or try each mode on one workload first",
        ),
        _ => skip(format!("{text:?} is not a version")),
    }
}

fn clocks(facts: &Facts) -> Verdict {
    let Some(server) = facts.server_time else {
        return skip("the API server's response has no Date header");
    };
    let offset = facts.local_time.as_second() - server.as_second();
    if offset.abs() > MAX_OFFSET {
        return warn(
            format!("this computer's clock is {offset} s off the API server's"),
            "Synchronize the clocks with NTP; ages in the output follow the API server",
        );
    }
    Ok(String::new())
}
