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

/// Sessions by their secret identifiers.
#[derive(Default)]
pub(super) struct Sessions(HashMap<String, Session>);

pub(super) struct Session {
    owner: String,
    /// Shared by the sessions of the owner.
    turns: Turns,
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
    pub(super) fn new(owner: String, turns: Turns, router: Router, now: Instant) -> Self {
        Self {
            owner,
            turns,
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
        self.0.retain(|_, session| !session.is_over(now));
        let session = self.0.get_mut(id)?;
        session.used = now;
        Some(session.router.clone())
    }

    /// Those of another session of the owner.
    pub(super) fn turns(&self, owner: &str) -> Option<Turns> {
        let mut sessions = self.0.values();
        let session = sessions.find(|session| session.owner == owner)?;
        Some(session.turns.clone())
    }

    pub(super) fn add(&mut self, id: String, session: Session) {
        let [of_user, of_all] = MAX_SESSIONS;
        let owner = session.owner.clone();
        self.make_room(of_user, |it| it.owner == owner);
        self.make_room(of_all, |_| true);
        self.0.insert(id, session);
    }

    /// Ends those of the sessions that are too many for one more.
    fn make_room(&mut self, limit: usize, counts: impl Fn(&Session) -> bool) {
        let counting = self.0.iter().filter(|(_, session)| counts(session));
        let mut found: Vec<_> = counting.map(|(id, it)| (it.used, id.clone())).collect();
        found.sort_unstable();
        let excess = (found.len() + 1).saturating_sub(limit);
        for (_, id) in found.into_iter().take(excess) {
            self.0.remove(&id);
        }
    }

    pub(super) fn end(&mut self, id: &str) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(sessions: &mut Sessions, user: &str, id: &str, now: Instant) {
        let owner = owner(user);
        let turns = sessions.turns(&owner);
        let turns = turns.unwrap_or_else(Turns::new);
        let session = Session::new(owner, turns, Router::new(), now);
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
        assert_eq!(sessions.0.len(), 21);
        let turns = sessions.turns("system:serviceaccounts:shop");
        let turns = turns.expect("sessions");
        let shares = |it: &&Session| it.turns.is_shared_with(&turns);
        assert_eq!(sessions.0.values().filter(shares).count(), 20);
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
        assert_eq!(sessions.0.len(), 100);
    }
}
