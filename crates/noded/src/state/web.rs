//! Who may sign in at the dashboard, and who is signed in. Only hashes of secrets are kept; they outlive the daemon, so that
//! a page that is open over a restart goes on.
//!
//! ```text
//! armento web ──► token ──used (once)──► browser session ──time over, signed out, `--end`──► gone
//! ```

use crate::clock::unix_now;
use crate::error::{Result, refusal};
use crate::state_dir::StateDir;
use armento_client::api::WebSession;
use armento_client::hex::hex;
use armento_link::{ca_hash, random_hex};
use serde::{Deserialize, Serialize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How long a token can be used, seconds: it stands in a terminal, and in the history of a browser.
pub const TOKEN_S: u64 = 600;
/// How long a browser stays signed in if nothing is said, and at most, seconds.
pub const SESSION_S: u64 = 12 * 3600;
pub const SESSION_S_MAX: u64 = 7 * 24 * 3600;
/// How often a token may be used at most.
pub const USES_MAX: u32 = 100;
/// Tokens and sessions of one user; the oldest gives way.
const USER_MAX: usize = 16;
/// … of all users.
const ALL_MAX: usize = 512;
/// What is over is remembered for a day, so that its owner learns why.
const REMEMBERED_S: u64 = 24 * 3600;
const SECRET_BYTES: usize = 32;
const FILE: &str = "web.json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Token { uses_left: u32, session_s: u64 },
    Session,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    /// SHA-256 of the secret, hexadecimal.
    sha256: String,
    uid: u32,
    user: String,
    /// Unix time, seconds.
    until: u64,
    kind: Kind,
}

impl Kept {
    fn is_valid(&self, now: u64) -> bool {
        let used = matches!(self.kind, Kind::Token { uses_left: 0, .. });
        now < self.until && !used
    }
}

/// The server's state, for `armento web`.
#[derive(Clone, Debug, Default)]
pub enum Served {
    #[default]
    Off,
    Up,
    /// It could not be started; tried again later.
    Failed(String),
}

#[derive(Default)]
pub struct Web {
    kept: Mutex<Vec<Kept>>,
    /// Somebody may sign in: a server is needed.
    pub changed: Notify,
    served: Mutex<Served>,
    /// Notified whenever `served` changes.
    served_changed: Condvar,
}

/// Of a token or a browser session, with which they are found.
pub type Sha256 = String;

pub fn sha256(secret: &str) -> Sha256 {
    hex(&ca_hash(secret.as_bytes()))
}

impl Web {
    /// What the daemon before this one has noted. What cannot be read is void: users sign in again.
    pub fn recover(dir: &StateDir) -> Web {
        let kept = dir.read_json(FILE).unwrap_or_else(|e| {
            tracing::warn!("{e}: browsers have to sign in again");
            None
        });
        Web {
            kept: Mutex::new(kept.unwrap_or_default()),
            ..Web::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody is signed in, or can sign in.
    pub fn is_needed(&self) -> bool {
        let now = unix_now();
        self.lock().iter().any(|k| k.is_valid(now))
    }

    /// A new token of that user.
    pub fn token(
        &self,
        dir: &StateDir,
        (uid, user): (u32, String),
        uses: u32,
        session_s: u64,
    ) -> Result<String> {
        let token = random_hex(SECRET_BYTES);
        let uses_left = uses;
        let kept = Kept {
            sha256: sha256(&token),
            uid,
            user,
            until: unix_now() + TOKEN_S,
            kind: Kind::Token {
                uses_left,
                session_s,
            },
        };
        self.add(dir, kept)?;
        if !matches!(self.wait_served(std::time::Duration::ZERO), Served::Up) {
            // It is tried again now, whatever came of it before.
            self.serves(Served::Off);
        }
        self.changed.notify_one();
        Ok(token)
    }

    /// Uses a token: a browser is signed in.
    pub fn sign_in(&self, dir: &StateDir, token: &str) -> Result<WebSession> {
        let (sha, now) = (sha256(token), unix_now());
        let (uid, user, session_s) = {
            let mut all = self.lock();
            let found = all.iter_mut().find(|k| k.sha256 == sha);
            match found {
                Some(k) if now >= k.until => return Err(expired("this token")),
                Some(Kept {
                    uid,
                    user,
                    kind:
                        Kind::Token {
                            uses_left,
                            session_s,
                        },
                    ..
                }) if *uses_left > 0 => {
                    *uses_left -= 1;
                    (*uid, user.clone(), *session_s)
                }
                Some(Kept {
                    kind: Kind::Token { .. },
                    ..
                }) => {
                    let what = "this token has been used";
                    return Err(refusal("used-token", what, AGAIN));
                }
                _ => return Err(wrong("token")),
            }
        };
        let secret = random_hex(SECRET_BYTES);
        let kept = Kept {
            sha256: sha256(&secret),
            uid,
            user: user.clone(),
            until: now + session_s,
            kind: Kind::Session,
        };
        self.add(dir, kept)?;
        let left_s = session_s;
        Ok(WebSession {
            secret,
            uid,
            user,
            left_s,
        })
    }

    /// The user of a signed-in browser.
    pub fn session(&self, sha: &Sha256) -> Result<WebSession> {
        let now = unix_now();
        let all = self.lock();
        let is = |k: &&Kept| k.kind == Kind::Session && k.sha256 == *sha;
        match all.iter().find(is) {
            Some(k) if now < k.until => Ok(WebSession {
                secret: String::new(),
                uid: k.uid,
                user: k.user.clone(),
                left_s: k.until - now,
            }),
            Some(_) => Err(expired("this browser's session")),
            None => Err(wrong("session of a browser")),
        }
    }

    /// Signs one browser out; false if it was not signed in.
    pub fn sign_out(&self, dir: &StateDir, sha: &Sha256) -> bool {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|k| k.kind != Kind::Session || k.sha256 != *sha);
        let done = all.len() < before;
        store(dir, &all);
        done
    }

    /// Ends all tokens and sessions of a user, or only counts those that are valid.
    pub fn end(&self, dir: &StateDir, uid: u32, dry_run: bool) -> u64 {
        let now = unix_now();
        let mut all = self.lock();
        let own = all.iter().filter(|k| k.uid == uid && k.is_valid(now));
        let count = own.count() as u64;
        if !dry_run {
            all.retain(|k| k.uid != uid);
            store(dir, &all);
        }
        count
    }

    fn add(&self, dir: &StateDir, kept: Kept) -> Result<()> {
        let now = unix_now();
        let mut all = self.lock();
        all.retain(|k| k.until + REMEMBERED_S > now);
        let same = |k: &Kept| {
            k.uid == kept.uid && (k.kind == Kind::Session) == (kept.kind == Kind::Session)
        };
        if all.iter().filter(|k| same(k)).count() >= USER_MAX
            && let Some(oldest) = all.iter().position(same)
        {
            all.remove(oldest);
        }
        if all.len() >= ALL_MAX {
            let what = "too many users are signed in at the dashboard of this node";
            return Err(refusal("busy", what, "use another node's, or wait"));
        }
        all.push(kept);
        store(dir, &all);
        Ok(())
    }

    pub fn serves(&self, served: Served) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served;
        self.served_changed.notify_all();
    }

    /// Waits until the server is up, or cannot be started; at most `limit`.
    pub fn wait_served(&self, limit: std::time::Duration) -> Served {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let off = |s: &mut Served| matches!(s, Served::Off);
        let waited = self.served_changed.wait_timeout_while(served, limit, off);
        let (served, _) = waited.unwrap_or_else(PoisonError::into_inner);
        served.clone()
    }
}

const AGAIN: &str = "`armento web` on that node prints a new one";

fn expired(what: &str) -> armento_client::api::Refusal {
    refusal("expired", format!("the time of {what} is over"), AGAIN)
}

fn wrong(what: &str) -> armento_client::api::Refusal {
    let message = format!("this node knows no such {what}");
    refusal("wrong-token", message, AGAIN)
}

/// Without it the users sign in again after a restart.
fn store(dir: &StateDir, all: &[Kept]) {
    let lost = "browsers have to sign in again after a restart";
    if let Err(e) = dir.write_if_possible(FILE, &all, lost) {
        tracing::warn!("{e}: {lost}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> StateDir {
        let path = std::env::temp_dir().join(format!("armento-web-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let dir = StateDir::new(path);
        dir.create().expect("a directory");
        dir
    }

    #[test]
    fn a_token_is_used_once_and_the_session_outlives_the_daemon() {
        let dir = dir("once");
        let web = Web::recover(&dir);
        assert!(!web.is_needed());
        let token = web.token(&dir, (7, "ann".into()), 1, 60).expect("a token");
        let session = web.sign_in(&dir, &token).expect("signed in");
        assert_eq!((session.uid, session.user.as_str()), (7, "ann"));
        let used = web.sign_in(&dir, &token).expect_err("used");
        assert_eq!(used.code, "used-token");
        let no = web.sign_in(&dir, "guess").expect_err("wrong");
        assert_eq!(no.code, "wrong-token");
        // A session is no token, nor a token a session.
        assert!(web.sign_in(&dir, &session.secret).is_err());
        assert!(web.session(&sha256(&token)).is_err());
        let text = std::fs::read_to_string(dir.path().join(FILE)).expect("noted");
        assert!(!text.contains(&session.secret) && !text.contains(&token));

        let next = Web::recover(&dir);
        assert_eq!(
            next.session(&sha256(&session.secret)).expect("goes on").uid,
            7
        );
        assert_eq!(next.end(&dir, 7, true), 1);
        assert!(next.is_needed());
        assert_eq!(next.end(&dir, 7, false), 1);
        assert!(next.session(&sha256(&session.secret)).is_err() && !next.is_needed());
        let _ = std::fs::remove_dir_all(dir.path());
    }

    #[test]
    fn one_user_does_not_shut_out_others() {
        let dir = dir("many");
        let web = Web::recover(&dir);
        for _ in 0..100 {
            web.token(&dir, (1, String::new()), 1, 60).expect("a token");
        }
        assert_eq!(web.end(&dir, 1, true), USER_MAX as u64);
        web.token(&dir, (2, String::new()), 1, 60)
            .expect("another user's");
        let _ = std::fs::remove_dir_all(dir.path());
    }

    #[test]
    fn time_ends_tokens_and_sessions() {
        let dir = dir("time");
        let web = Web::recover(&dir);
        let token = web.token(&dir, (1, String::new()), 2, 0).expect("a token");
        let session = web.sign_in(&dir, &token).expect("signed in");
        let over = web.session(&sha256(&session.secret)).expect_err("over");
        assert_eq!(over.code, "expired");
        for k in web.lock().iter_mut() {
            k.until = 1;
        }
        assert_eq!(web.sign_in(&dir, &token).expect_err("over").code, "expired");
        let _ = std::fs::remove_dir_all(dir.path());
    }
}
