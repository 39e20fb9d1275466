//! Which nodes this one trusts: to which nodes its users' programs go (`send_to`), whose guests come (`accept_from`).

use crate::config::{Config, Rules};
use crate::error::FarmError;
use crate::state_dir::StateDir;
use armento_model::{NodeName, Users};
use serde::{Deserialize, Serialize};

/// What `armento farm trust` changed; it holds instead of the configuration's.
const FILE: &str = "trust.json";

/// What commands changed.
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

    /// The users whose programs may go to `node`.
    pub fn sends_to(&self, node: &NodeName) -> Users {
        self.of(self.send_to.as_ref(), node)
    }

    /// The users of `home` whose guests are taken.
    pub fn accepts_from(&self, home: &NodeName) -> Users {
        self.of(self.accept_from.as_ref(), home)
    }

    /// The same by the rules alone: whether root may move at all is another question.
    pub fn lists(&self, home: &NodeName) -> Users {
        let rules = self.accept_from.as_ref();
        rules.map_or_else(Users::all, |r| r.at(home))
    }

    fn of(&self, rules: Option<&Rules>, node: &NodeName) -> Users {
        let mut users = rules.map_or_else(Users::all, |r| r.at(node));
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
    fn commands_override_the_file_and_root_needs_allow_root() {
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
