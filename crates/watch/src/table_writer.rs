//! Writes the objects of one watch into its table of the view. Wakes readers only if it changed.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use view::{Change, Entry, Freshness, Resource, Table, View};

use crate::watch_error::WatchError;

/// Minimum interval between two warnings of one watch about rejected objects.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

pub(crate) enum Reading<T: Entry> {
    /// The object counts.
    Keep(T),
    /// Outside the scope: treated as absent.
    Outside(T::Key),
    /// Does not parse, with the reason; its last good state stays.
    Broken(T::Key, String),
    /// Above a memory limit, with the reason; treated as absent.
    TooLarge(T::Key, String),
}

type Pick<T> = dyn Fn(&mut View) -> &mut Table<T> + Send + Sync;
type Listener<T> = dyn Fn(&Change<T>) + Send + Sync;

pub(crate) struct TableWriter<T: Entry> {
    pub(crate) resource: Resource,
    store: Arc<watch::Sender<View>>,
    table: Box<Pick<T>>,
    on_change: Box<Listener<T>>,
    rejections: Mutex<Rejections>,
}

/// Rate limit of the warnings about rejected objects.
#[derive(Debug, Default)]
struct Rejections {
    warned_at: Option<Instant>,
    count: u64,
}

impl Rejections {
    /// Counts rejections. Returns the number since the last warning if another one is due.
    fn add(&mut self, count: u64, now: Instant) -> Option<u64> {
        self.count = self.count.saturating_add(count);
        if self
            .warned_at
            .is_some_and(|at| now.saturating_duration_since(at) < WARNING_INTERVAL)
        {
            return None;
        }
        self.warned_at = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

impl<T: Entry> TableWriter<T> {
    /// Announces the resource: the view is unsynced until it is listed.
    pub(crate) fn new(
        resource: Resource,
        store: &Arc<watch::Sender<View>>,
        table: impl Fn(&mut View) -> &mut Table<T> + Send + Sync + 'static,
    ) -> Self {
        store.send_modify(|view| {
            view.freshness.entry(resource).or_default();
        });
        let on_change = Box::new(|_: &Change<T>| ());
        Self {
            resource,
            store: Arc::clone(store),
            table: Box::new(table),
            on_change,
            rejections: Mutex::default(),
        }
    }

    /// Calls `on_change` for each change, after the view is updated.
    pub(crate) fn on_change(self, on_change: impl Fn(&Change<T>) + Send + Sync + 'static) -> Self {
        Self {
            on_change: Box::new(on_change),
            ..self
        }
    }

    pub(crate) fn apply(&self, reading: Reading<T>) {
        match reading {
            Reading::Keep(object) => {
                let object = Arc::new(object);
                self.change(|table| table.apply(object).into_iter().collect());
            }
            Reading::Outside(key) => self.change(|table| table.delete(&key).into_iter().collect()),
            Reading::Broken(_, reason) => self.reject(1, &reason),
            Reading::TooLarge(key, reason) => {
                self.change(|table| table.delete(&key).into_iter().collect());
                self.reject(1, &reason);
            }
        }
    }

    pub(crate) fn delete(&self, reading: Reading<T>) {
        let key = match reading {
            Reading::Keep(object) => object.key().clone(),
            Reading::Outside(key) | Reading::Broken(key, _) | Reading::TooLarge(key, _) => key,
        };
        self.change(|table| table.delete(&key).into_iter().collect());
    }

    /// Applies a complete list. Objects that do not parse keep their previous state.
    pub(crate) fn reset(&self, readings: Vec<Reading<T>>) {
        let (mut objects, mut broken) = (Vec::with_capacity(readings.len()), Vec::new());
        let (mut rejected, mut first_reason) = (0, None);
        for reading in readings {
            match reading {
                Reading::Keep(object) => objects.push(Arc::new(object)),
                Reading::Outside(_) => {}
                Reading::Broken(key, reason) => {
                    rejected += 1;
                    first_reason.get_or_insert(reason);
                    broken.push(key);
                }
                Reading::TooLarge(_, reason) => {
                    rejected += 1;
                    first_reason.get_or_insert(reason);
                }
            }
        }
        if let Some(reason) = first_reason {
            self.reject(rejected, &reason);
        }
        self.change(|table| {
            objects.extend(broken.iter().filter_map(|key| table.get(key)).cloned());
            table.reset(objects)
        });
        self.is_up(Freshness::listed);
    }

    /// Records that the watch resumed where it broke off.
    pub(crate) fn resumed(&self) {
        self.is_up(Freshness::resumed);
    }

    fn is_up(&self, change: impl FnOnce(&mut Freshness)) {
        if let Some(since) = self.note(change) {
            tracing::info!(resource = self.resource.name(), down_since = %since, "watch is up again");
        }
    }

    pub(crate) fn failed(&self, failure: &WatchError) {
        let resource = self.resource.name();
        let stale_since = self.note(|freshness| freshness.failed(Timestamp::now()));
        if stale_since.is_some() {
            tracing::debug!(resource, error = %failure, "watch failed again");
        } else {
            tracing::warn!(resource, error = %failure, "watch failed; keeping the last state and retrying");
        }
    }

    /// Counts rejected objects. Warns at most once per [`WARNING_INTERVAL`]: a tenant must not
    /// flood the log.
    fn reject(&self, count: u64, reason: &str) {
        let resource = self.resource.name();
        let due = self.rejections.lock().add(count, Instant::now());
        if let Some(count) = due {
            tracing::warn!(
                resource,
                count,
                reason,
                "objects rejected; count is since the last such warning"
            );
        } else {
            tracing::debug!(resource, count, reason, "objects rejected");
        }
        self.note(|freshness| freshness.rejected += count);
    }

    fn change(&self, verb: impl FnOnce(&mut Table<T>) -> Vec<Change<T>>) {
        let mut changes = Vec::new();
        self.store.send_if_modified(|view| {
            changes = verb((self.table)(view));
            !changes.is_empty()
        });
        changes.iter().for_each(&self.on_change);
    }

    /// Changes the freshness. Readers are woken if `synced` or `stale_since` changes, not by
    /// counters. Returns `stale_since` as it was before.
    fn note(&self, change: impl FnOnce(&mut Freshness)) -> Option<Timestamp> {
        let mut before = (false, None);
        self.store.send_if_modified(|view| {
            let freshness = view.freshness.entry(self.resource).or_default();
            before = (freshness.synced, freshness.stale_since);
            change(freshness);
            before != (freshness.synced, freshness.stale_since)
        });
        before.1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};

    use model::Labels;
    use tracing::{Event, Level, Metadata, Subscriber, span};
    use view::Namespace;

    use super::*;

    type Verb = fn(&TableWriter<Namespace>);

    fn keep(name: &str) -> Reading<Namespace> {
        Reading::Keep(Namespace {
            name: name.to_owned(),
            labels: Labels::default(),
            annotations: BTreeMap::new(),
        })
    }

    fn broken(name: &str) -> Reading<Namespace> {
        Reading::Broken(name.to_owned(), "it is broken".to_owned())
    }

    /// Starts with a listed namespace `a`; `names` and `woken` are the content afterwards and
    /// whether readers woke.
    fn check(verb: Verb, names: &[&str], woken: bool) {
        let store = Arc::new(watch::Sender::new(View::default()));
        let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
        writer.reset(vec![keep("a")]);
        let mut view = store.subscribe();
        verb(&writer);
        assert_eq!(view.has_changed().expect("the store lives"), woken);
        let view = view.borrow_and_update();
        let found = view.namespaces.iter().map(|namespace| &*namespace.name);
        assert_eq!(found.collect::<Vec<_>>(), names);
    }

    #[test]
    fn readers_wake_for_changes_only() {
        check(|writer| writer.apply(keep("a")), &["a"], false);
        check(|writer| writer.apply(keep("b")), &["a", "b"], true);
        check(|writer| writer.reset(vec![keep("a")]), &["a"], false);
        check(|writer| writer.reset(vec![keep("b")]), &["b"], true);
        check(|writer| writer.delete(keep("a")), &[], true);
        check(|writer| writer.delete(keep("b")), &["a"], false);
    }

    #[test]
    fn an_object_that_stops_parsing_keeps_its_last_good_state() {
        check(|writer| writer.apply(broken("a")), &["a"], false);
        check(|writer| writer.apply(broken("b")), &["a"], false);
        let listed: Verb = |writer| writer.reset(vec![broken("a"), broken("b"), keep("c")]);
        check(listed, &["a", "c"], true);
        check(|writer| writer.delete(broken("a")), &[], true);
    }

    #[test]
    fn an_object_that_leaves_the_scope_is_gone() {
        let outside: Verb = |writer| writer.apply(Reading::Outside("a".to_owned()));
        check(outside, &[], true);
    }

    #[test]
    fn failures_keep_the_content_and_say_so_once() {
        check(|writer| writer.failed(&WatchError::NoVersion), &["a"], true);
        let store = Arc::new(watch::Sender::new(View::default()));
        let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
        assert!(!store.borrow().is_synced());
        writer.reset(vec![]);
        assert!(store.borrow().is_synced());
        writer.failed(&WatchError::NoVersion);
        let stale_since = store.borrow().stale_since();
        assert!(stale_since.is_some());
        writer.failed(&WatchError::NoVersion);
        assert_eq!(store.borrow().stale_since(), stale_since);
        writer.resumed();
        assert_eq!(store.borrow().stale_since(), None);
        let view = store.borrow();
        let errors = view.freshness.values().map(|freshness| freshness.errors);
        assert_eq!(errors.sum::<u64>(), 2);
    }

    struct Warnings(Arc<AtomicU64>);

    impl Subscriber for Warnings {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let is_warning = *event.metadata().level() == Level::WARN;
            self.0.fetch_add(is_warning.into(), Ordering::Relaxed);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_objects_are_all_counted_and_logged_once_a_minute() {
        let warnings = Arc::new(AtomicU64::new(0));
        let _guard = tracing::subscriber::set_default(Warnings(Arc::clone(&warnings)));
        let store = Arc::new(watch::Sender::new(View::default()));
        let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
        let too_large = || Reading::TooLarge("a".to_owned(), "it is too large".to_owned());
        let second = Duration::from_secs(1);
        for (pause, expected) in [
            (Duration::ZERO, 1),
            (second * 59, 1),
            (second, 2),
            (second * 59, 2),
            (second * 60, 3),
        ] {
            tokio::time::advance(pause).await;
            (0..100).for_each(|_| writer.apply(too_large()));
            writer.reset(vec![broken("b"), too_large()]);
            assert_eq!(warnings.load(Ordering::Relaxed), expected, "{pause:?}");
        }
        let view = store.borrow();
        let rejected = view.freshness.values().map(|freshness| freshness.rejected);
        assert_eq!(rejected.sum::<u64>(), 5 * 102);
    }
}
