//! What an administrator has switched off on this node: guests, departures, balancing.
//!
//! openMosix had a file for each (`/proc/hpc/admin/block`, `stay`, `quiet`, `expel`, `bring`) and a script that
//! stopped all of it; here they are commands of `armento farm` and settings.

use super::owner::Owner;
use crate::config::Config;
use crate::error::FarmError;
use crate::revocation::Stated;
use crate::state_dir::StateDir;
use armento_client::api::{Ending, SwitchChange, SwitchInfo};
use armento_model::{NodeName, Pid};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What commands changed; it survives restarts.
const FILE: &str = "switches.json";
/// The policy leaves processes at home for so long after they were brought there.
const BROUGHT: Duration = Duration::from_secs(60);
/// No guest is taken for so long after guests were sent away.
const SHUT: Duration = Duration::from_secs(15);
/// Guests that their home has not fetched by then may stay.
const PATIENCE: Duration = Duration::from_secs(60);

/// What commands set; where they set nothing the configuration holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Changes {
    block: Option<bool>,
    stay: Option<bool>,
    quiet: Option<bool>,
    mfs: Option<bool>,
    drain: bool,
    /// `armento node drain`, while `drain` is set.
    ordered: Option<Drain>,
    stopped: bool,
    /// When the newest statement of the farm about this node was signed, Unix time in milliseconds: one that is sent
    /// again has no effect.
    stated_ms: u64,
    /// Its SHA-256; empty before the first, and of a version that kept the time alone.
    stated_sha256: String,
}

/// What `armento node drain` ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub since_ms: u64,
    pub why: String,
    pub all_home: bool,
}

/// What holds.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    changes: Changes,
    block: bool,
    stay: bool,
    quiet: bool,
    mfs: bool,
    pub owner: Owner,
    /// Guests are being sent away, since then.
    expels: Option<Instant>,
    /// Processes of this home that are to come home once.
    brings: BTreeSet<Pid>,
    brought: Option<Instant>,
    /// When a command last changed something.
    since: Option<Instant>,
    /// Why this daemon is about to end, if it is: not for a restart.
    ending: Option<Ending>,
}

impl Switches {
    pub fn read(state: &StateDir, given: &Config) -> Result<Switches, FarmError> {
        let mut switches = Switches {
            changes: state.read_json(FILE)?.unwrap_or_default(),
            ..Switches::default()
        };
        switches.follow(given);
        Ok(switches)
    }

    /// The configuration was read (again).
    pub fn follow(&mut self, given: &Config) {
        self.block = self.changes.block.unwrap_or(given.block);
        self.stay = self.changes.stay.unwrap_or(given.stay);
        self.quiet = self.changes.quiet.unwrap_or(given.quiet);
        self.mfs = self.changes.mfs.unwrap_or(given.mfs.is_on());
        let idle = Duration::from_millis(given.owner_idle_ms);
        self.owner.follow(given.owner_first.then_some(idle));
    }

    /// Which command keeps guests out.
    pub fn keeps_out(&self) -> Option<&'static str> {
        match self {
            s if s.ending.is_some() => Some(ENDING),
            s if s.changes.stopped => Some("stop"),
            s if s.changes.ordered.is_some() => Some(NODE_DRAIN),
            s if s.changes.drain => Some("drain"),
            s if s.expels.is_some() => Some("expel"),
            s if s.owner.is_here() => Some(OWNER),
            // Last: guests that are here may stay for it, and go for the others.
            s if s.block => Some("block"),
            _ => None,
        }
    }

    /// Which command sends away the guests that are here.
    pub fn sends_away(&self) -> Option<&'static str> {
        self.keeps_out().filter(|what| *what != "block")
    }

    /// Which command keeps this home's processes at home, unless a person moves them.
    pub fn keeps_home(&self) -> Option<&'static str> {
        let fresh = |at: &Instant| at.elapsed() < BROUGHT;
        match self {
            s if s.stopped() => Some("stop"),
            s if s.all_home() => Some(NODE_DRAIN),
            s if s.stay => Some("stay"),
            s if s.quiet => Some("quiet"),
            s if s.brought.as_ref().is_some_and(fresh) => Some("bring"),
            _ => None,
        }
    }

    /// No process leaves, even when a person asks for it.
    pub fn stopped(&self) -> bool {
        self.changes.stopped || self.ending == Some(Ending::Package)
    }

    /// Which command lets no process leave, even when a person asks for it.
    pub fn holds_home(&self) -> Option<&'static str> {
        match self {
            s if s.stopped() => Some("stop"),
            s if s.all_home() => Some(NODE_DRAIN),
            _ => None,
        }
    }

    /// This node sends its load to no other, and its policy moves no process.
    pub fn quiet(&self) -> bool {
        self.quiet || self.stopped()
    }

    /// Guests are sent away, and none is accepted, until a command ends it.
    pub fn drains(&self) -> bool {
        self.changes.drain
    }

    /// What `armento node drain` ordered, if that holds.
    pub fn drain_order(&self) -> Option<&Drain> {
        self.changes.ordered.as_ref()
    }

    /// Own processes that run here leave for other nodes.
    pub fn sends_own(&self) -> bool {
        self.changes.ordered.as_ref().is_some_and(|d| !d.all_home)
    }

    /// Own processes come home and stay, since the node is drained that way.
    fn all_home(&self) -> bool {
        self.changes.ordered.as_ref().is_some_and(|d| d.all_home)
    }

    /// `armento node drain`; `None`: `undrain`.
    pub fn order_drain(&mut self, ordered: Option<Drain>) {
        self.changes.drain = ordered.is_some();
        self.changes.ordered = ordered;
    }

    /// How a statement of the farm is to the last one that was carried out: greater is to be carried out, equal was sent twice,
    /// less is out of date.
    pub fn compare_statement(&self, stated: &Stated) -> Ordering {
        let c = &self.changes;
        match stated.at_ms.cmp(&c.stated_ms) {
            // What the one of that time said is not known.
            Ordering::Equal if c.stated_sha256.is_empty() => Ordering::Equal,
            Ordering::Equal => stated.sha256.cmp(&c.stated_sha256),
            order => order,
        }
    }

    /// A statement of the farm is carried out.
    pub fn takes_statement(&mut self, stated: &Stated) {
        if self.compare_statement(stated) == Ordering::Greater {
            self.changes.stated_ms = stated.at_ms;
            self.changes.stated_sha256.clone_from(&stated.sha256);
        }
    }

    /// For people: why no guest is taken, where `what` keeps them out.
    pub fn shut_message(&self, me: &NodeName, what: &str) -> String {
        match (what, &self.changes.ordered) {
            (OWNER, _) => {
                format!("{me} takes no guests while its owner is there (owner_first)")
            }
            (ENDING, _) => format!("{me} takes no guests: it is shutting down"),
            (NODE_DRAIN, Some(d)) if !d.why.is_empty() => {
                format!("{me} takes no guests (armento node drain: {})", d.why)
            }
            (NODE_DRAIN, _) => format!("{me} takes no guests (armento node drain)"),
            _ => format!("{me} takes no guests (armento farm {what})"),
        }
    }

    /// MFS is mounted here, and files of this node are served.
    pub fn mfs(&self) -> bool {
        self.mfs && self.ending.is_none()
    }

    /// Which command brings `pid`, a process of this home, home.
    pub fn brings(&self, pid: Pid) -> Option<&'static str> {
        match self {
            s if s.stopped() => Some("stop"),
            s if s.all_home() => Some("drain"),
            s if s.brings.contains(&pid) => Some("bring"),
            _ => None,
        }
    }

    pub fn change(&mut self, change: &SwitchChange, given: &Config) {
        let of = |word: Option<bool>, before: Option<bool>, given: bool| {
            word.or(before).filter(|holds| *holds != given)
        };
        let c = &mut self.changes;
        c.block = of(change.block, c.block, given.block);
        c.stay = of(change.stay, c.stay, given.stay);
        c.quiet = of(change.quiet, c.quiet, given.quiet);
        c.mfs = of(change.mfs, c.mfs, given.mfs.is_on());
        c.drain = change.drain.unwrap_or(c.drain);
        if !c.drain {
            c.ordered = None;
        }
        c.stopped = change.stop.unwrap_or(c.stopped);
        self.ending = change.ending.or(self.ending);
        self.follow(given);
    }

    /// Stores what commands changed, for the next start.
    pub fn write(&self, state: &StateDir) -> Result<(), FarmError> {
        state.write_json(FILE, &self.changes)
    }

    /// Guests are sent away from now on, unless they are already in `before`.
    pub fn expel(&mut self, before: &Switches, wanted: bool) {
        self.expels = before.expels.or(wanted.then(Instant::now));
    }

    /// These processes are to come home once.
    pub fn bring(&mut self, away: BTreeSet<Pid>) {
        self.brings = away;
        self.brought = Some(Instant::now());
    }

    /// A command changed something just now.
    pub fn changed_now(&mut self) {
        self.since = Some(Instant::now());
    }

    /// When a command last changed something.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// For `armento farm status`. The other figures are of those who hold them: 0 here.
    pub fn info(&self, me: &NodeName) -> SwitchInfo {
        let named = [
            ("block", self.changes.block.is_some()),
            ("stay", self.changes.stay.is_some()),
            ("quiet", self.changes.quiet.is_some()),
            ("mfs", self.changes.mfs.is_some()),
        ];
        let changed = named.iter().filter(|(_, yes)| *yes);
        SwitchInfo {
            node: me.clone(),
            stopped: self.stopped(),
            drain: self.changes.drain,
            drain_why: self
                .drain_order()
                .map_or_else(String::new, |d| d.why.clone()),
            block: self.block,
            stay: self.stay,
            quiet: self.quiet,
            mfs: self.mfs(),
            expels: self.expels.is_some(),
            owner_first: self.owner.comes_first(),
            owner: self.owner.is_here(),
            brings: self.brings.len() as u64,
            changed: changed.map(|(name, _)| (*name).to_owned()).collect(),
            away: 0,
            guests: 0,
            unheard: 0,
        }
    }

    /// Once a period: `away` are processes of this home elsewhere, `guests` the number of guests here.
    pub fn settle(&mut self, away: &BTreeSet<Pid>, guests: usize) {
        self.brings.retain(|pid| away.contains(pid));
        let over = |since: &Instant| {
            let past = since.elapsed();
            past >= PATIENCE || (past >= SHUT && guests == 0)
        };
        self.expels = self.expels.filter(|since| !over(since));
        self.brought = self.brought.filter(|at| at.elapsed() < BROUGHT);
    }
}

/// What keeps guests out, and is no command.
const OWNER: &str = "owner";

/// … nor is this: the daemon ends with its machine or its package.
const ENDING: &str = "ending";

/// `armento node drain`, as opposed to `armento farm drain`, after which own processes stay where they are.
const NODE_DRAIN: &str = "node drain";

/// For people: the command that `what` of [`Switches::keeps_home`] names.
pub fn command(what: &str) -> String {
    match what {
        NODE_DRAIN => "armento node drain".into(),
        _ => format!("armento farm {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(set: impl FnOnce(&mut SwitchChange)) -> SwitchChange {
        let mut change = SwitchChange::default();
        set(&mut change);
        change
    }

    #[test]
    fn commands_override_the_configuration_until_they_agree_with_it() {
        let given = Config {
            block: true,
            ..Config::default()
        };
        let mut s = Switches::default();
        s.follow(&given);
        assert_eq!(s.keeps_out(), Some("block"));
        assert_eq!(s.sends_away(), None);
        s.change(&word(|c| c.block = Some(false)), &given);
        assert_eq!((s.keeps_out(), s.changes.block), (None, Some(false)));
        s.change(&word(|c| c.block = Some(true)), &given);
        assert_eq!((s.keeps_out(), s.changes.block), (Some("block"), None));
        s.change(&word(|c| c.stop = Some(true)), &given);
        assert_eq!(
            (s.keeps_out(), s.keeps_home()),
            (Some("stop"), Some("stop"))
        );
        assert!(s.quiet() && s.stopped() && s.brings(7) == Some("stop"));
        s.change(&word(|c| c.stop = Some(false)), &given);
        assert_eq!((s.sends_away(), s.keeps_home()), (None, None));
    }

    #[test]
    fn a_drained_node_keeps_guests_out_and_sends_its_own_away_or_home() {
        let given = Config::default();
        let mut s = Switches::default();
        let order = |all_home| Drain {
            since_ms: 7,
            why: "new disk".into(),
            all_home,
        };
        s.order_drain(Some(order(false)));
        assert_eq!(
            (s.keeps_out(), s.sends_away()),
            (Some(NODE_DRAIN), Some(NODE_DRAIN))
        );
        assert!(s.drains() && s.sends_own() && s.keeps_home().is_none());
        let me = "n1".parse().expect("name");
        assert!(s.shut_message(&me, NODE_DRAIN).contains("drain: new disk)"));
        s.order_drain(Some(order(true)));
        assert!(!s.sends_own() && s.brings(7) == Some("drain"));
        assert_eq!(
            (s.keeps_home(), s.holds_home()),
            (Some(NODE_DRAIN), Some(NODE_DRAIN))
        );
        // `armento farm start` ends it as well, and `farm drain` after it has no reason.
        s.change(&word(|c| c.drain = Some(false)), &given);
        assert_eq!((s.keeps_out(), s.drain_order()), (None, None));
        s.change(&word(|c| c.drain = Some(true)), &given);
        assert!(s.drains() && s.drain_order().is_none() && !s.sends_own());
        s.order_drain(None);
        assert!(!s.drains());
    }

    #[test]
    fn statements_are_carried_out_once_and_in_their_order() {
        let stated = |at_ms: u64, sha256: &str| Stated {
            at_ms,
            sha256: sha256.into(),
        };
        let mut s = Switches::default();
        assert_eq!(s.compare_statement(&stated(5, "bb")), Ordering::Greater);
        s.takes_statement(&stated(5, "bb"));
        let now = [4, 5, 6].map(|at| s.compare_statement(&stated(at, "bb")));
        assert_eq!(now, [Ordering::Less, Ordering::Equal, Ordering::Greater]);
        // Of two with one time the same one holds, in whichever order they come.
        let other = ["aa", "cc"].map(|sha256| s.compare_statement(&stated(5, sha256)));
        assert_eq!(other, [Ordering::Less, Ordering::Greater]);
        for order in [["aa", "cc"], ["cc", "aa"]] {
            let mut s = Switches::default();
            for sha256 in order {
                s.takes_statement(&stated(7, sha256));
            }
            assert_eq!(s.compare_statement(&stated(7, "cc")), Ordering::Equal);
        }
        // What a version before has stored.
        let before: Changes = serde_json::from_str(r#"{"stated_ms": 5}"#).expect("changes");
        let s = Switches {
            changes: before,
            ..Switches::default()
        };
        assert_eq!(s.compare_statement(&stated(5, "aa")), Ordering::Equal);
    }

    #[test]
    fn the_owner_comes_first_only_where_configured() {
        let mut given = Config::default();
        let mut s = Switches::default();
        s.follow(&given);
        assert!(!s.owner.look(400, || None) && s.keeps_out().is_none());
        (given.owner_first, given.owner_idle_ms) = (true, 5_000);
        s.follow(&given);
        let ago = |s: u64| move || Some(Duration::from_secs(s));
        assert!(!s.owner.look(49, ago(6)) && s.keeps_out().is_none());
        assert!(s.owner.look(0, ago(1)), "somebody types");
        assert!(!s.owner.look(50, || None), "was here before");
        assert_eq!(
            (s.keeps_out(), s.sends_away()),
            (Some("owner"), Some("owner"))
        );
        s.owner.last_seen(Duration::from_secs(6));
        assert!(!s.owner.look(0, || None) && s.keeps_out().is_none());
        assert!(s.owner.look(50, || None), "work");
    }

    #[test]
    fn an_ending_daemon_takes_no_guests() {
        let given = Config::default();
        let mut s = Switches::default();
        s.change(&word(|c| c.ending = Some(Ending::Machine)), &given);
        assert_eq!((s.sends_away(), s.brings(7)), (Some("ending"), None));
        assert!(!s.stopped() && s.keeps_home().is_none());
        s.change(&word(|c| c.ending = Some(Ending::Package)), &given);
        assert_eq!(
            (s.sends_away(), s.brings(7)),
            (Some("ending"), Some("stop"))
        );
        assert!(s.stopped());
        assert_eq!(s.changes, Changes::default());
    }

    #[test]
    fn bring_orders_each_process_home_once() {
        let mut s = Switches {
            brings: BTreeSet::from([7, 8]),
            brought: Some(Instant::now()),
            ..Switches::default()
        };
        assert_eq!((s.brings(7), s.brings(9)), (Some("bring"), None));
        s.settle(&BTreeSet::from([8, 9]), 0);
        assert_eq!((s.brings(7), s.brings(8)), (None, Some("bring")));
        assert_eq!(s.keeps_home(), Some("bring"));
        assert!(!s.stopped() && s.keeps_out().is_none());
    }
}
