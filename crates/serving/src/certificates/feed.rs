//! Certificates of the feed, whose both sides present one: a CA in a Secret, and a certificate of each
//! program in a Secret that its pods mount. One replica issues them all.
//!
//! A rotation has three steps, so that no connection fails:
//!
//! 1. A new CA is added in front of the bundle of each program.
//! 2. The certificates are replaced when all pods have had that bundle for a while.
//! 3. The old CA is removed some time after its last certificate was replaced.
//!
//! If one of the programs has a Secret that others made, all are left alone.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use runtime::LogOnce;
use runtime::api_server_clock::ApiServerClock;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::certificate_set::{CertificateSet, complete};
use super::issue::{Certificate, Side, join};
use super::rotation::{RotationPolicy, is_due, issued, whole_seconds};
use super::{CANNOT_ISSUE, MOST_FORMER_AUTHORITIES, failed, issue, seconds, unusable};

const AUTHORITY: &str = "plimsoll-feed-certificates";
const AUTHORITY_NAME: &str = "plimsoll-feed";
const MANAGER: &str = "plimsoll-recommender";
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(5);
/// Annotation that Plimsoll writes on a Secret: the Secret has a certificate of the feed; see
/// docs/certificates.md#the-feed.
const ISSUED: &str = "plimsoll.dev/issued-by";
/// Prefix of the annotations of Secrets that cert-manager fills.
const CERT_MANAGER: &str = "cert-manager.io/";
/// Entries of a program's Secret.
const BUNDLE: &str = "ca.crt";
const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

pub struct FeedCertificates {
    secrets: Api<Secret>,
    /// Names of the programs, which are the DNS names in their certificates.
    programs: Vec<String>,
    policy: RotationPolicy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FeedPass {
    /// The certificates are those that the Secrets should have; the names of changed Secrets.
    Issued(Vec<String>),
    /// The Secret of this name is not ours.
    Foreign(String),
}

type Programs = BTreeMap<String, CertificateSet>;

impl FeedCertificates {
    /// The certificates of these programs in a namespace, by the policy of the feed.
    pub fn new(secrets: Api<Secret>, programs: &[&str]) -> Self {
        Self {
            secrets,
            programs: programs.iter().map(ToString::to_string).collect(),
            policy: Self::policy(),
        }
    }

    /// The policy of the feed: kubelets take up to two minutes until pods see another Secret.
    fn policy() -> RotationPolicy {
        RotationPolicy {
            settling: Duration::from_mins(10),
            tick: Duration::from_secs(30),
            ..RotationPolicy::default()
        }
    }

    /// Issues and renews the certificates until shutdown.
    pub async fn keep(self, clock: ApiServerClock, shutdown: CancellationToken) {
        let mut logged = LogOnce::default();
        loop {
            let (problem, pause) = match self.pass(clock.now()).await {
                Ok(FeedPass::Issued(secrets)) => {
                    for secret in secrets {
                        tracing::info!(secret, "issued certificates of the feed");
                    }
                    (None, self.policy.tick)
                }
                Ok(FeedPass::Foreign(secret)) => {
                    let text = format!("the Secret {secret} was made by others");
                    (Some(text), self.policy.tick)
                }
                Err(error) => (Some(format!("{error:#}")), RETRY),
            };
            if let Some(problem) = logged.update(problem) {
                tracing::warn!(problem, "not issuing certificates of the feed");
            }
            let pause = tokio::time::sleep(pause);
            if shutdown.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Issues what is missing, and takes the steps of a rotation that are due.
    async fn pass(&self, now: SystemTime) -> Result<FeedPass> {
        let mut programs = Programs::new();
        for program in &self.programs {
            let name = secret_name(program);
            let Some(secret) = self.read(&name).await? else {
                programs.insert(program.clone(), CertificateSet::default());
                continue;
            };
            if !is_ours(&secret) {
                return Ok(FeedPass::Foreign(name));
            }
            programs.insert(program.clone(), read(&secret.data.unwrap_or_default()));
        }
        let stored = self.read(AUTHORITY).await?;
        let stored = stored.and_then(|secret| secret.data).unwrap_or_default();
        let stored = CertificateSet::read(&stored);
        let (authority, next) = next(&stored, &programs, &self.policy, now)?;
        let mut changed = Vec::new();
        // A certificate is stored after the CA that issued it.
        if authority != stored {
            let entries = authority.entries();
            self.write(AUTHORITY, &entries).await?;
            changed.push(AUTHORITY.to_owned());
        }
        for (program, certificates) in next {
            if programs.get(&program) != Some(&certificates) {
                let name = secret_name(&program);
                let entries = entries(&certificates);
                self.write(&name, &entries).await?;
                changed.push(name);
            }
        }
        Ok(FeedPass::Issued(changed))
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>> {
        let read = self.secrets.get_opt(name).await;
        read.map_err(|error| failed(name, &error))
    }

    async fn write(&self, name: &str, entries: &BTreeMap<&str, Option<ByteString>>) -> Result<()> {
        let mut secret = complete(name, entries);
        secret["metadata"]["annotations"] = json!({ISSUED: MANAGER});
        let params = PatchParams::apply(MANAGER).force();
        let written = self
            .secrets
            .patch(name, &params, &Patch::Apply(secret))
            .await;
        written.map(drop).map_err(|error| failed(name, &error))
    }
}

fn secret_name(program: &str) -> String {
    format!("{program}-feed-tls")
}

fn is_ours(secret: &Secret) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let mut names = annotations.into_iter().flatten().map(|(name, _)| name);
    names.clone().any(|name| name == ISSUED) && !names.any(|name| name.starts_with(CERT_MANAGER))
}

/// The certificates in a program's Secret. Invalid ones count as missing.
fn read(data: &BTreeMap<String, ByteString>) -> CertificateSet {
    let text = |name: &str| {
        let text = String::from_utf8(data.get(name)?.0.clone()).ok()?;
        Some(text).filter(|text| !text.is_empty())
    };
    let certificates = |name: &str| {
        let text = text(name).unwrap_or_default();
        Certificate::read_all(&text)
    };
    CertificateSet {
        authorities: certificates(BUNDLE),
        chain: certificates(CHAIN),
        key: text(KEY),
        ..CertificateSet::default()
    }
}

fn entries(certificates: &CertificateSet) -> BTreeMap<&'static str, Option<ByteString>> {
    let bytes = |text: String| Some(ByteString(text.into_bytes()));
    BTreeMap::from([
        (BUNDLE, bytes(certificates.bundle())),
        (CHAIN, bytes(join(&certificates.chain))),
        (KEY, bytes(certificates.key.clone().unwrap_or_default())),
    ])
}

/// The CA and the certificates of the programs after the steps that are due.
fn next(
    stored: &CertificateSet,
    programs: &Programs,
    policy: &RotationPolicy,
    now: SystemTime,
) -> Result<(CertificateSet, Programs)> {
    let second = seconds(now);
    let mut authority = stored.clone();
    let can_sign = |current: &Certificate| {
        current.is_valid(second) && !is_due(current, policy.authority_age, second)
    };
    if authority
        .current()
        .is_some_and(|(current, _)| can_sign(current))
    {
        if is_unused_for(&authority, programs, policy.overlap, second) {
            authority.authorities.truncate(1);
        }
    } else {
        // Without the Secret of the CA, the programs still know which one they trust.
        let trusted = programs.values().flat_map(|program| &program.authorities);
        let mut former: Vec<Certificate> =
            stored.authorities.iter().chain(trusted).cloned().collect();
        former.retain(|former| former.is_valid(second));
        former.sort_by_key(|former| -former.not_before);
        former.dedup();
        former.truncate(MOST_FORMER_AUTHORITIES);
        let made = issue::authority(AUTHORITY_NAME, now, policy.authority_validity, None)
            .context(CANNOT_ISSUE)?;
        authority.authorities = [vec![made.authority.certificate], former].concat();
        authority.authority_key = Some(made.authority.key);
    }
    let (current, key) = authority.current().ok_or_else(|| unusable(AUTHORITY))?;
    let is_settled = second - issued(current) >= whole_seconds(policy.settling);
    let mut issued = Programs::new();
    for (name, before) in programs {
        let mut program = before.clone();
        program.authorities.clone_from(&authority.authorities);
        let is_usable = program.is_valid(second)
            && program.leaf().is_some_and(|leaf| leaf.names.contains(name));
        let is_old = program.leaf().is_none_or(|leaf| {
            !leaf.is_signed_by(current) || is_due(leaf, policy.leaf_age, second)
        });
        if !is_usable || is_settled && is_old {
            let names = std::slice::from_ref(name);
            let leaf = issue::leaf((current, key), names, Side::Both, now, policy.leaf_validity)
                .context(CANNOT_ISSUE)?;
            program.chain = vec![leaf.certificate];
            program.key = Some(leaf.key);
        }
        issued.insert(name.clone(), program);
    }
    Ok((authority, issued))
}

/// Whether no program has had a certificate of a former CA for some time.
fn is_unused_for(
    authority: &CertificateSet,
    programs: &Programs,
    overlap: Duration,
    now: i64,
) -> bool {
    let Some((current, _)) = authority.current() else {
        return false;
    };
    programs.values().all(|program| {
        program.leaf().is_some_and(|leaf| {
            leaf.is_signed_by(current) && now - issued(leaf) >= whole_seconds(overlap)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
    }

    fn empty() -> Programs {
        let names = ["plimsoll-recommender", "plimsoll-updater"];
        names
            .map(|name| (name.to_owned(), CertificateSet::default()))
            .into()
    }

    fn pass(state: &(CertificateSet, Programs), seconds: u64) -> (CertificateSet, Programs) {
        next(&state.0, &state.1, &FeedCertificates::policy(), at(seconds)).expect("it issues")
    }

    fn check_trust(programs: &Programs, seconds: u64) {
        for (name, one) in programs {
            assert!(one.served().is_some(), "{name} has a key");
            for (other_name, other) in programs {
                let mixed = CertificateSet {
                    authorities: one.authorities.clone(),
                    ..other.clone()
                };
                let now = super::seconds(at(seconds));
                assert!(mixed.is_valid(now), "{name} does not trust {other_name}");
            }
        }
    }

    #[test]
    fn all_programs_get_certificates_at_once_and_then_nothing_changes() {
        let first = pass(&(CertificateSet::default(), empty()), 0);
        check_trust(&first.1, 0);
        for (name, program) in &first.1 {
            let leaf = program.leaf().expect("a certificate");
            assert_eq!(&leaf.names[..], std::slice::from_ref(name));
        }
        assert!(first == pass(&first, 1) && first == pass(&first, 29 * DAY));
    }

    #[test]
    fn a_rotation_never_leaves_two_programs_that_do_not_trust_each_other() {
        let mut state = pass(&(CertificateSet::default(), empty()), 0);
        let mut most = 0;
        let (mut seconds, mut authorities) = (0, vec![state.0.authorities[0].clone()]);
        while seconds < 400 * DAY {
            seconds += HOUR / 3;
            // A step is due at the begin of a day, and the ones after it within hours.
            if seconds % DAY > 2 * HOUR {
                continue;
            }
            let next = pass(&state, seconds);
            // Pods may have the Secrets of the last pass or of this one.
            for (name, program) in &next.1 {
                let mut mixed = state.1.clone();
                mixed.insert(name.clone(), program.clone());
                check_trust(&mixed, seconds);
            }
            most = most.max(next.0.authorities.len());
            if next.0.authorities[0] != authorities[authorities.len() - 1] {
                authorities.push(next.0.authorities[0].clone());
            }
            state = next;
        }
        assert_eq!((most, authorities.len()), (2, 3), "a CA each 180 days");
    }

    #[test]
    fn a_lost_authority_is_replaced_and_the_old_one_is_still_trusted() {
        let first = pass(&(CertificateSet::default(), empty()), 0);
        let lost = (CertificateSet::default(), first.1.clone());
        let second = pass(&lost, HOUR);
        assert_eq!(second.0.authorities.len(), 2);
        for (name, program) in &second.1 {
            assert_eq!(program.chain, first.1[name].chain, "it stays for a while");
        }
        let third = pass(&second, 2 * HOUR);
        check_trust(&third.1, 2 * HOUR);
        assert!(third.1.values().all(|it| {
            it.leaf()
                .expect("one")
                .is_signed_by(&third.0.authorities[0])
        }));
        let fourth = pass(&third, 4 * HOUR);
        assert_eq!(fourth.0.authorities.len(), 1);
    }

    #[test]
    fn a_damaged_certificate_is_replaced_at_once() {
        let first = pass(&(CertificateSet::default(), empty()), 0);
        let name = "plimsoll-updater";
        let mut damaged = first.1.clone();
        let entry = damaged.get_mut(name).expect("a program");
        entry.key = Some("no key".to_owned());
        let (_, next) = pass(&(first.0.clone(), damaged), 60);
        assert_ne!(next[name].chain, first.1[name].chain);
        check_trust(&next, 60);
    }

    #[test]
    fn secrets_of_others_are_known_by_their_annotations() {
        for (annotations, expected) in [
            (json!(null), false),
            (
                json!({"plimsoll.dev/issued-by": "plimsoll-recommender"}),
                true,
            ),
            (
                json!({"plimsoll.dev/issued-by": "plimsoll-recommender", "cert-manager.io/issuer-name": "ca"}),
                false,
            ),
        ] {
            let secret = json!({"metadata": {"name": "a", "annotations": annotations}});
            let secret = serde_json::from_value(secret).expect("a Secret");
            assert_eq!(is_ours(&secret), expected, "{annotations}");
        }
    }
}
