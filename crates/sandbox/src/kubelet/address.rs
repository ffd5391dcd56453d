//! Addresses of hosted pods. Each pod has one address in two forms: `10.B.y.z` in its status,
//! because the API server refuses loopback addresses in `EndpointSlice`s and as proxy targets, and
//! `127.B.y.z`, on which its processes listen (Linux answers for all of 127.0.0.0/8). The block B
//! belongs to one sandbox at a time on this machine.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Blocks to choose from: clear of the usual Service (10.96/12) and node (10.0/16, 10.244/16)
/// ranges.
const FIRST_BLOCK: u8 = 128;
const BLOCKS: u8 = 96;

/// The socket that marks a block as used. The kernel frees it with its owner, so that no block is
/// leaked.
const CLAIM_HOST: [u8; 2] = [255, 254];
const CLAIM_PORT: u16 = 47_127;

/// Pods at one time in one sandbox; also the number of addresses assigned before one is used again.
const LAST_INDEX: u16 = 50_000;

/// A claimed block of addresses.
#[derive(Debug)]
pub(super) struct Block {
    /// The second octet that all addresses of this sandbox share.
    pub(super) octet: u8,
    _claim: TcpListener,
}

impl Block {
    /// Claims a block, first the one that follows from this folder's path, so that a sandbox keeps
    /// its addresses.
    pub(super) fn claim(folder: &Path) -> std::io::Result<Self> {
        let start = Sha256::digest(folder.as_os_str().as_encoded_bytes())[0];
        let mut refusal = std::io::Error::other("no block of loopback addresses to choose from");
        for step in 0..BLOCKS {
            let octet = FIRST_BLOCK + (start % BLOCKS + step) % BLOCKS;
            match TcpListener::bind((
                Ipv4Addr::new(127, octet, CLAIM_HOST[0], CLAIM_HOST[1]),
                CLAIM_PORT,
            )) {
                Ok(claim) => {
                    return Ok(Self {
                        octet,
                        _claim: claim,
                    });
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodAddress {
    octet: u8,
    index: u16,
}

impl PodAddress {
    pub(super) fn in_status(self) -> Ipv4Addr {
        self.with_first(10)
    }

    pub(super) fn on_loopback(self) -> Ipv4Addr {
        self.with_first(127)
    }

    fn with_first(self, first: u8) -> Ipv4Addr {
        let [high, low] = self.index.to_be_bytes();
        Ipv4Addr::new(first, self.octet, high, low)
    }
}

/// The addresses of one block. A freed address is used again only after all others.
#[derive(Debug)]
pub(super) struct Pool {
    octet: u8,
    used: BTreeSet<u16>,
    last: u16,
}

impl Pool {
    /// An unused pool for the block with this second octet.
    pub(super) fn new(octet: u8) -> Self {
        Self {
            octet,
            used: BTreeSet::new(),
            last: 0,
        }
    }

    /// The next free address, or `None` when all are in use.
    pub(super) fn take(&mut self) -> Option<PodAddress> {
        let free = |index: &u16| !self.used.contains(index);
        let index = (self.last + 1..=LAST_INDEX)
            .find(free)
            .or_else(|| (1..=self.last).find(free))?;
        self.used.insert(index);
        self.last = index;
        Some(PodAddress {
            octet: self.octet,
            index,
        })
    }

    /// Gives an address back.
    pub(super) fn release(&mut self, address: PodAddress) {
        self.used.remove(&address.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_in_both_spellings_but_for_the_first_octet() {
        let address = PodAddress {
            octet: 130,
            index: 258,
        };
        assert_eq!(address.in_status(), Ipv4Addr::new(10, 130, 1, 2));
        assert_eq!(address.on_loopback(), Ipv4Addr::new(127, 130, 1, 2));
    }

    #[test]
    fn a_freed_address_waits_for_its_turn() {
        let mut pool = Pool::new(130);
        let first = pool.take().unwrap();
        pool.release(first);
        assert_ne!(pool.take().unwrap(), first);
        pool.last = LAST_INDEX;
        assert_eq!(pool.take().unwrap(), first);
    }

    #[test]
    fn an_exhausted_pool_says_so() {
        let mut pool = Pool::new(130);
        for _ in 0..LAST_INDEX {
            assert!(pool.take().is_some());
        }
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn two_sandboxes_never_share_a_block() {
        let folder = Path::new("/the/same/folder");
        let first = Block::claim(folder).unwrap();
        let second = Block::claim(folder).unwrap();
        assert_ne!(first.octet, second.octet);
    }
}
