//! Tokens that let nodes join, with an expiry and a number of uses. Only hashes of secrets are stored.

use crate::clock::{span, unix_now};
use crate::error::{FarmError, refusal};
use crate::state_dir::StateDir;
use crate::sys;
use armento_client::api::Refusal;
use armento_link::{Token, ca_hash};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// More tokens at a time are refused; the expired are forgotten first.
const TOKENS_MAX: usize = 1024;
/// Kept this long after expiry, so that a late joiner learns what is wrong, seconds.
const REMEMBERED_S: u64 = 7 * 24 * 3600;

#[derive(Serialize, Deserialize)]
struct Kept {
    id: String,
    secret_sha256: [u8; 32],
    /// Seconds of Unix time.
    expires: u64,
    uses_left: u32,
    /// Nodes that it admitted so far; not counted by earlier versions.
    #[serde(default)]
    used: u32,
}

/// A token as an administrator sees it: its secret is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invitation {
    pub id: String,
    /// Seconds of Unix time; in the past: it admits no node.
    pub expires: u64,
    pub uses_left: u32,
    pub used: u32,
}

/// Runs `change` on the tokens under their lock, and stores the result if it succeeded.
fn locked<T, E: From<FarmError>>(
    dir: &StateDir,
    change: impl FnOnce(&mut Vec<Kept>) -> Result<T, E>,
) -> Result<T, E> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(dir.path().join("tokens.lock"))
        .and_then(|f| sys::lock(&f).map(|()| f))
        .map_err(FarmError::state("cannot lock the tokens"))?;
    let mut tokens: Vec<Kept> = dir.read_json("tokens.json")?.unwrap_or_default();
    let done = change(&mut tokens)?;
    dir.write_json("tokens.json", &tokens)?;
    drop(lock);
    Ok(done)
}

/// Keeps `token` valid for `ttl` and `uses` joins.
pub fn add(dir: &StateDir, token: &Token, ttl: Duration, uses: u32) -> Result<(), FarmError> {
    let now = unix_now();
    locked(dir, |tokens| {
        tokens.retain(|t| t.expires + REMEMBERED_S > now);
        if tokens.len() >= TOKENS_MAX {
            tokens.remove(0);
        }
        tokens.push(Kept {
            id: token.id.clone(),
            secret_sha256: ca_hash(token.secret.as_bytes()),
            expires: now + ttl.as_secs(),
            uses_left: uses,
            used: 0,
        });
        Ok(())
    })
}

/// All tokens, also those that have expired within the last week.
pub fn list(dir: &StateDir) -> Result<Vec<Invitation>, FarmError> {
    let all: Vec<Kept> = dir.read_json("tokens.json")?.unwrap_or_default();
    let shown = |t: Kept| Invitation {
        id: t.id,
        expires: t.expires,
        uses_left: t.uses_left,
        used: t.used,
    };
    Ok(all.into_iter().map(shown).collect())
}

/// Makes one token invalid; `Ok(false)`: there is none with this id.
pub fn withdraw(dir: &StateDir, id: &str) -> Result<bool, FarmError> {
    locked(dir, |tokens| {
        let before = tokens.len();
        tokens.retain(|t| t.id != id);
        Ok(tokens.len() < before)
    })
}

/// Makes all tokens invalid: a node that was removed may know one.
pub fn void(dir: &StateDir) -> Result<(), FarmError> {
    locked(dir, |tokens| {
        tokens.clear();
        Ok(())
    })
}

/// Why a token is not valid. Nothing was changed.
pub enum Denied {
    No(Refusal),
    State(FarmError),
}

impl From<FarmError> for Denied {
    fn from(e: FarmError) -> Denied {
        Denied::State(e)
    }
}

/// Whether the token is valid. Nothing is changed.
pub fn check(dir: &StateDir, id: &str, secret: &str) -> Result<(), Denied> {
    locked(dir, |tokens| find(tokens, id, secret).map(drop))
}

/// Uses a token once.
pub fn spend(dir: &StateDir, id: &str, secret: &str) -> Result<(), Denied> {
    locked(dir, |tokens| {
        let token = find(tokens, id, secret)?;
        token.uses_left -= 1;
        token.used = token.used.saturating_add(1);
        Ok(())
    })
}

/// The token, which has not expired and has a use left.
fn find<'a>(tokens: &'a mut [Kept], id: &str, secret: &str) -> Result<&'a mut Kept, Denied> {
    let no = |code: &str, message: String| {
        Denied::No(refusal(
            code,
            message,
            "make a new one there: `armento farm invite`",
        ))
    };
    let hash = ca_hash(secret.as_bytes());
    // Hashes are compared, so the time it takes tells nothing about the secret.
    let token = tokens
        .iter_mut()
        .find(|t| t.id == id && t.secret_sha256 == hash);
    let Some(token) = token else {
        let what = "the farm does not know this token: it is mistyped, older than a week, or was made before a node was removed; nothing was changed";
        return Err(no("wrong-token", what.into()));
    };
    let now = unix_now();
    if token.expires <= now {
        let ago = span(
            i64::try_from(now - token.expires)
                .unwrap_or(0)
                .saturating_mul(1_000_000_000),
        );
        let what = format!("this token has expired {ago} ago; nothing was changed");
        return Err(no("expired-token", what));
    }
    if token.uses_left == 0 {
        let what = "this token has been used as often as it may be; nothing was changed";
        return Err(no("used-token", what.into()));
    }
    Ok(token)
}
