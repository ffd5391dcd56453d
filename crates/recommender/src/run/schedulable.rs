//! Watches for the caps to what can be scheduled.

use vertical::schedulable::{CapTo, Settings};
use watch::Watches;

/// Adds the watches that capping needs. To be called before pods are watched.
pub(super) fn watch_schedulable(settings: Settings, watches: Watches) -> Watches {
    let CapTo {
        nodes,
        quotas,
        limit_ranges,
    } = settings.cap_to;
    let watches = watches.with_placements().pending_pods();
    let watches = if nodes {
        watches.nodes().daemons()
    } else {
        watches
    };
    let watches = if quotas { watches.quotas() } else { watches };
    if limit_ranges {
        watches.limit_ranges()
    } else {
        watches
    }
}
