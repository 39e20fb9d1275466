//! Whom this node trusts: to which nodes its users' programs go (`send_to`), whose guests come (`accept_from`).
//!
//! A list holds rules: `n2`, `alice@n2` (only hers), `1000@*` (his, anywhere), and with `!` before it the contrary.
//! What is denied is denied, whatever else is said; a list of denials alone leaves the rest as it is; an empty list
//! is nobody. Users of `accept_from` are those of the home, known here by number only.

use crate::config::Config;
use crate::error::FarmError;
use crate::state::StateDir;
use crate::sys;
use armento_model::{NodeName, Users};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What `armento farm trust` changed; it holds instead of the configuration's.
const FILE: &str = "trust.json";
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
    /// Those of users of this machine, with their numbers.
    fn resolved(&self) -> Result<Rules, String> {
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

    /// Users of other nodes are: their names are not known here.
    pub fn by_number(&self) -> Result<(), String> {
        let named = |rule: &&Rule| matches!(rule.user, Some(User::Name(_)));
        match self.0.iter().find(named) {
            Some(rule) => Err(format!(
                "`{rule}`: users of other nodes are given by number"
            )),
            None => Ok(()),
        }
    }

    /// Before: resolved. For whom does it hold at `node`?
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
            Users::everybody()
        } else {
            Users::Only(allowed().filter(here).filter_map(uid).collect())
        };
        for rule in self.0.iter().filter(|r| r.deny).filter(here) {
            match uid(rule) {
                Some(uid) => users.remove(uid),
                None => return Users::nobody(),
            }
        }
        users
    }
}

/// What of it was changed by command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_to: Option<Rules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_from: Option<Rules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_root: Option<bool>,
}

impl Changes {
    pub fn read(state: &StateDir) -> Result<Changes, FarmError> {
        Ok(state.read_json(FILE)?.unwrap_or_default())
    }

    pub fn write(&self, state: &StateDir) -> Result<(), FarmError> {
        state.write_json(FILE, self)
    }
}

/// What holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    send_to: Option<Rules>,
    accept_from: Option<Rules>,
    pub allow_root: bool,
}

impl Trust {
    pub fn new(config: &Config, changes: &Changes) -> Result<Trust, String> {
        let pick = |changed: &Option<Rules>, given: &Option<Rules>| {
            let rules = changed.clone().or_else(|| given.clone());
            rules.map(|r| r.resolved()).transpose()
        };
        let in_list = |name: &str| {
            let name = name.to_owned();
            move |why: String| format!("{name}: {why}")
        };
        let accept_from = changes.accept_from.as_ref().or(config.accept_from.as_ref());
        accept_from
            .map_or(Ok(()), Rules::by_number)
            .map_err(in_list("accept_from"))?;
        Ok(Trust {
            send_to: pick(&changes.send_to, &config.send_to).map_err(in_list("send_to"))?,
            accept_from: pick(&changes.accept_from, &config.accept_from)
                .map_err(in_list("accept_from"))?,
            allow_root: changes.allow_root.unwrap_or(config.allow_root),
        })
    }

    /// Whose programs may go to `node`.
    pub fn sends_to(&self, node: &NodeName) -> Users {
        self.of(self.send_to.as_ref(), node)
    }

    /// Whose of `home`'s users are welcome.
    pub fn accepts_from(&self, home: &NodeName) -> Users {
        self.of(self.accept_from.as_ref(), home)
    }

    /// The same by the rules alone: whether root may move at all is another question.
    pub fn lists(&self, home: &NodeName) -> Users {
        let rules = self.accept_from.as_ref();
        rules.map_or_else(Users::everybody, |r| r.at(home))
    }

    fn of(&self, rules: Option<&Rules>, node: &NodeName) -> Users {
        let mut users = rules.map_or_else(Users::everybody, |r| r.at(node));
        if !self.allow_root {
            users.remove(0);
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
    fn lists_say_who_and_where() {
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
    fn rules_come_back_as_written() {
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

    #[test]
    fn commands_win_over_the_file_and_root_needs_more() {
        let node: NodeName = "n2".parse().expect("name");
        let config = Config {
            send_to: Some(rules(&["n2", "root@n3"]).expect("good")),
            ..Config::default()
        };
        let trust = Trust::new(&config, &Changes::default()).expect("good");
        assert!(trust.sends_to(&node).has(1000) && !trust.sends_to(&node).has(0));
        let changes = Changes {
            send_to: Some(rules(&["!n2"]).expect("good")),
            allow_root: Some(true),
            ..Changes::default()
        };
        let trust = Trust::new(&config, &changes).expect("good");
        assert!(!trust.sends_to(&node).has(1000));
        assert!(trust.accepts_from(&node).has(0));
        let check = |send: &[&str], accept: &[&str], part: &str| {
            let config = Config {
                send_to: Some(rules(send).expect("good")),
                accept_from: Some(rules(accept).expect("good")),
                ..Config::default()
            };
            let e = Trust::new(&config, &Changes::default()).expect_err(part);
            assert!(e.contains(part), "{e}");
        };
        check(
            &["nobody-of-that-name@n2"],
            &["*"],
            "send_to: this machine has no user",
        );
        check(&["*"], &["root@n2"], "given by number");
    }
}
