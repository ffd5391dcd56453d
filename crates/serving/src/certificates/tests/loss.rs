//! The Secret is deleted or damaged while servers use its certificates.

use super::*;
use crate::tls::TlsFiles;

/// The damaged Secret: deleted, or with these entries.
fn losses() -> Vec<Option<Vec<(&'static str, String)>>> {
    let theirs = super::authority(begin(), 300);
    let other = leaf_of(&theirs, begin(), 60);
    let authority = ("caCert.pem", theirs.certificate.pem.clone());
    vec![
        None,
        Some(Vec::new()),
        Some(vec![
            ("caCert.pem", "nonsense".to_owned()),
            ("serverCert.pem", String::new()),
        ]),
        Some(vec![authority.clone()]),
        // As another replica leaves it half way through its start.
        Some(vec![authority.clone(), ("caKey.pem", theirs.key.clone())]),
        // A key of another certificate.
        Some(vec![
            authority,
            ("serverCert.pem", other.certificate.pem),
            ("serverKey.pem", theirs.key),
        ]),
    ]
}

impl Store {
    pub(super) fn lose(&self, left: Option<&Vec<(&'static str, String)>>) {
        match left {
            None => *self.secret.lock().unwrap() = None,
            Some(left) => {
                let left = left.iter().map(|(name, text)| (*name, text.as_str()));
                self.put(&left.collect::<Vec<_>>());
            }
        }
    }

    fn let_in(&self, writes: Option<u32>) {
        *self.writes.lock().unwrap() = writes;
    }
}

#[tokio::test]
async fn the_certificates_of_two_replicas_are_restored() {
    for left in losses() {
        let store = Store::default();
        let begins = (0..2).map(|_| begun(&store));
        let mut replicas = futures::future::try_join_all(begins).await.unwrap();
        let (bundle, shown) = (replicas[0].bundle(), leaf(&replicas[0]).clone());
        let check = |replicas: &[ManagedTls]| {
            for replica in replicas {
                assert_eq!(replica.bundle(), bundle, "{left:?}");
                assert_eq!(*leaf(replica), shown, "{left:?}");
            }
        };
        // One after the other, and both at once.
        store.lose(left.as_ref());
        for turn in [0, 1, 0] {
            let done = replicas[turn].tick_at(Some(&bundle), begin()).await;
            done.unwrap();
            check(&replicas);
        }
        store.lose(left.as_ref());
        let ticks = replicas.iter_mut();
        let ticks = ticks.map(|replica| replica.tick_at(Some(&bundle), begin()));
        futures::future::try_join_all(ticks).await.unwrap();
        check(&replicas);
        check(&[begun(&store).await.unwrap()]);
    }
}

#[tokio::test]
async fn the_bundle_has_the_issuer_of_the_served_certificate_whichever_write_fails() {
    for (left, writes) in losses()
        .into_iter()
        .flat_map(|left| (0..3).map(move |writes| (left.clone(), writes)))
    {
        let store = Store::default();
        let mut tls = begun(&store).await.unwrap();
        // With an authority and a certificate that are good still, and such as are due.
        for day in [0, 181] {
            let now = begin() + DAY * day;
            let registered = tls.bundle();
            store.lose(left.as_ref());
            store.let_in(Some(writes));
            for _ in 0..2 {
                let done = tls.tick_at(Some(&registered), now).await;
                assert!(writes > 0 || done.is_err(), "{left:?}");
                assert!(!tls.bundle().is_empty(), "{left:?} {writes}");
                let is_good = day > 0 || is_trusted(&tls, &tls.bundle(), now);
                assert!(is_good, "{left:?} {writes}");
            }
            store.let_in(None);
            tls.tick_at(Some(&registered), now).await.unwrap();
            for bundle in [&tls.bundle(), &registered] {
                assert!(is_trusted(&tls, bundle, now), "{left:?} {writes}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_starts_with_the_key_of_another_certificate() {
    for left in losses() {
        let store = Store::default();
        store.lose(left.as_ref());
        let tls = begun(&store).await.unwrap();
        assert!(is_trusted(&tls, &tls.bundle(), begin()), "{left:?}");
    }
}

#[tokio::test]
async fn an_empty_ca_file_keeps_the_previous_bundle() {
    let made = authority(begin(), 300);
    let leaf = leaf_of(&made, begin(), 60);
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (certificate, private_key) = (put("cert", &leaf.certificate.pem), put("key", &leaf.key));
    let files = Files {
        files: TlsFiles {
            certificate,
            private_key,
            authorities: None,
        },
        authorities: Some(put("ca", "\n")),
        follow: true,
        serving: ServingProfile::default(),
    };
    let certificates = Source::Files(files).get(&ApiServerClock::default()).await;
    let mut certificates = certificates.unwrap();
    for (text, expected) in [
        ("", None),
        (made.certificate.pem.as_str(), Some(&made.certificate.pem)),
        ("", Some(&made.certificate.pem)),
    ] {
        put("ca", text);
        certificates.refresh(None, SystemTime::now()).await.unwrap();
        assert_eq!(certificates.bundle().as_ref(), expected);
    }
}
