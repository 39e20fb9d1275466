//! Which processes `armento ps` shows, and in which order.

use armento_client::api::ProcInfo;
use armento_model::NodeName;
use std::cmp::Reverse;

/// The order of lines: numbers from the largest down, names from a to z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// By home and pid
    #[default]
    Pid,
    /// CPU time
    Cpu,
    /// CPU time away from home
    Away,
    /// Memory
    Rss,
    Moves,
    /// Calls that waited for home
    Calls,
    /// Where it runs
    Node,
    Command,
}

#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub sort: Sort,
    /// Where it runs.
    pub node: Option<NodeName>,
    pub uid: Option<u32>,
    /// Part of the command line.
    pub command: Option<String>,
}

impl Choice {
    fn takes(&self, p: &ProcInfo) -> bool {
        let command = self
            .command
            .as_ref()
            .is_none_or(|c| p.command.contains(c.as_str()));
        let node = self.node.as_ref().is_none_or(|n| *n == p.place);
        command && node && self.uid.is_none_or(|uid| uid == p.uid)
    }

    pub fn apply(&self, mut procs: Vec<ProcInfo>) -> Vec<ProcInfo> {
        procs.retain(|p| self.takes(p));
        procs.sort_by(|a, b| (&a.home, a.pid).cmp(&(&b.home, b.pid)));
        // Stable: equal ones stay in that order.
        match self.sort {
            Sort::Pid => {}
            Sort::Cpu => procs.sort_by_key(|p| Reverse(p.cpu_ms)),
            Sort::Away => procs.sort_by_key(|p| Reverse(p.away_cpu_ms)),
            Sort::Rss => procs.sort_by_key(|p| Reverse(p.rss_kib)),
            Sort::Moves => procs.sort_by_key(|p| Reverse(p.moves)),
            Sort::Calls => procs.sort_by_key(|p| Reverse(p.forwarded)),
            Sort::Node => procs.sort_by(|a, b| a.place.cmp(&b.place)),
            Sort::Command => procs.sort_by(|a, b| a.command.cmp(&b.command)),
        }
        procs
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::proc;
    use super::*;
    use armento_model::Pid;

    fn all() -> Vec<ProcInfo> {
        let of = |(pid, place, cpu_ms, command): (Pid, &str, u64, &str)| ProcInfo {
            pid,
            place: place.parse().expect("name"),
            cpu_ms,
            command: command.into(),
            ..proc()
        };
        [
            (3, "n1", 5, "cc1"),
            (1, "n2", 5, "make"),
            (2, "n1", 9, "lame a"),
        ]
        .map(of)
        .into()
    }

    #[test]
    fn processes_are_chosen_and_sorted() {
        let check = |choice: Choice, pids: &[Pid]| {
            let got: Vec<Pid> = choice.apply(all()).iter().map(|p| p.pid).collect();
            assert_eq!(got, pids, "{choice:?}");
        };
        let by = |sort| Choice {
            sort,
            ..Choice::default()
        };
        check(Choice::default(), &[1, 2, 3]);
        check(by(Sort::Cpu), &[2, 1, 3]);
        check(by(Sort::Node), &[2, 3, 1]);
        check(by(Sort::Command), &[3, 2, 1]);
        let node = Some("n1".parse().expect("name"));
        check(
            Choice {
                node,
                ..by(Sort::Pid)
            },
            &[2, 3],
        );
        let command = Some("lame".into());
        check(
            Choice {
                command,
                ..by(Sort::Pid)
            },
            &[2],
        );
        check(
            Choice {
                uid: Some(0),
                ..by(Sort::Pid)
            },
            &[],
        );
    }
}
