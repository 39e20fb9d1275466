//! The user that a thread is for the kernel's permission checks.

use super::failed::{Failed, status};
use super::sys;
use crate::export::Squash;
use crate::rpc::User;

/// Linux's nobody and nogroup.
const NOBODY: u32 = 65534;

/// The user of this thread. One for each thread that serves; the thread is root when it begins.
#[derive(Debug)]
pub struct Identities {
    /// The user for files now; none if a change failed, and nothing is known.
    uid: Option<u32>,
    /// The user whose groups the thread has, and of whom it is known that the kernel takes it.
    user: Option<User>,
}

impl Default for Identities {
    fn default() -> Identities {
        Identities {
            uid: Some(0),
            user: None,
        }
    }
}

impl Identities {
    /// Opens what users may not: files by handle, directories for their tags.
    pub fn root(&mut self) -> Result<(), Failed> {
        self.set(0)
    }

    /// Becomes a user of a client.
    pub fn become_user(&mut self, user: &User) -> Result<(), Failed> {
        if self.user.as_ref() != Some(user) {
            self.user = None;
            sys::set_file_groups(user.gid, &user.groups).map_err(status)?;
            self.set(user.uid)?;
            self.user = Some(user.clone());
        }
        self.set(user.uid)
    }

    fn set(&mut self, uid: u32) -> Result<(), Failed> {
        if self.uid != Some(uid) {
            self.uid = None;
            // The call itself has no error, and costs a second one to see whether it worked. What is known to work is
            // not asked again: root, without which a thread has fewer rights and not more; and the same user as before.
            let known = uid == 0 || self.user.as_ref().is_some_and(|u| u.uid == uid);
            sys::set_file_user(uid, !known).map_err(status)?;
            self.uid = Some(uid);
        }
        Ok(())
    }
}

/// Whom the server takes the caller's user for.
pub fn squash(user: Option<&User>, squash: Squash) -> User {
    let nobody = User {
        uid: NOBODY,
        gid: NOBODY,
        groups: Vec::new(),
    };
    match (user, squash) {
        (None, _) | (_, Squash::All) => nobody,
        (Some(user), Squash::None) => user.clone(),
        (Some(user), Squash::Root) => {
            let not_root = |id: u32| if id == 0 { NOBODY } else { id };
            User {
                uid: not_root(user.uid),
                gid: not_root(user.gid),
                groups: user.groups.iter().copied().map(not_root).collect(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_strangers_are_nobody_where_the_export_says_so() {
        let check = |uid, gid, groups: &[u32], how, expected: (u32, u32, &[u32])| {
            let user = User {
                uid,
                gid,
                groups: groups.to_vec(),
            };
            let is = squash(Some(&user), how);
            assert_eq!((is.uid, is.gid, &is.groups[..]), expected);
        };
        check(0, 0, &[0, 5], Squash::None, (0, 0, &[0, 5]));
        check(0, 0, &[0, 5], Squash::Root, (NOBODY, NOBODY, &[NOBODY, 5]));
        check(7, 0, &[], Squash::Root, (7, NOBODY, &[]));
        check(7, 8, &[9], Squash::All, (NOBODY, NOBODY, &[]));
        assert_eq!(squash(None, Squash::None).uid, NOBODY);
    }
}
