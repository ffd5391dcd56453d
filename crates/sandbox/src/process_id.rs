//! Unambiguous identities of processes of this machine: the kernel reuses a pid after a while, but
//! never a pid together with its start time (clock ticks since boot, field 22 of `/proc/PID/stat`)
//! and the boot id.

use std::fs;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks between boot and the start of the process.
    pub started: u64,
    /// Kernel's random id of this boot.
    pub boot: String,
}

impl Process {
    /// The running process with this pid, if there is one.
    pub fn find(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, started) = state_and_start(&stat)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()?
            .trim()
            .to_owned();
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, started, boot })
    }

    /// Whether this process still runs.
    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).as_ref() == Some(self)
    }

    /// Sends a signal, unless the process is gone.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
            && self.is_alive()
        {
            // The only other failure is that the process has ended meanwhile, as the caller wants.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// State letter and start time; the name of the program before them may hold spaces and brackets.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_until_it_is_another_one() {
        let this = Process::find(std::process::id()).expect("this test runs");
        assert!(this.is_alive());
        assert!(
            !Process {
                started: this.started + 1,
                ..this.clone()
            }
            .is_alive()
        );
        assert!(
            !Process {
                boot: "another boot".to_owned(),
                ..this
            }
            .is_alive()
        );
    }

    #[test]
    fn a_program_name_with_brackets_does_not_confuse() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(state_and_start(stat), Some(('S', 4711)));
    }
}
