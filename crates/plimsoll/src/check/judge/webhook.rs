//! The registration of the webhook.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};

use super::CONFIGURATION;
use super::suite::now;
use crate::check::facts::{Facts, StoredChain};
use crate::check::finding::{Check, Findings};

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "webhook";
    let mut check = findings.check("webhook-registered", "the webhook is registered");
    let Some(configurations) = check.read(&facts.webhooks) else {
        return;
    };
    let is_ours =
        |one: &&MutatingWebhookConfiguration| one.metadata.name.as_deref() == Some(CONFIGURATION);
    let webhooks = |one: &'_ MutatingWebhookConfiguration| one.webhooks.clone().unwrap_or_default();
    match configurations.iter().find(is_ours).map(webhooks) {
        Some(ours) if !ours.is_empty() => {
            registered(facts, &ours, &mut check);
            failure_policy(&ours, findings);
            service(facts, findings);
            bundle(facts, &ours, findings);
        }
        _ => missing(facts, &mut check),
    }
    let others = configurations.iter().filter(|one| !is_ours(one));
    rivals(others, findings);
}

fn missing(facts: &Facts, check: &mut Check<'_>) {
    if facts.programs().iter().any(|it| it.name == "webhook") {
        check.error(
            format!(
                "there is no MutatingWebhookConfiguration {CONFIGURATION}: new pods keep their size"
            ),
            "Look at the log of the webhook, which registers itself",
        );
    } else {
        check.skip("the webhook is not installed");
    }
}

fn registered(facts: &Facts, ours: &[MutatingWebhook], check: &mut Check<'_>) {
    let namespace = &facts.system_namespace;
    let services = ours.iter();
    let services = services.filter_map(|one| one.client_config.service.as_ref());
    let elsewhere = services.filter(|service| service.namespace != *namespace);
    let elsewhere = elsewhere.map(|service| format!("{}/{}", service.namespace, service.name));
    let elsewhere: Vec<String> = elsewhere.collect();
    if elsewhere.is_empty() {
        check.ok("");
    } else {
        check.error(
            format!(
                "{CONFIGURATION} leads to the Service {}, not to the namespace {namespace}",
                elsewhere.join(", ")
            ),
            "Scale the other admission controller to 0; the webhook then registers itself",
        );
    }
}

fn failure_policy(ours: &[MutatingWebhook], findings: &mut Findings) {
    let mut check = findings.check("webhook-failure-policy", "a failure never refuses a pod");
    let fails = |one: &&MutatingWebhook| one.failure_policy.as_deref() != Some("Ignore");
    if let Some(webhook) = ours.iter().find(fails) {
        check.warn(
            format!(
                "the failurePolicy of {} is Fail: no pod starts while the webhook is gone",
                webhook.name
            ),
            "Remove the flag --webhook-failure-policy-fail from the webhook",
        );
    } else {
        check.ok("");
    }
}

fn service(facts: &Facts, findings: &mut Findings) {
    let mut check = findings.check("webhook-service", "the registered Service has endpoints");
    if facts.services.is_empty() {
        check.skip("the registration names a URL");
    }
    for (name, endpoints) in &facts.services {
        match check.read(endpoints) {
            None => {}
            Some(None) => check.error(
                format!("the Service {name} does not exist: new pods keep their size"),
                "Apply deploy/base/webhook/service.yaml",
            ),
            Some(Some(0)) => check.error(
                format!("the Service {name} has no ready endpoint: new pods keep their size"),
                "Look at the pods of the webhook",
            ),
            Some(Some(count)) => check.ok(format!("{count} endpoints are ready")),
        }
    }
}

fn bundle(facts: &Facts, ours: &[MutatingWebhook], findings: &mut Findings) {
    let mut check = findings.check("webhook-ca-bundle", "the API server trusts the webhook");
    let bundle = |one: &MutatingWebhook| {
        let bundle = one.client_config.ca_bundle.as_ref();
        bundle.map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned())
    };
    let hint = "Look at the log of the webhook, which writes the caBundle (docs/certificates.md)";
    let first = ours.first();
    let Some(bundle) = first.and_then(bundle).filter(|text| !text.is_empty()) else {
        return check.error("the caBundle of the registration is empty", hint);
    };
    let own = facts.certificates.iter().find(|one| {
        let is_chain = one.entry.entry == "serverCert.pem" || !one.entry.is_optional;
        one.program == "webhook" && is_chain
    });
    let Some(own) = own else {
        return check.skip("the certificate of the webhook is not in a Secret");
    };
    let Some(chain) = check.read(&own.chain) else {
        return;
    };
    let StoredChain::Chain(chain) = chain else {
        return check.skip(format!("the Secret {} has no certificate", own.secret));
    };
    let Some(service) = first.and_then(|one| one.client_config.service.as_ref()) else {
        return check.skip("the registration names a URL");
    };
    let name = format!("{}.{}.svc", service.name, service.namespace);
    let now = now(facts).as_second().max(0).unsigned_abs();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    match chain.rejection(&bundle, &name, now) {
        None => check.ok(""),
        Some(reason) => check.error(
            format!(
                "the API server rejects the certificate in {}: {reason}",
                own.secret
            ),
            hint,
        ),
    }
}

/// Webhooks that may change the size of pods, by their names.
fn rivals<'a>(
    others: impl Iterator<Item = &'a MutatingWebhookConfiguration>,
    findings: &mut Findings,
) {
    let mut check = findings.check("webhook-rivals", "no other webhook sizes pods");
    let others = others.filter(|one| one.webhooks.iter().flatten().any(changes_pods));
    let names = others.filter_map(|one| one.metadata.name.as_deref());
    let is_known = |name: &&str| ["vpa", "crane", "krr"].iter().any(|it| name.contains(it));
    let names: Vec<&str> = names.filter(is_known).collect();
    if names.is_empty() {
        check.ok("");
    } else {
        check.warn(
            format!("the webhooks {} also change new pods", names.join(", ")),
            "Remove the registration of the autoscaler that is not used",
        );
    }
}

fn changes_pods(webhook: &MutatingWebhook) -> bool {
    let names = |rule: &RuleWithOperations| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|resource| resource == "pods" || resource == "*")
    };
    webhook.rules.iter().flatten().any(names)
}
