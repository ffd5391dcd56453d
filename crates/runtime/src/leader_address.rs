//! Addresses of the leaders, from watches of their Leases. The holder's identity ends with its
//! address (see [`crate::lease`]).

use std::future::Future;
use std::pin::pin;

use futures::StreamExt as _;
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use tokio::sync::watch;

use crate::lease::{address_of, shard_lease};
use crate::log::LogOnce;

/// Follows the leaders of `count` shards, each with its own Lease named after `name`. Returns a
/// receiver of each leader's address in order, and the future that updates them.
pub fn follow_shards(
    leases: &Api<Lease>,
    name: &str,
    count: u16,
) -> (
    Vec<watch::Receiver<Option<String>>>,
    impl Future<Output = ()> + use<>,
) {
    let (mut leaders, mut following) = (Vec::new(), Vec::new());
    for index in 0..count {
        let (found, leader) = watch::channel(None);
        let (leases, name) = (leases.clone(), shard_lease(name, index, count));
        following.push(async move { follow_leader(leases, &name, found).await });
        leaders.push(leader);
    }
    (leaders, async { drop(join_all(following).await) })
}

/// Updates `leader` with the address of the holder of the Lease `name`: `None` without a holder or
/// without an address. Runs until all receivers are dropped. While the API server is unreachable,
/// the last address is kept.
pub async fn follow_leader(leases: Api<Lease>, name: &str, leader: watch::Sender<Option<String>>) {
    let mut states = pin!(watch_object(leases, name).default_backoff());
    let mut logged = LogOnce::default();
    loop {
        let state = tokio::select! {
            state = states.next() => state,
            () = leader.closed() => return,
        };
        match state {
            Some(Ok(lease)) => {
                logged.clear();
                let address = lease.as_ref().and_then(address);
                leader.send_if_modified(|known| {
                    let changed = *known != address;
                    *known = address;
                    changed
                });
            }
            Some(Err(error)) => {
                if logged.is_new(()) {
                    tracing::warn!(lease = name, %error, "cannot watch the lease; keeping its last known holder");
                }
            }
            None => return,
        }
    }
}

fn address(lease: &Lease) -> Option<String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    address_of(holder).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;

    use super::*;

    fn check(holder: Option<&str>, expected: Option<&str>) {
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            ..LeaseSpec::default()
        };
        let lease = Lease {
            spec: Some(spec),
            ..Lease::default()
        };
        assert_eq!(address(&lease).as_deref(), expected, "{holder:?}");
    }

    #[test]
    fn the_leader_is_reached_where_its_identity_says() {
        let uuid = "00000000-0000-4000-8000-000000000000";
        check(
            Some(&format!("pod-1_{uuid}_10.0.0.7:8950")),
            Some("10.0.0.7:8950"),
        );
        check(
            Some(&format!("pod-1_{uuid}_[fd00::7]:8950")),
            Some("[fd00::7]:8950"),
        );
        check(Some(&format!("pod-1_{uuid}")), None);
        check(Some(""), None);
        check(None, None);
    }
}
