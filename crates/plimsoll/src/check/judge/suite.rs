//! Programs of the suite: Deployments, versions, Leases, the stop switch, certificates.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

use crate::check::facts::{CertificateFact, Facts, StopFact, StoredChain};
use crate::check::finding::{Findings, Read, Verdict, error, skip, warn};
use crate::installation::{ObjectName, Program, scheduler};

/// Remaining validity of a certificate, in seconds, below which an operator should look. A
/// self-managed one is replaced long before.
const SOON: i64 = 7 * 86_400;
/// Time after which the webhook's Lease expires for the updater, in seconds.
const HEARTBEAT: i64 = 60;
/// Delay of a renewal that is no fault yet, in seconds. The `Date` header has whole seconds.
const GRACE: i64 = 5;

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "programs";
    let programs = facts.programs();
    let title = "the programs are installed";
    findings.add("programs-installed", title, installed(facts, &programs));
    if let Ok(deployments) = &facts.deployments {
        let scheduler = scheduler(deployments);
        for program in programs.iter().chain(&scheduler) {
            let name = program.deployment_name();
            let title = format!("replicas of {name} are ready");
            findings.add(format!("replicas-{name}"), title, replicas(*program));
        }
        if let Some(scheduler) = scheduler {
            let title = "kube-scheduler is of the version of the API server";
            let verdict = skew(scheduler.version(), &facts.version.git_version);
            findings.add("scheduler-version", title, verdict);
        }
        let title = "the programs are of one version";
        findings.add("one-version", title, versions(&programs));
    }
    for (name, lease) in &facts.leases {
        let title = format!("the Lease {name} is held");
        let verdict = held(name, lease, now(facts));
        findings.add(format!("lease-{}", name.name), title, verdict);
    }
    findings.add("stop-switch", "updates are not stopped", stop(facts));
    findings.category = "certificates";
    for certificate in &facts.certificates {
        let secret = &certificate.secret;
        let title = format!("the certificate in the Secret {secret} is valid");
        let verdict = validity(certificate, now(facts));
        findings.add(format!("certificate-{}", secret.name), title, verdict);
    }
}

pub(super) fn now(facts: &Facts) -> Timestamp {
    facts.server_time.unwrap_or(facts.local_time)
}

fn installed(facts: &Facts, programs: &[Program<'_>]) -> Verdict {
    facts.deployments.as_ref()?;
    let is_installed = |name: &str| programs.iter().any(|program| program.name == name);
    // The updater waits for the webhook. Without both, the mode is recommend or horizontal.
    let required: &[&str] = if is_installed("updater") {
        &["recommender", "webhook"]
    } else {
        &["recommender"]
    };
    let missing = required.iter().copied().filter(|name| !is_installed(name));
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        return error(
            format!(
                "the namespace {} has no Deployment of {}",
                facts.system_namespace,
                missing.join(", ")
            ),
            "Run kubectl apply -k with your overlay, or name the namespace with --system-namespace",
        );
    }
    let mode = match (is_installed("updater"), is_installed("adapter")) {
        (false, false) => "recommend",
        (true, false) => "vertical",
        (false, true) => "horizontal",
        (true, true) => "all",
    };
    Ok(format!("the mode is {mode}"))
}

fn replicas(program: Program<'_>) -> Verdict {
    let (ready, desired) = program.replicas();
    let counted = format!("{ready} of {desired} replicas are ready");
    let describe = format!(
        "Run kubectl describe pods, and kubectl logs --prefix, with -n {} -l app.kubernetes.io/name={}",
        program.namespace(),
        program.name
    );
    if ready >= desired && desired > 0 {
        Ok(counted)
    } else if ready == 0 {
        error(counted, describe)
    } else {
        warn(counted, describe)
    }
}

fn versions(programs: &[Program<'_>]) -> Verdict {
    let mut versions: Vec<&str> = programs.iter().map(|program| program.version()).collect();
    versions.sort_unstable();
    versions.dedup();
    match versions.as_slice() {
        [] => skip("no program is installed"),
        [version] => Ok((*version).to_owned()),
        _ => {
            let text = |it: &Program<'_>| format!("{} {}", it.deployment_name(), it.version());
            let list: Vec<String> = programs.iter().map(text).collect();
            warn(
                format!("the versions differ: {}", list.join(", ")),
                "Give all images of the overlay the same tag",
            )
        }
    }
}

/// Source: <https://kubernetes.io/releases/version-skew-policy/>.
fn skew(scheduler: &str, server: &str) -> Verdict {
    let minor = |version: &str| version.split('.').nth(1)?.parse::<u32>().ok();
    let (Some(own), Some(minor)) = (minor(scheduler), minor(server)) else {
        return skip(format!("{scheduler:?} or {server:?} is not a version"));
    };
    if own > minor || own + 1 < minor {
        return warn(
            format!(
                "kube-scheduler is {scheduler}, the API server is {server}: it may be at most one minor older"
            ),
            "Set extender.scheduler.image.tag, or upgrade the release",
        );
    }
    Ok(scheduler.to_owned())
}

fn held(name: &ObjectName, lease: &Read<Option<Lease>>, now: Timestamp) -> Verdict {
    let is_heartbeat = name.name == "vpa-admission-controller";
    let effect = if is_heartbeat {
        "the updater evicts no pod"
    } else {
        "nothing is written"
    };
    let held = match lease.as_ref()? {
        Some(lease) => state(lease, now, is_heartbeat),
        None => Err("the Lease is missing".to_owned()),
    };
    let hint = format!("Look at the log of the program: {effect} without it");
    held.or_else(|fault| error(fault, hint))
}

/// The holder, or the fault.
fn state(lease: &Lease, now: Timestamp, is_heartbeat: bool) -> Result<String, String> {
    let spec = lease.spec.as_ref().ok_or("the Lease has no holder")?;
    let holder = spec.holder_identity.clone().unwrap_or_default();
    if holder.is_empty() {
        return Err("the Lease has no holder".to_owned());
    }
    let renewed = spec.renew_time.as_ref();
    let renewed = renewed.ok_or("the Lease was never renewed")?;
    let age = now.as_second() - renewed.0.as_second();
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(15));
    let duration = if is_heartbeat { HEARTBEAT } else { duration };
    if age > duration + GRACE {
        Err(format!(
            "{holder} renewed the Lease {age} s ago, more than its {duration} s"
        ))
    } else {
        Ok(format!("held by {holder}"))
    }
}

fn stop(facts: &Facts) -> Verdict {
    let (name, stop) = &facts.stop;
    match stop.as_ref()?.as_ref().map(StopFact::text) {
        None => Ok(String::new()),
        Some(text) => warn(
            format!("the ConfigMap {name} stops all evictions and resizes{text}"),
            "Run plimsoll go to continue",
        ),
    }
}

fn validity(fact: &CertificateFact, now: Timestamp) -> Verdict {
    let (program, entry) = (fact.program, fact.entry.entry);
    let chain = match fact.chain.as_ref()? {
        StoredChain::Chain(chain) => chain,
        StoredChain::NoSecret if fact.entry.is_optional => {
            return skip(format!("the {program} runs without this Secret"));
        }
        StoredChain::NoSecret => {
            return error(
                format!("the Secret is missing, which the {program} needs"),
                "Create it (docs/certificates.md); a self-managed one is created at the start",
            );
        }
        StoredChain::Invalid => {
            return error(
                format!("the entry {entry} has no certificate in PEM"),
                "Replace the Secret (docs/certificates.md)",
            );
        }
    };
    let left = chain.not_after() - now.as_second();
    let end = Timestamp::from_second(chain.not_after()).unwrap_or(Timestamp::MAX);
    let renew = "Renew it (docs/certificates.md); look at the program's log if it is self-managed";
    if left < 0 {
        let message = format!("the certificate of the {program} expired at {end}");
        return error(message, renew);
    }
    if left < SOON {
        let days = left / 86_400;
        let message = format!("the certificate of the {program} expires at {end}, in {days} days");
        return warn(message, renew);
    }
    Ok(format!("until {end}"))
}
