//! The registration of the webhook.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
};

use super::CONFIGURATION;
use super::suite::now;
use crate::check::facts::{Facts, StoredChain};
use crate::check::finding::{Finding, Findings};

const REGISTERED: (&str, &str) = ("webhook-registered", "the webhook is registered");
const POLICY: (&str, &str) = ("webhook-failure-policy", "a failure never refuses a pod");
const SERVICE: (&str, &str) = ("webhook-service", "the registered Service has endpoints");
const BUNDLE: (&str, &str) = ("webhook-ca-bundle", "the API server trusts the webhook");
const RIVALS: (&str, &str) = ("webhook-rivals", "no other webhook sizes pods");

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::new("webhook");
    let Some(configurations) = findings.read(REGISTERED, &facts.webhooks) else {
        return findings.list;
    };
    let is_ours =
        |one: &&MutatingWebhookConfiguration| one.metadata.name.as_deref() == Some(CONFIGURATION);
    let webhooks = |one: &'_ MutatingWebhookConfiguration| one.webhooks.clone().unwrap_or_default();
    match configurations.iter().find(is_ours).map(webhooks) {
        Some(ours) if !ours.is_empty() => {
            registered(facts, &ours, &mut findings);
            failure_policy(&ours, &mut findings);
            service(facts, &mut findings);
            bundle(facts, &ours, &mut findings);
        }
        _ => missing(facts, &mut findings),
    }
    let others = configurations.iter().filter(|one| !is_ours(one));
    rivals(others, &mut findings);
    findings.list
}

fn missing(facts: &Facts, findings: &mut Findings) {
    if facts.programs().iter().any(|it| it.name == "webhook") {
        findings.error(
            REGISTERED,
            format!(
                "there is no MutatingWebhookConfiguration {CONFIGURATION}: new pods keep their size"
            ),
            "Look at the log of the webhook, which registers itself",
        );
    } else {
        findings.skip(REGISTERED, "the webhook is not installed");
    }
}

fn registered(facts: &Facts, ours: &[MutatingWebhook], findings: &mut Findings) {
    let services = ours
        .iter()
        .filter_map(|one| one.client_config.service.as_ref());
    let elsewhere = services
        .filter(|service| service.namespace != facts.system_namespace)
        .map(|service| format!("{}/{}", service.namespace, service.name));
    let elsewhere: Vec<String> = elsewhere.collect();
    if elsewhere.is_empty() {
        findings.ok(REGISTERED, "");
    } else {
        findings.error(
            REGISTERED,
            format!(
                "{CONFIGURATION} leads to the Service {}, not to the namespace {}",
                elsewhere.join(", "),
                facts.system_namespace
            ),
            "Scale the other admission controller to 0; the webhook then registers itself",
        );
    }
}

fn failure_policy(ours: &[MutatingWebhook], findings: &mut Findings) {
    let fails = |one: &&MutatingWebhook| one.failure_policy.as_deref() != Some("Ignore");
    if let Some(webhook) = ours.iter().find(fails) {
        findings.warn(
            POLICY,
            format!(
                "the failurePolicy of {} is Fail: no pod starts while the webhook is gone",
                webhook.name
            ),
            "Remove the flag --webhook-failure-policy-fail from the webhook",
        );
    } else {
        findings.ok(POLICY, "");
    }
}

fn service(facts: &Facts, findings: &mut Findings) {
    if facts.services.is_empty() {
        findings.skip(SERVICE, "the registration names a URL");
    }
    for (name, endpoints) in &facts.services {
        match findings.read(SERVICE, endpoints) {
            None => {}
            Some(None) => findings.error(
                SERVICE,
                format!("the Service {name} does not exist: new pods keep their size"),
                "Apply deploy/base/webhook/service.yaml",
            ),
            Some(Some(0)) => findings.error(
                SERVICE,
                format!("the Service {name} has no ready endpoint: new pods keep their size"),
                "Look at the pods of the webhook",
            ),
            Some(Some(count)) => findings.ok(SERVICE, format!("{count} endpoints are ready")),
        }
    }
}

fn bundle(facts: &Facts, ours: &[MutatingWebhook], findings: &mut Findings) {
    let bundle = |one: &MutatingWebhook| {
        let bundle = one.client_config.ca_bundle.as_ref();
        bundle.map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned())
    };
    let hint = "Look at the log of the webhook, which writes the caBundle (docs/certificates.md)";
    let Some(bundle) = ours
        .first()
        .and_then(bundle)
        .filter(|text| !text.is_empty())
    else {
        findings.error(BUNDLE, "the caBundle of the registration is empty", hint);
        return;
    };
    let mut own = facts
        .certificates
        .iter()
        .filter(|one| one.program == "webhook");
    let Some(own) = own.find(|one| one.entry.entry == "serverCert.pem" || !one.entry.is_optional)
    else {
        findings.skip(BUNDLE, "the certificate of the webhook is not in a Secret");
        return;
    };
    let Some(chain) = findings.read(BUNDLE, &own.chain) else {
        return;
    };
    let StoredChain::Chain(chain) = chain else {
        findings.skip(
            BUNDLE,
            format!("the Secret {} has no certificate", own.secret),
        );
        return;
    };
    let service = ours
        .first()
        .and_then(|one| one.client_config.service.as_ref());
    let Some(service) = service else {
        findings.skip(BUNDLE, "the registration names a URL");
        return;
    };
    let name = format!("{}.{}.svc", service.name, service.namespace);
    let now = now(facts).as_second().max(0).unsigned_abs();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    match chain.rejection(&bundle, &name, now) {
        None => findings.ok(BUNDLE, ""),
        Some(reason) => findings.error(
            BUNDLE,
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
    let names: Vec<&str> = others
        .filter(|one| one.webhooks.iter().flatten().any(changes_pods))
        .filter_map(|one| one.metadata.name.as_deref())
        .filter(|name| {
            ["vpa", "crane", "krr"]
                .iter()
                .any(|part| name.contains(part))
        })
        .collect();
    if names.is_empty() {
        findings.ok(RIVALS, "");
    } else {
        findings.warn(
            RIVALS,
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
