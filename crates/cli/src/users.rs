//! Names of this machine's users.

use crate::out::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// Names that are looked up at once; the rest are shown as numbers.
const LOOKED_UP_MAX: usize = 256;

/// Lines of the user database for these names or numbers (getent(1), so that directories count).
fn entries(keys: &[String]) -> Vec<(String, u32)> {
    let Ok(said) = Command::new("getent")
        .args(["passwd", "--"])
        .args(keys)
        .output()
    else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&said.stdout);
    let entry = |line: &str| {
        let mut parts = line.split(':');
        Some((parts.next()?.to_owned(), parts.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

/// The names of these users, as far as they have one.
pub fn names(uids: impl Iterator<Item = u32>) -> BTreeMap<u32, String> {
    let uids: BTreeSet<u32> = uids.take(LOOKED_UP_MAX).collect();
    if uids.is_empty() {
        return BTreeMap::new();
    }
    let keys: Vec<String> = uids.iter().map(u32::to_string).collect();
    let known = entries(&keys).into_iter();
    known.map(|(name, uid)| (uid, name)).collect()
}

/// A user of this machine.
pub struct Account {
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
    own: u32,
}

impl Account {
    /// Another user than the one of this command.
    pub fn is_other(&self) -> bool {
        self.uid != self.own
    }
}

/// A user by its number, passwd(5).
pub fn account(uid: u32) -> Result<Account, Failure> {
    let said = Command::new("getent")
        .args(["passwd", "--", &uid.to_string()])
        .output();
    let text = said.map_or_else(
        |_| String::new(),
        |s| String::from_utf8_lossy(&s.stdout).into(),
    );
    let entry = |line: &str| {
        let parts: Vec<&str> = line.split(':').collect();
        let [_, _, number, gid, _, home, _] = parts.as_slice() else {
            return None;
        };
        Some(Account {
            uid: number.parse().ok().filter(|n| *n == uid)?,
            gid: gid.parse().ok()?,
            home: PathBuf::from(home),
            own: crate::sys::uid(),
        })
    };
    text.lines().next().and_then(entry).ok_or_else(|| Failure {
        message: format!("no user {uid} is known here; nothing was started"),
        hint: "`getent passwd` lists the users of this machine".into(),
    })
}

/// A user by name or number.
pub fn uid(text: &str) -> Result<u32, Failure> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    let found = entries(&[text.to_owned()]);
    let named = found.into_iter().find(|(name, _)| name == text);
    named.map(|(_, uid)| uid).ok_or_else(|| Failure {
        message: format!("no user `{text}` is known here"),
        hint: "give a name of this machine or a number; `getent passwd` lists the names".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_name_and_number() {
        assert_eq!(uid("root").ok(), Some(0));
        assert_eq!(uid("4711").ok(), Some(4711));
        assert!(uid("no such user").is_err_and(|e| e.message.contains("no such user")));
        assert!(uid("--help").is_err());
        let names = names([0, 4_000_000_000].into_iter());
        assert_eq!(names.get(&0).map(String::as_str), Some("root"));
        assert_eq!(names.len(), 1);
    }
}
