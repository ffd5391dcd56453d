//! Sessions of visitors, in memory: after a restart, visitors log in again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::Router;

use crate::dashboard::pages::Turns;

/// Maximum age of a session.
pub(super) const MAX_AGE: Duration = Duration::from_hours(8);
/// Time after which an unused session ends.
const MAX_IDLE: Duration = Duration::from_mins(30);
/// Maximum number of sessions, of one user and of all. The one that was not used for longest makes room.
const MAX_SESSIONS: [usize; 2] = [20, 100];

#[derive(Default)]
pub(super) struct Sessions {
    /// By their secret identifiers.
    by_id: HashMap<String, Session>,
    /// By the owners.
    turns: HashMap<String, Turns>,
}

pub(super) struct Session {
    owner: String,
    /// The pages with the rights of the user.
    router: Router,
    began: Instant,
    used: Instant,
}

/// The name that limits count by: one for all service accounts of a namespace, since who may create one
/// there may create many.
pub(super) fn owner(user: &str) -> String {
    let of_namespace = user.strip_prefix("system:serviceaccount:");
    match of_namespace.and_then(|it| it.split(':').next()) {
        Some(namespace) => format!("system:serviceaccounts:{namespace}"),
        None => user.to_owned(),
    }
}

impl Session {
    pub(super) fn new(owner: String, router: Router, now: Instant) -> Self {
        Self {
            owner,
            router,
            began: now,
            used: now,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= MAX_AGE || now.duration_since(self.used) >= MAX_IDLE
    }
}

impl Sessions {
    /// The pages of a session, which counts as used.
    pub(super) fn find(&mut self, id: &str, now: Instant) -> Option<Router> {
        self.by_id.retain(|_, session| !session.is_over(now));
        let session = self.by_id.get_mut(id)?;
        session.used = now;
        Some(session.router.clone())
    }

    /// The turns of an owner, which last until the last read and stream of all sessions of the owner, also of
    /// those that have ended.
    pub(super) fn turns(&mut self, owner: &str) -> Turns {
        self.turns.retain(|_, turns| turns.are_used());
        let turns = self.turns.entry(owner.to_owned());
        turns.or_insert_with(Turns::new).clone()
    }

    pub(super) fn add(&mut self, id: String, session: Session) {
        let [of_user, of_all] = MAX_SESSIONS;
        let owner = session.owner.clone();
        self.make_room(of_user, |it| it.owner == owner);
        self.make_room(of_all, |_| true);
        self.by_id.insert(id, session);
    }

    /// Ends those of the sessions that are too many for one more.
    fn make_room(&mut self, limit: usize, counts: impl Fn(&Session) -> bool) {
        let counting = self.by_id.iter().filter(|(_, session)| counts(session));
        let mut found: Vec<_> = counting.map(|(id, it)| (it.used, id.clone())).collect();
        found.sort_unstable();
        let excess = (found.len() + 1).saturating_sub(limit);
        for (_, id) in found.into_iter().take(excess) {
            self.by_id.remove(&id);
        }
    }

    pub(super) fn end(&mut self, id: &str) {
        self.by_id.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(sessions: &mut Sessions, user: &str, id: &str, now: Instant) {
        let owner = owner(user);
        let session = Session::new(owner, Router::new(), now);
        sessions.add(id.to_owned(), session);
    }

    #[test]
    fn sessions_end_by_idleness_and_age() {
        let (mut sessions, began) = (Sessions::default(), Instant::now());
        add(&mut sessions, "a", "1", began);
        let mut now = began;
        while now < began + MAX_AGE {
            assert!(sessions.find("1", now).is_some());
            now += MAX_IDLE / 2;
        }
        assert!(sessions.find("1", now).is_none(), "it is too old");
        add(&mut sessions, "a", "2", now);
        assert!(sessions.find("2", now + MAX_IDLE).is_none(), "it is idle");
        add(&mut sessions, "a", "3", now);
        sessions.end("3");
        assert!(sessions.find("3", now).is_none(), "it was ended");
    }

    #[test]
    fn a_user_with_many_sessions_ends_none_of_others() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        add(&mut sessions, "other", "other", now);
        for number in 0..1000 {
            let (at, user) = (now + Duration::from_millis(number), number % 7);
            let user = format!("system:serviceaccount:shop:{user}");
            add(&mut sessions, &user, &number.to_string(), at);
        }
        assert_eq!(sessions.by_id.len(), 21);
        assert!(sessions.find("999", now).is_some() && sessions.find("979", now).is_none());
        assert!(sessions.find("other", now).is_some());
        for number in 0..1000 {
            add(
                &mut sessions,
                &format!("user {number}"),
                &format!("b{number}"),
                now,
            );
        }
        assert_eq!(sessions.by_id.len(), 100);
    }

    #[test]
    fn the_turns_of_an_owner_outlive_the_sessions() {
        let mut sessions = Sessions::default();
        let first = sessions.turns("a");
        assert!(sessions.turns("a").are_those_of(&first));
        assert!(!sessions.turns("b").are_those_of(&first));
        assert_eq!(sessions.turns.len(), 2);
        sessions.turns("a");
        assert_eq!(sessions.turns.len(), 1, "those of b are not used any more");
        drop(first);
        sessions.turns("c");
        assert_eq!(sessions.turns.len(), 1);
    }
}
