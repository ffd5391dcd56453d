//! A fixture that tests of a run share, each alone or together with others.

use std::ops::Deref;

use anyhow::Result;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value that the first test makes. A test that breaks it for others has it alone.
pub struct Turns<T> {
    value: OnceCell<T>,
    lock: RwLock<()>,
}

/// The value during the turn of one test.
pub struct Turn<T: 'static> {
    value: &'static T,
    _lock: Lock,
}

enum Lock {
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
    Together {
        _guard: RwLockReadGuard<'static, ()>,
    },
}

impl<T> Turns<T> {
    /// Nothing is made yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            value: OnceCell::const_new(),
            lock: RwLock::const_new(()),
        }
    }

    /// Waits for the end of all earlier turns; later turns wait for the end of this one.
    pub async fn alone(&'static self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Turn<T>> {
        let guard = self.lock.write().await;
        self.turn(Lock::Alone { _guard: guard }, make).await
    }

    /// Waits for the end of earlier turns of tests that are alone.
    pub async fn together(&'static self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Turn<T>> {
        let guard = self.lock.read().await;
        self.turn(Lock::Together { _guard: guard }, make).await
    }

    async fn turn(
        &'static self,
        lock: Lock,
        make: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<Turn<T>> {
        Ok(Turn {
            value: self.value.get_or_try_init(|| make()).await?,
            _lock: lock,
        })
    }
}

impl<T> Deref for Turn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}
