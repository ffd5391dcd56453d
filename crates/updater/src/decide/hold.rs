//! Why the pods of one autoscaler are left as they are for now.

use std::time::Duration;

use cluster::{Autoscaler, ObjectKey, View};

use super::moment::Moment;
use super::window::{MAINTENANCE_WINDOW, Window, WindowError};

/// An autoscaler whose pods are left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The autoscaler.
    pub autoscaler: ObjectKey,
    /// Why.
    pub hold: Hold,
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Its recommendation is frozen for want of usage.
    Frozen,
    /// Its maintenance window is closed.
    OutsideWindow {
        /// After how long it opens.
        opens_in: Duration,
    },
    /// Its maintenance window cannot be read; it counts as closed.
    UnreadableWindow(WindowError),
}

/// Whether an autoscaler's pods are left alone.
pub(super) fn hold(autoscaler: &Autoscaler, view: &View, is_frozen: bool, now: Moment) -> Option<Hold> {
    if is_frozen {
        return Some(Hold::Frozen);
    }
    let own = autoscaler.object.metadata.annotations.as_ref().and_then(|all| all.get(MAINTENANCE_WINDOW));
    let namespace = view.namespaces.get(&autoscaler.key.namespace);
    let written = own.or_else(|| namespace?.annotations.get(MAINTENANCE_WINDOW))?;
    match written.parse::<Window>() {
        Ok(window) => window.opens_in(now.wall).map(|opens_in| Hold::OutsideWindow { opens_in }),
        Err(error) => Some(Hold::UnreadableWindow(error)),
    }
}
