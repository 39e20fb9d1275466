//! The order of a rolling restart: each node is drained, started again, and waited for; some at once, none after one that fails.
//! It acts only through [`Nodes`], which also has the clock.

use super::record::{Record, Wanted};
use armento_client::api::DrainChange;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a node may take to empty: as `armento node drain` waits.
pub const EMPTY: Duration = Duration::from_secs(600);
/// From the order to start again until the node is a member.
pub const JOINED: Duration = Duration::from_secs(600);
/// A daemon that does not answer for so long is given up: one that is started again takes less.
pub const SILENT: Duration = Duration::from_secs(20);
/// The reason of the drain, by which a node that this command drained is known.
pub const WHY: &str = "armento boot reboot";

/// The last start of a node, as boot servers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    pub joined: bool,
    pub image: Option<String>,
}

/// What the sequence does and sees.
pub trait Nodes {
    /// Whether the farm has it, and it answers.
    fn is_member(&self, node: &str) -> anyhow::Result<bool>;
    /// The order by which it is drained.
    fn drained(&self, node: &str) -> anyhow::Result<Option<DrainChange>>;
    fn drain(&self, node: &str, change: &DrainChange) -> anyhow::Result<()>;
    /// Processes that still have to go; `None`: it is empty.
    fn to_go(&self, node: &str) -> anyhow::Result<Option<u64>>;
    fn restart(&self, node: &str) -> anyhow::Result<()>;
    fn last_start(&self, node: &str) -> anyhow::Result<Option<Start>>;
    /// Keeps the record for the same command, later.
    fn note(&self, record: &Record);
    /// Something has happened.
    fn say(&self, node: &str, what: &str);
    /// Something goes on.
    fn wait_for(&self, node: &str, what: &str);
    /// Time since the command began.
    fn now(&self) -> Duration;
    /// Lets some time pass.
    fn pause(&self);
}

/// How it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub done: Vec<String>,
    /// Nodes that are not back, or were not started again, each with the reason.
    pub failed: Vec<(String, String)>,
    /// Nodes that were left as they are.
    pub left: Vec<String>,
}

/// A node under way.
struct Going {
    wanted: Wanted,
    /// Its order of drain of before, which holds again afterwards.
    before: Option<DrainChange>,
    state: State,
}

enum State {
    Empties { until: Duration, heard: Duration },
    Starts { until: Duration, since_ms: u64 },
}

/// Restarts `all` in their order, `at_once` at the same time. What `record` has as done is passed over.
pub fn run(all: &[Wanted], at_once: usize, record: &mut Record, nodes: &dyn Nodes) -> Ended {
    let open = all.iter().filter(|w| !record.done.contains(&w.name));
    let mut open: VecDeque<Wanted> = open.cloned().collect();
    let mut ended = Ended::default();
    let mut going: Vec<Going> = Vec::new();
    loop {
        while ended.failed.is_empty()
            && going.len() < at_once.max(1)
            && let Some(wanted) = open.pop_front()
        {
            let name = wanted.name.clone();
            match begin(wanted, record, nodes) {
                Ok(begun) => going.push(begun),
                Err(e) => ended.failed.push((name, first_line(&e))),
            }
        }
        if going.is_empty() {
            break;
        }
        let mut still = Vec::new();
        for mut one in going {
            match one.step(record, nodes) {
                Ok(false) => still.push(one),
                Ok(true) => {
                    record.done.push(one.wanted.name.clone());
                    nodes.note(record);
                    ended.done.push(one.wanted.name);
                }
                Err(e) => ended.failed.push((one.wanted.name, first_line(&e))),
            }
        }
        going = still;
        if !going.is_empty() {
            nodes.pause();
        }
    }
    ended.left = open.into_iter().map(|w| w.name).collect();
    ended
}

fn first_line(e: &anyhow::Error) -> String {
    let text = format!("{e:#}");
    text.lines().next().unwrap_or_default().to_owned()
}

fn begin(wanted: Wanted, record: &mut Record, nodes: &dyn Nodes) -> anyhow::Result<Going> {
    let name = wanted.name.clone();
    // The command before started it again, and gave it up too early.
    let since = record.started.get(&name).copied();
    let returns = |since: &u64| {
        let start = nodes.last_start(&name).ok().flatten();
        start.is_some_and(|s| s.at_ms > *since)
    };
    if let Some(since_ms) = since.filter(returns) {
        let until = nodes.now() + JOINED;
        return Ok(Going {
            before: record.drained.get(&name).cloned(),
            state: State::Starts { until, since_ms },
            wanted,
        });
    }
    let mut going = Going {
        wanted,
        before: None,
        state: State::Empties {
            until: nodes.now() + EMPTY,
            heard: nodes.now(),
        },
    };
    // A node that is not in the farm has nothing to send away.
    if !nodes.is_member(&name)? {
        going.before = record.drained.get(&name).cloned();
        going.restart(record, nodes)?;
        return Ok(going);
    }
    going.before = nodes.drained(&name)?.filter(|order| order.why != WHY);
    if going.before.is_none() {
        let change = DrainChange {
            drained: true,
            why: WHY.into(),
            all_home: false,
        };
        nodes.drain(&name, &change)?;
    }
    nodes.say(&name, "is drained");
    Ok(going)
}

impl Going {
    /// One look; true: it is done.
    fn step(&mut self, record: &mut Record, nodes: &dyn Nodes) -> anyhow::Result<bool> {
        match self.state {
            State::Empties { until, heard } => {
                self.empties(until, heard, record, nodes)?;
                Ok(false)
            }
            State::Starts { until, since_ms } => self.starts(until, since_ms, nodes),
        }
    }

    fn empties(
        &mut self,
        until: Duration,
        heard: Duration,
        record: &mut Record,
        nodes: &dyn Nodes,
    ) -> anyhow::Result<()> {
        let (name, now) = (&self.wanted.name, nodes.now());
        let stays = "it was not started again, and stays drained";
        match nodes.to_go(name) {
            Ok(None) => return self.restart(record, nodes),
            Ok(Some(n)) if now >= until => {
                let s = EMPTY.as_secs();
                anyhow::bail!("{n} processes are left on it after {s} s; {stays}");
            }
            Ok(Some(n)) => {
                nodes.wait_for(name, &format!("{n} processes are still to go"));
                self.state = State::Empties { until, heard: now };
            }
            Err(e) if now.saturating_sub(heard) >= SILENT => {
                return Err(e.context(stays));
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn restart(&mut self, record: &mut Record, nodes: &dyn Nodes) -> anyhow::Result<()> {
        let name = &self.wanted.name;
        let since_ms = nodes.last_start(name)?.map_or(0, |s| s.at_ms);
        nodes.restart(name)?;
        record.started.insert(name.clone(), since_ms);
        if let Some(order) = &self.before {
            record.drained.insert(name.clone(), order.clone());
        }
        nodes.note(record);
        nodes.say(name, "starts again");
        let until = nodes.now() + JOINED;
        self.state = State::Starts { until, since_ms };
        Ok(())
    }

    fn starts(&self, until: Duration, since_ms: u64, nodes: &dyn Nodes) -> anyhow::Result<bool> {
        let (name, image) = (&self.wanted.name, &self.wanted.image);
        let late = nodes.now() >= until;
        // Boot servers and this node's daemon may be silent for a moment.
        let start = nodes.last_start(name);
        let joined = match &start {
            Ok(Some(s)) if s.at_ms > since_ms && s.joined => Some(s),
            _ => None,
        };
        if let Some(start) = joined {
            let found = start.image.as_deref().unwrap_or("an unknown image");
            if found != image {
                anyhow::bail!("it has joined again with {found}, not with {image}");
            }
            match self.is_back(nodes) {
                Ok(true) => {
                    nodes.say(name, &format!("has joined again, with {image}"));
                    return Ok(true);
                }
                Err(e) if late => return Err(e.context("it has started again with its image")),
                _ => {}
            }
        }
        if late {
            let s = JOINED.as_secs();
            match start {
                Err(e) => return Err(e.context(format!("it is not known to be back after {s} s"))),
                Ok(_) => anyhow::bail!("it has not joined again within {s} s"),
            }
        }
        nodes.wait_for(name, "starts again");
        Ok(false)
    }

    /// It is a member, and drained or not as it was before.
    fn is_back(&self, nodes: &dyn Nodes) -> anyhow::Result<bool> {
        let name = &self.wanted.name;
        if !nodes.is_member(name)? {
            return Ok(false);
        }
        match (nodes.drained(name)?, &self.before) {
            // Its state directory outlives a restart.
            (Some(_), None) => nodes.drain(name, &DrainChange::default())?,
            (None, Some(order)) => nodes.drain(name, order)?,
            _ => {}
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
