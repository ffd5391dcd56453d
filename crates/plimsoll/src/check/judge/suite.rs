//! Programs of the suite: Deployments, versions, Leases, the stop switch, certificates.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

use crate::check::facts::{CertificateFact, Facts, StoredChain};
use crate::check::finding::{Finding, Findings};
use crate::installation::{Program, programs};

/// Remaining validity of a certificate, in seconds, below which an operator should look. A
/// self-managed one is replaced long before.
const SOON: i64 = 7 * 86_400;
/// Time after which the webhook's Lease expires for the updater, in seconds.
const HEARTBEAT: i64 = 60;
/// Delay of a renewal that is no fault yet, in seconds. The `Date` header has whole seconds.
const GRACE: i64 = 5;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::new("programs");
    let check = ("programs-installed", "the programs are installed");
    if let Some(deployments) = findings.read(check, &facts.deployments) {
        let programs = programs(deployments);
        installed(facts, &programs, &mut findings);
        for program in &programs {
            replicas(*program, &mut findings);
        }
        versions(&programs, &mut findings);
    }
    leases(facts, &mut findings);
    stop(facts, &mut findings);
    let mut certificates = Findings::new("certificates");
    for certificate in &facts.certificates {
        judge_certificate(facts, certificate, &mut certificates);
    }
    findings.list.extend(certificates.list);
    findings.list
}

/// The API server's time.
pub(super) fn now(facts: &Facts) -> Timestamp {
    facts.server_time.unwrap_or(facts.local_time)
}

fn installed(facts: &Facts, programs: &[Program<'_>], findings: &mut Findings) {
    let check = ("programs-installed", "the programs are installed");
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
        findings.ok(check, format!("the mode is {mode}"));
    } else {
        findings.error(
            check,
            format!(
                "the namespace {} has no Deployment of {}",
                facts.system_namespace,
                missing.join(", ")
            ),
            "Run kubectl apply -k with your overlay, or name the namespace with --system-namespace",
        );
    }
}

fn replicas(program: Program<'_>, findings: &mut Findings) {
    let id = format!("replicas-{}", program.deployment_name());
    let title = format!("replicas of {} are ready", program.deployment_name());
    let check = (id.as_str(), title.as_str());
    let (ready, desired) = program.replicas();
    let counted = format!("{ready} of {desired} replicas are ready");
    let describe = format!(
        "Run kubectl describe pods -n {} -l app.kubernetes.io/name={}",
        program.namespace(),
        program.name
    );
    if ready >= desired && desired > 0 {
        findings.ok(check, counted);
    } else if ready == 0 {
        findings.error(check, counted, describe);
    } else {
        findings.warn(check, counted, describe);
    }
}

fn versions(programs: &[Program<'_>], findings: &mut Findings) {
    let check = ("one-version", "the programs are of one version");
    let mut versions: Vec<&str> = programs.iter().map(|program| program.version()).collect();
    versions.sort_unstable();
    versions.dedup();
    match versions.as_slice() {
        [] => findings.skip(check, "no program is installed"),
        [version] => findings.ok(check, *version),
        _ => {
            let list = programs
                .iter()
                .map(|program| format!("{} {}", program.deployment_name(), program.version()));
            findings.warn(
                check,
                format!(
                    "the versions differ: {}",
                    list.collect::<Vec<_>>().join(", ")
                ),
                "Give all images of the overlay the same tag",
            );
        }
    }
}

fn leases(facts: &Facts, findings: &mut Findings) {
    for (name, lease) in &facts.leases {
        let (id, title) = (
            format!("lease-{}", name.name),
            format!("the Lease {name} is held"),
        );
        let check = (id.as_str(), title.as_str());
        let Some(lease) = findings.read(check, lease) else {
            continue;
        };
        let is_heartbeat = name.name == "vpa-admission-controller";
        let effect = if is_heartbeat {
            "the updater evicts no pod"
        } else {
            "nothing is written"
        };
        let hint = format!("Look at the log of the program: {effect} without it");
        match lease
            .as_ref()
            .map(|lease| state(lease, now(facts), is_heartbeat))
        {
            None => findings.error(check, "the Lease is missing", hint),
            Some(Ok(holder)) => findings.ok(check, holder),
            Some(Err(fault)) => findings.error(check, fault, hint),
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
    let renewed = spec
        .renew_time
        .as_ref()
        .ok_or("the Lease was never renewed")?;
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
    let check = ("stop-switch", "updates are not stopped");
    let (name, stop) = &facts.stop;
    let Some(stop) = findings.read(check, stop) else {
        return;
    };
    match stop {
        None => findings.ok(check, ""),
        Some(stop) => {
            findings.warn(
                check,
                format!(
                    "the ConfigMap {name} stops all evictions and resizes{}",
                    stop.text()
                ),
                "Run plimsoll go to continue",
            );
        }
    }
}

fn judge_certificate(facts: &Facts, fact: &CertificateFact, findings: &mut Findings) {
    let id = format!("certificate-{}", fact.secret.name);
    let title = format!("the certificate in the Secret {} is valid", fact.secret);
    let check = (id.as_str(), title.as_str());
    let Some(chain) = findings.read(check, &fact.chain) else {
        return;
    };
    let program = fact.program;
    let entry = fact.entry.entry;
    let chain = match chain {
        StoredChain::Chain(chain) => chain,
        StoredChain::NoSecret if fact.entry.is_optional => {
            findings.skip(check, format!("the {program} runs without this Secret"));
            return;
        }
        StoredChain::NoSecret => {
            findings.error(
                check,
                format!("the Secret is missing, which the {program} needs"),
                "Create it (docs/certificates.md); a self-managed one is created at the start",
            );
            return;
        }
        StoredChain::Invalid => {
            findings.error(
                check,
                format!("the entry {entry} has no certificate in PEM"),
                "Replace the Secret (docs/certificates.md)",
            );
            return;
        }
    };
    let left = chain.not_after() - now(facts).as_second();
    let end = Timestamp::from_second(chain.not_after()).unwrap_or(Timestamp::MAX);
    if left < 0 {
        findings.error(
            check,
            format!("the certificate of the {program} expired at {end}"),
            "Renew it (docs/certificates.md); look at the program's log if it is self-managed",
        );
    } else if left < SOON {
        let days = left / 86_400;
        findings.warn(
            check,
            format!("the certificate of the {program} expires at {end}, in {days} days"),
            "Renew it (docs/certificates.md); look at the program's log if it is self-managed",
        );
    } else {
        findings.ok(check, format!("until {end}"));
    }
}
