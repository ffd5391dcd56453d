//! What the API server was told, and what is still to be said to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use serving::certificates::ObservedCaBundle;

use super::{Standing, Trusted, objects, standing, writers};
use crate::act::{self, ADOPTER, Events, MANAGER};
use crate::metrics::Metrics;
use crate::service_ref::OwnService;

/// Whoever puts authorities of their own into an object does it again; that must not become a race.
const REPLACE: Duration = Duration::from_mins(1);

/// What the API server was told.
#[derive(Default)]
pub(super) struct Told {
    /// What it was last seen to trust, if it was also seen to find the adapter well.
    pub(super) trusted: Option<String>,
    /// What each object that leads here was last seen to trust.
    bundles: BTreeMap<String, String>,
    /// What was last said about each object.
    said: BTreeMap<String, String>,
    /// Which of them led here when last seen.
    led_here: BTreeMap<String, bool>,
    /// When authorities of somebody else were last replaced.
    replaced: BTreeMap<String, Instant>,
}

/// Who is told of what others do.
pub(super) struct Report {
    pub(super) metrics: Metrics,
    pub(super) events: Events,
}

impl Report {
    async fn changed(&self, name: &str, present: Option<&APIService>, note: &str) {
        tracing::warn!(name, "somebody else has changed an APIService: {note}");
        self.metrics.changed_by_somebody_else(name);
        self.events.changed(name, present, note).await;
    }
}

impl Told {
    /// Looks at all objects and puts `bundle`, if there is one, into those that are the adapter's.
    pub(super) async fn tell(
        &mut self,
        services: &Api<APIService>,
        own: &OwnService,
        bundle: Option<&str>,
        report: &Report,
    ) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        self.bundles.clear();
        for name in objects() {
            let present = services
                .get_opt(&name)
                .await
                .with_context(|| format!("cannot read APIService {name}"))?;
            let found = standing(present.as_ref(), own);
            let text = self.say(&name, &found);
            let leads_here = matches!(found, Standing::Ours(_) | Standing::Injected(_));
            report.metrics.leads_here(&name, leads_here);
            if self.led_here.insert(name.clone(), leads_here) == Some(true) && !leads_here {
                report.changed(&name, present.as_ref(), &text).await;
            }
            match (found, bundle) {
                (Standing::Ours(trusted), Some(bundle)) if trusted.bundle != bundle => {
                    let is_put = self.put(services, &name, present, bundle, report).await?;
                    // It has not been seen to work yet.
                    let bundle = if is_put {
                        bundle.to_owned()
                    } else {
                        trusted.bundle
                    };
                    self.bundles.insert(name, bundle.clone());
                    seen.push(Trusted {
                        bundle,
                        is_available: false,
                    });
                }
                (Standing::Ours(trusted) | Standing::Injected(trusted), _) => {
                    self.bundles.insert(name, trusted.bundle.clone());
                    seen.push(trusted);
                }
                (Standing::Missing | Standing::Elsewhere(_) | Standing::Insecure, _) => {}
            }
        }
        self.trusted = trusted_everywhere(seen);
        Ok(())
    }

    /// The API server, once for each object by which it knows the adapter.
    pub(super) fn clients(&self, own: &OwnService) -> Vec<ObservedCaBundle> {
        let client = |(object, bundle): (&String, &String)| ObservedCaBundle {
            object: object.clone(),
            name: own.server_name(),
            bundle: bundle.clone(),
        };
        self.bundles.iter().map(client).collect()
    }

    /// Puts authorities into an object, if it is not too soon to replace somebody else's there.
    async fn put(
        &mut self,
        services: &Api<APIService>,
        name: &str,
        present: Option<APIService>,
        bundle: &str,
        report: &Report,
    ) -> anyhow::Result<bool> {
        if let Some(rival) = present.as_ref().and_then(rival) {
            let now = Instant::now();
            if !may_replace(self.replaced.get(name).copied(), now) {
                return Ok(false);
            }
            self.replaced.insert(name.to_owned(), now);
            let note = format!(
                "{rival} has put authorities into it that are not the adapter's; they are replaced"
            );
            report.changed(name, present.as_ref(), &note).await;
        }
        let version = present.and_then(|present| present.metadata.resource_version);
        let put = act::trust(services, name, version, bundle).await;
        put.with_context(|| format!("cannot put authorities into APIService {name}"))?;
        tracing::info!(name, "the API server is told whom to trust");
        Ok(true)
    }

    /// Says once, and gives, what keeps an object from being looked after.
    fn say(&mut self, name: &str, found: &Standing) -> String {
        let text = match found {
            Standing::Missing => "it is not there".to_owned(),
            Standing::Elsewhere(service) => format!("it leads to the Service {service}"),
            Standing::Insecure => {
                "it has insecureSkipTLSVerify, which excludes authorities: take that out, and they are put in"
                    .to_owned()
            }
            Standing::Injected(_) => "cert-manager looks after its authorities".to_owned(),
            Standing::Ours(_) => String::new(),
        };
        let before = self
            .said
            .insert(name.to_owned(), text.clone())
            .unwrap_or_default();
        match found {
            _ if text == before => {}
            Standing::Insecure => tracing::error!(name, "leaving an APIService alone: {text}"),
            Standing::Ours(_) => tracing::info!(name, "looking after an APIService again"),
            _ => tracing::warn!(name, "leaving an APIService alone: {text}"),
        }
        text
    }
}

/// Who else has put authorities into an object.
fn rival(present: &APIService) -> Option<&str> {
    writers(present).find(|writer| ![MANAGER, ADOPTER].contains(writer))
}

/// Whether authorities of somebody else are replaced now, when that was last done then.
fn may_replace(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= REPLACE)
}

/// What may be relied on: the bundle of an object that has another than the rest would be the one
/// to wait for, so there is none then, nor while any object is not seen to work.
fn trusted_everywhere(seen: Vec<Trusted>) -> Option<String> {
    let same = seen.iter().all(|one| {
        one.is_available && seen.first().is_some_and(|first| one.bundle == first.bundle)
    });
    seen.into_iter()
        .next()
        .filter(|_| same)
        .map(|trusted| trusted.bundle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: &[(&str, bool)], expected: Option<&str>) {
        let trusted = |(bundle, is_available): &(&str, bool)| Trusted {
            bundle: (*bundle).to_owned(),
            is_available: *is_available,
        };
        let found = trusted_everywhere(seen.iter().map(trusted).collect());
        assert_eq!(found.as_deref(), expected, "{seen:?}");
    }

    #[test]
    fn authorities_of_somebody_else_are_replaced_once_a_minute_at_most() {
        let now = Instant::now();
        assert!(may_replace(None, now));
        assert!(!may_replace(Some(now), now) && !may_replace(Some(now), now + REPLACE / 2));
        assert!(may_replace(Some(now), now + REPLACE));
        let written_by = |writer: &str| -> APIService {
            let fields = serde_json::json!({"f:spec": {"f:caBundle": {}}});
            let metadata =
                serde_json::json!({"managedFields": [{"manager": writer, "fieldsV1": fields}]});
            serde_json::from_value(serde_json::json!({"metadata": metadata})).expect("an object")
        };
        for (writer, expected) in [("keda", Some("keda")), (MANAGER, None), (ADOPTER, None)] {
            assert_eq!(rival(&written_by(writer)), expected);
        }
    }

    #[test]
    fn a_bundle_is_relied_on_once_every_object_has_it_and_works() {
        check(&[], None);
        check(&[("new", true)], Some("new"));
        check(&[("new", true), ("new", true), ("new", true)], Some("new"));
        check(&[("new", true), ("old", true)], None);
        check(&[("new", true), ("new", false)], None);
    }
}
