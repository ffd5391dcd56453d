//! Memory that the kernel charges to the container.

use crate::state::State;

const MIB: usize = 1 << 20;
/// Capacity of a block. glibc gives an allocation above 32 MiB a mapping of its own, whatever was
/// freed before, so a freed block is unmapped and the kernel has its pages back.
const BLOCK_MIB: usize = 33;
/// One page that is not zero. With transparent huge pages, the kernel may charge up to 2 MiB for
/// it.
const PAGE: [u8; 4096] = [1; 4096];

/// Blocks of reserved memory, written page by page: the kernel charges the written pages only.
#[derive(Default)]
struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    fn mib(&self) -> u64 {
        let bytes: usize = self.0.iter().map(Vec::len).sum();
        (bytes / MIB) as u64
    }

    /// Adds one MiB, or frees whole blocks until no more than `wanted` is left.
    fn step_towards(&mut self, wanted: u64) {
        while self.mib() > wanted {
            self.0.pop();
        }
        if self.mib() == wanted {
            return;
        }
        let is_full = |last: &Vec<u8>| last.len() == last.capacity();
        if self.0.last().is_none_or(is_full) {
            self.0.push(Vec::with_capacity(BLOCK_MIB * MIB));
        }
        if let Some(last) = self.0.last_mut() {
            for _ in 0..MIB / PAGE.len() {
                last.extend_from_slice(&PAGE);
            }
        }
    }
}

/// Holds as much as is wanted, for ever.
pub(crate) fn hold(state: &State) -> ! {
    let mut blocks = Blocks::default();
    loop {
        let wanted = state.wait_for_wanted_mib(blocks.mib());
        blocks.step_towards(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident anonymous memory of this process.
    fn resident_mib() -> u64 {
        let bytes = e2e::process_usage::status_bytes(std::process::id(), "RssAnon:");
        (bytes.expect("RssAnon") >> 20) as u64
    }

    #[test]
    fn the_kernel_charges_what_is_held_and_gets_back_what_is_not() {
        let mut blocks = Blocks::default();
        let before = resident_mib();
        // More than once: glibc adapts to what was freed.
        for _ in 0..3 {
            for wanted in [150, 70, 1, 20, 0] {
                while blocks.mib() != wanted {
                    blocks.step_towards(wanted);
                }
                let resident = resident_mib().saturating_sub(before);
                assert!(resident.abs_diff(wanted) < 8, "{wanted}: {resident}");
            }
        }
    }
}
