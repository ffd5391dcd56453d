//! The gates that all programs of the suite know, as upstream's programs do: whichever of them a
//! gate concerns, one text fits all.

use super::{Gate, Stage};

/// Startup boosts of CPU: updater and webhook.
pub const STARTUP_BOOST: &str = "CPUStartupBoost";
/// Resizing pods where they run: updater and webhook.
pub const IN_PLACE: &str = "InPlace";
/// Objects with rules of their own: recommender, updater and webhook.
pub const PER_AUTOSCALER_RULES: &str = "PerVPAConfig";

/// All of them.
pub const SUITE: [Gate; 3] = [
    Gate {
        name: STARTUP_BOOST,
        stage: Stage::Alpha,
        default: false,
    },
    Gate {
        name: IN_PLACE,
        stage: Stage::Alpha,
        default: false,
    },
    Gate {
        name: PER_AUTOSCALER_RULES,
        stage: Stage::Alpha,
        default: false,
    },
];
