//! Lists of rules, `send_to` and `accept_from`: which users' programs at which nodes.
//!
//! A list holds rules: `n2`, `alice@n2` (only hers), `1000@*` (that user's, anywhere), and with `!` before it a denial.
//! What is denied is denied, whatever else is said; a list of denials alone leaves the rest as it is; an empty list
//! allows no user. Users of `accept_from` are those of the home, known here by number only.

use crate::sys;
use armento_model::{NodeName, Users};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Rules in one list.
const RULES_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    deny: bool,
    user: Option<User>,
    /// `None`: every node.
    node: Option<NodeName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    Number(u32),
    Name(String),
}

/// As written; in a file a list of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Rules(Vec<Rule>);

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let rest = text.strip_prefix('!');
        let (user, node) = match rest.unwrap_or(text).rsplit_once('@') {
            None => (None, rest.unwrap_or(text)),
            Some((user, node)) => (Some(user), node),
        };
        let user = match user {
            Some("") => return Err(format!("`{text}` lacks a user before the @")),
            // As the node alone.
            Some("*") => None,
            Some(user) => Some(
                user.parse()
                    .map_or_else(|_| User::Name(user.to_owned()), User::Number),
            ),
            None => None,
        };
        let node = match node {
            "*" => None,
            name => {
                let name = name.parse::<NodeName>();
                Some(name.map_err(|e| format!("`{text}`: {e}"))?)
            }
        };
        Ok(Rule {
            deny: rest.is_some(),
            user,
            node,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.deny { "!" } else { "" })?;
        match &self.user {
            Some(User::Number(uid)) => write!(f, "{uid}@")?,
            Some(User::Name(name)) => write!(f, "{name}@")?,
            None => {}
        }
        match &self.node {
            Some(node) => write!(f, "{node}"),
            None => f.write_str("*"),
        }
    }
}

impl TryFrom<Vec<String>> for Rules {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Rules, String> {
        if texts.len() > RULES_MAX {
            return Err(format!("more than {RULES_MAX} rules"));
        }
        let rules: Result<Vec<Rule>, String> = texts.iter().map(|t| t.parse()).collect();
        Ok(Rules(rules?))
    }
}

impl From<Rules> for Vec<String> {
    fn from(rules: Rules) -> Vec<String> {
        rules.0.iter().map(Rule::to_string).collect()
    }
}

impl Rules {
    /// The same with names of users of this machine replaced by their numbers.
    pub fn resolved(&self) -> Result<Rules, String> {
        let one = |rule: &Rule| {
            let user = match &rule.user {
                Some(User::Name(name)) => {
                    let uid = sys::uid_of(name);
                    Some(User::Number(uid.ok_or_else(|| {
                        format!("this machine has no user `{name}`")
                    })?))
                }
                other => other.clone(),
            };
            Ok(Rule {
                user,
                ..rule.clone()
            })
        };
        let rules: Result<Vec<Rule>, String> = self.0.iter().map(one).collect();
        Ok(Rules(rules?))
    }

    /// Refuses names: those of users of other nodes are not known here.
    pub fn by_number(&self) -> Result<(), String> {
        let named = |rule: &&Rule| matches!(rule.user, Some(User::Name(_)));
        match self.0.iter().find(named) {
            Some(rule) => Err(format!(
                "`{rule}`: users of other nodes are given by number"
            )),
            None => Ok(()),
        }
    }

    /// The users for whom the rules hold at `node`. Before: resolved.
    pub fn at(&self, node: &NodeName) -> Users {
        let here = |rule: &&Rule| rule.node.as_ref().is_none_or(|n| n == node);
        let uid = |rule: &Rule| match rule.user {
            Some(User::Number(uid)) => Some(uid),
            _ => None,
        };
        let allowed = || self.0.iter().filter(|r| !r.deny);
        let only_denials = !self.0.is_empty() && allowed().count() == 0;
        let everybody = only_denials || allowed().filter(here).any(|r| r.user.is_none());
        let mut users = if everybody {
            Users::all()
        } else {
            Users::Only(allowed().filter(here).filter_map(uid).collect())
        };
        for rule in self.0.iter().filter(|r| r.deny).filter(here) {
            match uid(rule) {
                Some(uid) => users.remove(uid),
                None => return Users::none(),
            }
        }
        users
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[&str]) -> Result<Rules, String> {
        let texts: Vec<String> = list.iter().map(|t| (*t).to_owned()).collect();
        texts.try_into()
    }

    #[test]
    fn rules_hold_for_users_and_nodes() {
        let check = |list: &[&str], node: &str, want: &[(u32, bool)]| {
            let users = rules(list).expect("good").at(&node.parse().expect("name"));
            for (uid, has) in want {
                assert_eq!(users.has(*uid), *has, "{list:?} {node} {uid}");
            }
        };
        check(&[], "n2", &[(0, false), (1000, false)]);
        check(&["n2"], "n2", &[(0, true), (1000, true)]);
        check(&["n2"], "n3", &[(1000, false)]);
        check(&["1000@n2"], "n2", &[(1000, true), (1001, false)]);
        check(&["1000@*", "n3"], "n2", &[(1000, true), (1001, false)]);
        check(&["1000@*", "n3"], "n3", &[(1000, true), (1001, true)]);
        check(&["*@n2"], "n2", &[(0, true), (1000, true)]);
        check(&["!n2"], "n2", &[(1000, false)]);
        check(&["!n2"], "n3", &[(1000, true)]);
        check(&["!1000@*"], "n2", &[(1000, false), (1001, true)]);
        check(&["*", "!1000@n2"], "n2", &[(1000, false), (1001, true)]);
        check(&["1000@n2", "!n2"], "n2", &[(1000, false)]);
    }

    #[test]
    fn printing_undoes_parsing() {
        let list = ["n2", "!n3", "alice@n2", "!1000@*", "*"];
        let texts: Vec<String> = rules(&list).expect("good").into();
        assert_eq!(texts, list);
        for (bad, part) in [
            ("@n2", "lacks a user"),
            ("N 2", "N 2"),
            ("!", "!"),
            ("a@", "a@"),
        ] {
            assert!(rules(&[bad]).expect_err(bad).contains(part), "{bad}");
        }
    }
}
