//! Sets of users to which a rule applies.

use std::collections::BTreeSet;

/// By uid. A uid that is not listed is either in none of them or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    AllBut(BTreeSet<u32>),
    Only(BTreeSet<u32>),
}

impl Users {
    pub fn all() -> Users {
        Users::AllBut(BTreeSet::new())
    }

    pub fn none() -> Users {
        Users::Only(BTreeSet::new())
    }

    pub fn has(&self, uid: u32) -> bool {
        match self {
            Users::AllBut(others) => !others.contains(&uid),
            Users::Only(these) => these.contains(&uid),
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Users::none()
    }

    pub fn remove(&mut self, uid: u32) {
        match self {
            Users::AllBut(others) => drop(others.insert(uid)),
            Users::Only(these) => drop(these.remove(&uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_or_all_but_some() {
        let check = |mut users: Users, uid: u32, before: bool| {
            assert_eq!(users.has(uid), before, "{users:?}");
            users.remove(uid);
            assert!(!users.has(uid), "{users:?}");
        };
        check(Users::all(), 7, true);
        check(Users::none(), 7, false);
        check(Users::Only([7, 8].into()), 7, true);
        check(Users::AllBut([7].into()), 7, false);
        assert!(Users::none().is_none() && !Users::all().is_none());
    }
}
