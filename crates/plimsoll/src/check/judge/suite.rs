//! Programs of the suite: Deployments, versions, Leases, the stop switch, certificates.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

use crate::check::facts::{CertificateFact, Facts, StopFact, StoredChain};
use crate::check::finding::{Check, Findings};
use crate::installation::{Program, programs};

/// Remaining validity of a certificate, in seconds, below which an operator should look. A
/// self-managed one is replaced long before.
const SOON: i64 = 7 * 86_400;
/// Time after which the webhook's Lease expires for the updater, in seconds.
const HEARTBEAT: i64 = 60;
/// Delay of a renewal that is no fault yet, in seconds. The `Date` header has whole seconds.
const GRACE: i64 = 5;

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "programs";
    let mut check = findings.check("programs-installed", "the programs are installed");
    if let Some(deployments) = check.read(&facts.deployments) {
        let programs = programs(deployments);
        installed(facts, &programs, &mut check);
        for program in &programs {
            replicas(*program, findings);
        }
        versions(&programs, findings);
    }
    leases(facts, findings);
    stop(facts, findings);
    findings.category = "certificates";
    for certificate in &facts.certificates {
        judge_certificate(facts, certificate, findings);
    }
}

/// The API server's time.
pub(super) fn now(facts: &Facts) -> Timestamp {
    facts.server_time.unwrap_or(facts.local_time)
}

fn installed(facts: &Facts, programs: &[Program<'_>], check: &mut Check<'_>) {
    let namespace = &facts.system_namespace;
    let is_installed = |name: &str| programs.iter().any(|program| program.name == name);
    // The updater waits for the webhook. Without both, the mode is recommend or horizontal.
    let required: &[&str] = if is_installed("updater") {
        &["recommender", "webhook"]
    } else {
        &["recommender"]
    };
    let missing = required.iter().copied().filter(|name| !is_installed(name));
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() {
        let mode = match (is_installed("updater"), is_installed("adapter")) {
            (false, false) => "recommend",
            (true, false) => "vertical",
            (false, true) => "horizontal",
            (true, true) => "all",
        };
        check.ok(format!("the mode is {mode}"));
    } else {
        check.error(
            format!(
                "the namespace {namespace} has no Deployment of {}",
                missing.join(", ")
            ),
            "Run kubectl apply -k with your overlay, or name the namespace with --system-namespace",
        );
    }
}

fn replicas(program: Program<'_>, findings: &mut Findings) {
    let id = format!("replicas-{}", program.deployment_name());
    let title = format!("replicas of {} are ready", program.deployment_name());
    let mut check = findings.check(id, title);
    let (ready, desired) = program.replicas();
    let counted = format!("{ready} of {desired} replicas are ready");
    let describe = format!(
        "Run kubectl describe pods -n {} -l app.kubernetes.io/name={}",
        program.namespace(),
        program.name
    );
    if ready >= desired && desired > 0 {
        check.ok(counted);
    } else if ready == 0 {
        check.error(counted, describe);
    } else {
        check.warn(counted, describe);
    }
}

fn versions(programs: &[Program<'_>], findings: &mut Findings) {
    let mut check = findings.check("one-version", "the programs are of one version");
    let mut versions: Vec<&str> = programs.iter().map(|program| program.version()).collect();
    versions.sort_unstable();
    versions.dedup();
    match versions.as_slice() {
        [] => check.skip("no program is installed"),
        [version] => check.ok(*version),
        _ => {
            let text = |it: &Program<'_>| format!("{} {}", it.deployment_name(), it.version());
            let list: Vec<String> = programs.iter().map(text).collect();
            check.warn(
                format!("the versions differ: {}", list.join(", ")),
                "Give all images of the overlay the same tag",
            );
        }
    }
}

fn leases(facts: &Facts, findings: &mut Findings) {
    for (name, lease) in &facts.leases {
        let title = format!("the Lease {name} is held");
        let mut check = findings.check(format!("lease-{}", name.name), title);
        let Some(lease) = check.read(lease) else {
            continue;
        };
        let is_heartbeat = name.name == "vpa-admission-controller";
        let effect = if is_heartbeat {
            "the updater evicts no pod"
        } else {
            "nothing is written"
        };
        let hint = format!("Look at the log of the program: {effect} without it");
        let lease = lease.as_ref();
        match lease.map(|lease| state(lease, now(facts), is_heartbeat)) {
            None => check.error("the Lease is missing", hint),
            Some(Ok(holder)) => check.ok(holder),
            Some(Err(fault)) => check.error(fault, hint),
        }
    }
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

fn stop(facts: &Facts, findings: &mut Findings) {
    let mut check = findings.check("stop-switch", "updates are not stopped");
    let (name, stop) = &facts.stop;
    let Some(stop) = check.read(stop) else {
        return;
    };
    match stop.as_ref().map(StopFact::text) {
        None => check.ok(""),
        Some(text) => check.warn(
            format!("the ConfigMap {name} stops all evictions and resizes{text}"),
            "Run plimsoll go to continue",
        ),
    }
}

fn judge_certificate(facts: &Facts, fact: &CertificateFact, findings: &mut Findings) {
    let id = format!("certificate-{}", fact.secret.name);
    let title = format!("the certificate in the Secret {} is valid", fact.secret);
    let mut check = findings.check(id, title);
    let Some(chain) = check.read(&fact.chain) else {
        return;
    };
    let (program, entry) = (fact.program, fact.entry.entry);
    let chain = match chain {
        StoredChain::Chain(chain) => chain,
        StoredChain::NoSecret if fact.entry.is_optional => {
            return check.skip(format!("the {program} runs without this Secret"));
        }
        StoredChain::NoSecret => {
            return check.error(
                format!("the Secret is missing, which the {program} needs"),
                "Create it (docs/certificates.md); a self-managed one is created at the start",
            );
        }
        StoredChain::Invalid => {
            return check.error(
                format!("the entry {entry} has no certificate in PEM"),
                "Replace the Secret (docs/certificates.md)",
            );
        }
    };
    let left = chain.not_after() - now(facts).as_second();
    let end = Timestamp::from_second(chain.not_after()).unwrap_or(Timestamp::MAX);
    if left < 0 {
        check.error(
            format!("the certificate of the {program} expired at {end}"),
            "Renew it (docs/certificates.md); look at the program's log if it is self-managed",
        );
    } else if left < SOON {
        let days = left / 86_400;
        check.warn(
            format!("the certificate of the {program} expires at {end}, in {days} days"),
            "Renew it (docs/certificates.md); look at the program's log if it is self-managed",
        );
    } else {
        check.ok(format!("until {end}"));
    }
}
