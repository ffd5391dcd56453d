//! A fixture that tests of a run share, each alone or together with others.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use anyhow::{Result, anyhow};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value that the first test makes, and that ends with the last one that has it or waits for it: a
/// control plane without use takes a tenth of a core. A test that breaks the value for others has it alone.
pub struct Turns<T> {
    /// Or why it could not be made, which later tests need not wait for.
    value: Mutex<Result<Weak<T>, String>>,
    lock: RwLock<()>,
}

/// The value during the turn of one test.
pub struct Turn<T: 'static> {
    value: Arc<T>,
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
            value: Mutex::const_new(Ok(Weak::new())),
            lock: RwLock::const_new(()),
        }
    }

    /// Waits for the end of all earlier turns; later turns wait for the end of this one.
    pub async fn alone(&'static self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Turn<T>> {
        let value = self.value(make).await?;
        let guard = self.lock.write().await;
        let lock = Lock::Alone { _guard: guard };
        Ok(Turn { value, _lock: lock })
    }

    /// Waits for the end of earlier turns of tests that are alone.
    pub async fn together(&'static self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Turn<T>> {
        let value = self.value(make).await?;
        let guard = self.lock.read().await;
        let lock = Lock::Together { _guard: guard };
        Ok(Turn { value, _lock: lock })
    }

    async fn value(&self, make: impl AsyncFnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut kept = self.value.lock().await;
        match &*kept {
            Ok(value) => {
                if let Some(value) = value.upgrade() {
                    return Ok(value);
                }
            }
            Err(error) => return Err(anyhow!("an earlier test could not make it: {error}")),
        }
        let value = make().await.map(Arc::new);
        *kept = match &value {
            Ok(value) => Ok(Arc::downgrade(value)),
            Err(error) => Err(format!("{error:#}")),
        };
        value
    }
}

impl<T> Deref for Turn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
