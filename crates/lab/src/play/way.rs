//! The scheduler of a run: a policy of Armento, GNU parallel, PVM, or PVM with Armento below.

use armento_client::api::default_dead_ms;
use armento_scenario::{Plan, What};
use std::fmt;
use std::str::FromStr;

/// Time from a restored link to a reconnected session, with a margin, milliseconds.
const RECONNECT_MS: u64 = 15_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Armento with this policy.
    Policy(String),
    /// GNU parallel, a slot a core.
    Parallel,
    /// PVM, and the policy of Armento that may move its tasks.
    Pvm(Option<String>),
}

/// What a user may write.
const CHOICES: &str = "use armento, mosix, static, none, parallel, pvm, pvm-armento or pvm-mosix";

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        match text {
            "parallel" => Ok(Way::Parallel),
            "pvm" => Ok(Way::Pvm(None)),
            "pvm-armento" | "pvm-mosix" => Ok(Way::Pvm(Some(text["pvm-".len()..].into()))),
            "armento" | "mosix" | "static" | "none" => Ok(Way::Policy(text.into())),
            _ => Err(CHOICES.into()),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Policy(name) => f.write_str(name),
            Way::Parallel => f.write_str("parallel"),
            Way::Pvm(None) => f.write_str("pvm"),
            Way::Pvm(Some(name)) => write!(f, "pvm-{name}"),
        }
    }
}

impl Way {
    /// Armento's policy.
    fn policy(&self) -> Option<&str> {
        match self {
            Way::Policy(name) | Way::Pvm(Some(name)) => Some(name),
            Way::Parallel | Way::Pvm(None) => None,
        }
    }

    pub fn needs_farm(&self) -> bool {
        self.policy().is_some()
    }

    /// Settings of the nodes' daemons: the time limit without a home is longer than any link cut of the scenario, which
    /// would otherwise kill guests.
    pub fn config(&self, plan: &Plan) -> String {
        let Some(name) = self.policy() else {
            return String::new();
        };
        let cut_ms = plan.events.iter().filter_map(|e| match e.what {
            What::Cut { for_s } => Some((for_s * 1e3) as u64 + RECONNECT_MS),
            _ => None,
        });
        let dead_ms = cut_ms.max().unwrap_or(0).max(default_dead_ms());
        let link_mbit = plan.link_mbit;
        let weight = plan.guest_cpu_weight;
        let weight = weight.map_or(String::new(), |w| format!("guest_cpu_weight = {w}\n"));
        format!("policy = \"{name}\"\ndead_ms = {dead_ms}\nlink_mbit = {link_mbit}\n{weight}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_scenario::Scenario;

    #[test]
    fn time_limit_is_longer_than_link_cuts() {
        let text = "about = \"t\"\nseries = [1]\n[[nodes]]\ncount = 2\nspeed = 0.5\n[[jobs]]\nseconds = 1.0\n";
        let cut = "[[events]]\nat = 1.0\nnode = 2\nwhat = \"cut\"\nfor = 40.0\n";
        let config = |text: &str, way: &str| {
            let plan = Scenario::parse(text).expect("good").plan(1, 1);
            way.parse::<Way>().expect("a way").config(&plan)
        };
        let long = format!("{text}{cut}");
        assert!(config(text, "mosix").contains("dead_ms = 30000"));
        assert!(config(&long, "mosix").contains("dead_ms = 55000"));
        assert_eq!(config(&long, "parallel"), "");
        assert_eq!(config(&long, "pvm"), "");
        assert!(config(text, "pvm-mosix").contains("policy = \"mosix\""));
    }

    #[test]
    fn ways_are_read_as_they_are_shown() {
        for text in [
            "armento",
            "static",
            "parallel",
            "pvm",
            "pvm-armento",
            "pvm-mosix",
        ] {
            let way: Way = text.parse().expect("a way");
            assert_eq!(way.to_string(), text);
            let farm = !["parallel", "pvm"].contains(&text);
            assert_eq!(way.needs_farm(), farm, "{text}");
        }
        assert!(
            "pvm-static"
                .parse::<Way>()
                .expect_err("no way")
                .contains("pvm-armento")
        );
    }
}
