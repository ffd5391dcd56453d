//! Observation of a container, which each sizing method's history takes in its own way.

use model::{Cpu, Memory};

use crate::config::MemoryRules;

#[derive(Clone, Copy, Debug)]
pub enum Observation {
    Usage {
        cpu: Option<Cpu>,
        memory: Option<Memory>,
    },
    /// OOM kill of a container with this request.
    Oom { request: Memory, rules: MemoryRules },
}
