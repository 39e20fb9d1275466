//! Who decides where jobs run.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Armento with this policy.
    Policy(String),
    /// GNU parallel, a slot a node.
    Parallel,
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        match text {
            "parallel" => Ok(Way::Parallel),
            "armento" | "mosix" | "static" | "none" => Ok(Way::Policy(text.into())),
            _ => Err("use armento, mosix, static, none or parallel".into()),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Policy(name) => f.write_str(name),
            Way::Parallel => f.write_str("parallel"),
        }
    }
}

impl Way {
    pub fn needs_farm(&self) -> bool {
        *self != Way::Parallel
    }

    /// Settings of the nodes' daemons.
    pub fn config(&self) -> String {
        match self {
            Way::Policy(name) => format!("policy = \"{name}\"\n"),
            Way::Parallel => String::new(),
        }
    }
}
