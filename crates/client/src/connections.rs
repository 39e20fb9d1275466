//! Connections of a process that is away: which go from node to node, and why others go over home.

use armento_model::{Pid, clean, span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connections of one process that are listed; more are counted.
pub const CONNECTIONS_LISTED_MAX: usize = 8;

/// What is known of the busy connections of a process that is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connections {
    /// Connections whose bytes go from node to node now.
    pub direct: u32,
    /// Busy connections that go over home.
    pub over_home: u32,
    /// At most [`CONNECTIONS_LISTED_MAX`] of both, the direct ones first.
    pub listed: Vec<Connection>,
}

/// One connection of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// The descriptor of the process.
    pub fd: i32,
    /// The process at the other end, where it is known.
    #[serde(default)]
    pub peer: Option<Pid>,
    /// Why it goes over home; `None`: it goes from node to node.
    #[serde(default)]
    pub over_home: Option<String>,
    /// For how long that is so, milliseconds.
    pub for_ms: u64,
}

impl Connections {
    /// A line for each connection, and one for those that are not listed.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.listed.iter().map(Connection::words).collect();
        let all = u64::from(self.direct) + u64::from(self.over_home);
        let more = all.saturating_sub(self.listed.len() as u64);
        if more > 0 {
            lines.push(format!("{more} more"));
        }
        lines
    }
}

impl Connection {
    /// In a sentence.
    pub fn words(&self) -> String {
        let fd = self.fd;
        let peer = self
            .peer
            .map_or_else(String::new, |pid| format!(" to process {pid}"));
        match &self.over_home {
            None => format!("descriptor {fd}{peer}: direct, for {}", span(self.for_ms)),
            Some(why) => format!("descriptor {fd}{peer}: over home: {}", clean(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_a_line() {
        let direct = Connection {
            fd: 5,
            peer: Some(812),
            over_home: None,
            for_ms: 12_000,
        };
        let other = Connection {
            fd: 6,
            peer: None,
            over_home: Some("an epoll\x1b has it".into()),
            for_ms: 0,
        };
        let all = Connections {
            direct: 1,
            over_home: 3,
            listed: vec![direct, other],
        };
        let lines = [
            "descriptor 5 to process 812: direct, for 12.0 s",
            "descriptor 6: over home: an epoll? has it",
            "2 more",
        ];
        assert_eq!(all.lines(), lines);
    }
}
