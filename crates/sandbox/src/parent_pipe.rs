//! The pipe between a supervisor and the process that started it. When that process ends, for any
//! reason, the pipe closes and the sandbox goes down, unless the line `detach` came before.

use std::io::BufRead;
use std::thread;

use tokio::sync::oneshot;

use crate::startup_protocol::DETACH;

/// Resolves when the sandbox has to go down with its owner; never once it is detached.
pub(crate) struct ParentPipe(oneshot::Receiver<()>);

impl ParentPipe {
    /// Reads the rest of the input, in its own thread, because a read cannot be aborted.
    pub(crate) fn watch(input: impl BufRead + Send + 'static) -> Self {
        let (cut, is_cut) = oneshot::channel();
        thread::spawn(move || {
            if input
                .lines()
                .map_while(Result::ok)
                .any(|line| line == DETACH)
            {
                // Never dropped: the receiver would take that for the end of the owner.
                std::mem::forget(cut);
            } else {
                let _ = cut.send(());
            }
        });
        Self(is_cut)
    }

    /// Waits for the end of the owner.
    pub(crate) async fn closed(&mut self) {
        let _ = (&mut self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_owner_closes_the_pipe() {
        let mut pipe = ParentPipe::watch(std::io::Cursor::new("something else\n"));
        assert!(timeout(Duration::from_mins(1), pipe.closed()).await.is_ok());
    }

    #[tokio::test]
    async fn a_detached_sandbox_outlives_its_owner() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut parent_pipe = ParentPipe::watch(std::io::BufReader::new(reader));
        std::io::Write::write_all(&mut writer, b"detach\n").unwrap();
        drop(writer);
        tokio::task::yield_now().await;
        assert_eq!(parent_pipe.closed().now_or_never(), None);
    }
}
