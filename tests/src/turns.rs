//! Something that tests of a run use one at a time.

use anyhow::Result;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

/// A value that the first test makes; all use it in turns.
pub struct Turns<T>(Mutex<Option<T>>);

/// The turn of one test.
pub type Turn<T> = MappedMutexGuard<'static, T>;

impl<T> Turns<T> {
    /// Nothing is made yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self(Mutex::const_new(None))
    }

    /// Waits for the end of the others' turns.
    pub async fn take(&'static self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Turn<T>> {
        let mut slot = self.0.lock().await;
        let value = match slot.take() {
            Some(value) => value,
            None => make().await?,
        };
        Ok(MutexGuard::map(slot, |slot| slot.insert(value)))
    }
}
