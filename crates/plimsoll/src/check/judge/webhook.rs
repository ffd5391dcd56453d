//! The registration of the webhook.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};

use super::CONFIGURATION;
use super::suite::now;
use crate::check::facts::{Facts, StoredChain};
use crate::check::finding::{Findings, Verdict, error, skip, warn};

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "webhook";
    let (id, title) = ("webhook-registered", "the webhook is registered");
    let configurations = match &facts.webhooks {
        Ok(configurations) => configurations,
        Err(unread) => return findings.add(id, title, Err(unread.into())),
    };
    let is_ours =
        |one: &&MutatingWebhookConfiguration| one.metadata.name.as_deref() == Some(CONFIGURATION);
    let ours = configurations.iter().find(is_ours);
    let ours = ours
        .and_then(|one| one.webhooks.as_deref())
        .unwrap_or_default();
    if let Some(first) = ours.first() {
        findings.add(id, title, registered(facts, ours));
        let title = "a failure never refuses a pod";
        findings.add("webhook-failure-policy", title, failure_policy(ours));
        service(facts, findings);
        let title = "the API server trusts the webhook";
        findings.add("webhook-ca-bundle", title, bundle(facts, first));
    } else {
        findings.add(id, title, missing(facts));
    }
    let others = configurations.iter().filter(|one| !is_ours(one));
    findings.add(
        "webhook-rivals",
        "no other webhook sizes pods",
        rivals(others),
    );
}

fn missing(facts: &Facts) -> Verdict {
    if facts.programs().iter().any(|it| it.name == "webhook") {
        return error(
            format!(
                "there is no MutatingWebhookConfiguration {CONFIGURATION}: new pods keep their size"
            ),
            "Look at the log of the webhook, which registers itself",
        );
    }
    skip("the webhook is not installed")
}

fn registered(facts: &Facts, ours: &[MutatingWebhook]) -> Verdict {
    let namespace = &facts.system_namespace;
    let services = ours.iter();
    let services = services.filter_map(|one| one.client_config.service.as_ref());
    let elsewhere = services.filter(|service| service.namespace != *namespace);
    let elsewhere = elsewhere.map(|service| format!("{}/{}", service.namespace, service.name));
    let elsewhere: Vec<String> = elsewhere.collect();
    if elsewhere.is_empty() {
        return Ok(String::new());
    }
    error(
        format!(
            "{CONFIGURATION} leads to the Service {}, not to the namespace {namespace}",
            elsewhere.join(", ")
        ),
        "Scale the other admission controller to 0; the webhook then registers itself",
    )
}

fn failure_policy(ours: &[MutatingWebhook]) -> Verdict {
    let fails = |one: &&MutatingWebhook| one.failure_policy.as_deref() != Some("Ignore");
    let Some(webhook) = ours.iter().find(fails) else {
        return Ok(String::new());
    };
    warn(
        format!(
            "the failurePolicy of {} is Fail: no pod starts while the webhook is gone",
            webhook.name
        ),
        "Remove the flag --webhook-failure-policy-fail from the webhook",
    )
}

fn service(facts: &Facts, findings: &mut Findings) {
    let (id, title) = ("webhook-service", "the registered Service has endpoints");
    if facts.services.is_empty() {
        findings.add(id, title, skip("the registration names a URL"));
    }
    for (name, endpoints) in &facts.services {
        let verdict = match endpoints {
            Err(unread) => Err(unread.into()),
            Ok(None) => error(
                format!("the Service {name} does not exist: new pods keep their size"),
                "Apply deploy/base/webhook/service.yaml",
            ),
            Ok(Some(0)) => error(
                format!("the Service {name} has no ready endpoint: new pods keep their size"),
                "Look at the pods of the webhook",
            ),
            Ok(Some(count)) => Ok(format!("{count} endpoints are ready")),
        };
        findings.add(id, title, verdict);
    }
}

fn bundle(facts: &Facts, ours: &MutatingWebhook) -> Verdict {
    let bundle = ours.client_config.ca_bundle.as_ref();
    let bundle = bundle.map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned());
    let hint = "Look at the log of the webhook, which writes the caBundle (docs/certificates.md)";
    let Some(bundle) = bundle.filter(|text| !text.is_empty()) else {
        return error("the caBundle of the registration is empty", hint);
    };
    let own = facts.certificates.iter().find(|one| {
        let is_chain = one.entry.entry == "serverCert.pem" || !one.entry.is_optional;
        one.program == "webhook" && is_chain
    });
    let Some(own) = own else {
        return skip("the certificate of the webhook is not in a Secret");
    };
    let StoredChain::Chain(chain) = own.chain.as_ref()? else {
        return skip(format!("the Secret {} has no certificate", own.secret));
    };
    let Some(service) = &ours.client_config.service else {
        return skip("the registration names a URL");
    };
    let name = format!("{}.{}.svc", service.name, service.namespace);
    let now = now(facts).as_second().max(0).unsigned_abs();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    match chain.rejection(&bundle, &name, now) {
        None => Ok(String::new()),
        Some(reason) => error(
            format!(
                "the API server rejects the certificate in {}: {reason}",
                own.secret
            ),
            hint,
        ),
    }
}

/// Webhooks that may change the size of pods, by their names.
fn rivals<'a>(others: impl Iterator<Item = &'a MutatingWebhookConfiguration>) -> Verdict {
    let others = others.filter(|one| one.webhooks.iter().flatten().any(changes_pods));
    let names = others.filter_map(|one| one.metadata.name.as_deref());
    let is_known = |name: &&str| ["vpa", "crane", "krr"].iter().any(|it| name.contains(it));
    let names: Vec<&str> = names.filter(is_known).collect();
    if names.is_empty() {
        return Ok(String::new());
    }
    warn(
        format!("the webhooks {} also change new pods", names.join(", ")),
        "Remove the registration of the autoscaler that is not used",
    )
}

fn changes_pods(webhook: &MutatingWebhook) -> bool {
    let names = |rule: &RuleWithOperations| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|resource| resource == "pods" || resource == "*")
    };
    webhook.rules.iter().flatten().any(names)
}
