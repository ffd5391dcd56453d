//! What the API server was told, and what is still to be said to it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;

use super::{OwnService, Standing, Trusted, objects, standing};
use crate::act;

/// What the API server was told.
#[derive(Default)]
pub(super) struct Told {
    /// What it was last seen to trust, if it was also seen to find the adapter well.
    pub(super) trusted: Option<String>,
    /// What was last said about each object.
    said: BTreeMap<String, String>,
}

impl Told {
    /// Looks at all objects and puts `bundle` into those that are the adapter's.
    pub(super) async fn tell(
        &mut self,
        services: &Api<APIService>,
        own: &OwnService,
        bundle: &str,
    ) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        for name in objects() {
            let present = services.get_opt(&name).await.with_context(|| format!("cannot read APIService {name}"))?;
            let found = standing(present.as_ref(), own);
            self.say(&name, &found);
            match found {
                Standing::Ours(trusted) if trusted.bundle != bundle => {
                    let version = present.and_then(|present| present.metadata.resource_version);
                    act::trust(services, &name, version, bundle)
                        .await
                        .with_context(|| format!("cannot put authorities into APIService {name}"))?;
                    tracing::info!(name, "the API server is told whom to trust");
                    // It has not been seen to work yet.
                    seen.push(Trusted { bundle: bundle.to_owned(), is_available: false });
                }
                Standing::Ours(trusted) | Standing::Injected(trusted) => seen.push(trusted),
                Standing::Missing | Standing::Elsewhere(_) | Standing::Insecure => {}
            }
        }
        self.trusted = trusted_everywhere(seen);
        Ok(())
    }

    /// Says once what keeps an object from being looked after.
    fn say(&mut self, name: &str, found: &Standing) {
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
        let before = self.said.insert(name.to_owned(), text.clone()).unwrap_or_default();
        match found {
            _ if text == before => {}
            Standing::Insecure => tracing::error!(name, "leaving an APIService alone: {text}"),
            Standing::Ours(_) => tracing::info!(name, "looking after an APIService again"),
            _ => tracing::warn!(name, "leaving an APIService alone: {text}"),
        }
    }
}

/// What may be relied on: the bundle of an object that has another than the rest would be the one to wait for, so there is none then,
/// nor while any object is not seen to work.
fn trusted_everywhere(seen: Vec<Trusted>) -> Option<String> {
    let same = seen.iter().all(|one| one.is_available && seen.first().is_some_and(|first| one.bundle == first.bundle));
    seen.into_iter().next().filter(|_| same).map(|trusted| trusted.bundle)
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
    fn a_bundle_is_relied_on_once_every_object_has_it_and_works() {
        check(&[], None);
        check(&[("new", true)], Some("new"));
        check(&[("new", true), ("new", true), ("new", true)], Some("new"));
        check(&[("new", true), ("old", true)], None);
        check(&[("new", true), ("new", false)], None);
    }
}
