//! Many requests at the same time, and clients that ask again and again while something happens.

use std::cell::Cell;
use std::future::ready;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::{join, join_all};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::{Instant, sleep_until};

use crate::eventually;

/// Progress of the clients.
#[derive(Debug)]
pub struct Asked {
    clients: usize,
    answered: Cell<usize>,
    is_enough: Cell<bool>,
}

/// Lets each client send requests, at least `every` apart, until `happens` is done. No request may
/// fail.
pub async fn while_asked<C>(
    every: Duration,
    clients: Vec<C>,
    happens: impl AsyncFnOnce(&Asked) -> Result<()>,
) -> Result<()>
where
    C: AsyncFn() -> Result<()>,
{
    let asked = Asked {
        clients: clients.len(),
        answered: Cell::new(0),
        is_enough: Cell::new(false),
    };
    let asking = join_all(clients.iter().map(|client| asked.by(every, client)));
    let happening = async {
        let happened = happens(&asked).await;
        asked.is_enough.set(true);
        happened
    };
    let (answers, happened) = join(asking, happening).await;
    answers.into_iter().collect::<Result<()>>()?;
    happened?;
    eprintln!("{} questions were answered", asked.answered.get());
    Ok(())
}

impl Asked {
    /// Waits until many more questions are answered.
    pub async fn some_more(&self) -> Result<()> {
        let enough = self.answered.get() + 10 * self.clients;
        eventually("more questions are answered", async || {
            let answered = self.answered.get();
            ensure!(answered >= enough, "{answered} instead of {enough}");
            Ok(())
        })
        .await
    }

    async fn by(&self, every: Duration, client: &impl AsyncFn() -> Result<()>) -> Result<()> {
        while !self.is_enough.get() {
            let next = Instant::now() + every;
            let before = self.answered.get();
            client()
                .await
                .with_context(|| format!("after {before} questions"))?;
            self.answered.set(self.answered.get() + 1);
            sleep_until(next).await;
        }
        Ok(())
    }
}

/// Awaits futures, at most `limit` at the same time, until one fails or all are done.
pub async fn in_parallel<T, E>(
    limit: usize,
    work: impl IntoIterator<Item = impl Future<Output = Result<T, E>>>,
) -> Result<(), E> {
    let work = stream::iter(work).buffer_unordered(limit);
    work.try_for_each(|_| ready(Ok(()))).await
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[tokio::test]
    async fn all_ask_until_it_has_happened() {
        let counts = [Cell::new(0), Cell::new(0)];
        let client = |count| {
            async move || {
                let count: &Cell<usize> = count;
                count.set(count.get() + 1);
                Ok(())
            }
        };
        let clients = counts.iter().map(client).collect();
        let asked = while_asked(Duration::from_millis(1), clients, async |asked| {
            asked.some_more().await
        });
        asked.await.expect("none fails");
        let [first, second] = counts.map(Cell::into_inner);
        assert!(
            first > 0 && second > 0 && first + second >= 20,
            "{first} {second}"
        );
    }

    #[tokio::test]
    async fn a_request_that_fails_is_reported() {
        let asked = while_asked(
            Duration::from_millis(1),
            vec![async || bail!("gone")],
            async |_| Ok(()),
        );
        assert_eq!(
            format!("{:#}", asked.await.unwrap_err()),
            "after 0 questions: gone"
        );
    }
}
