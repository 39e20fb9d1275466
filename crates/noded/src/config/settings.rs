//! Settings: a TOML file, then the environment.

use super::dfsa;
use super::guest_users::{self, GuestUsers, WEIGHT_MAX, WEIGHT_MIN};
use super::history::{self, History};
use super::mfs::{self, Mfs, MfsExport};
use super::rules::Rules;
use super::web::Web;
use crate::error::FarmError;
use armento_balance::Policy;
use armento_client::api::{default_dead_ms, default_freeze_ms};
use armento_model::NodeName;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Read when no `--config` is given and it exists.
const DEFAULT_FILE: &str = "/etc/armento/config.toml";
/// A quarter of the pids that a small machine has (KERNEL: PID_MAX_DEFAULT, 32768).
const GUEST_PROCS: u64 = 8192;
/// A host's own threads count.
const GUEST_PROCS_MIN: u64 = 128;
/// PAPER: Condor takes a workstation for idle after 15 minutes; here guests lose no work when they go.
const OWNER_IDLE_MS: u64 = 60_000;
/// Interfaces on which the farm may be announced.
const INTERFACES_MAX: usize = 16;
const DEFAULT_STATE: &str = "/var/lib/armento";

/// How keepers and hosts speak. Daemons always speak TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    #[default]
    Tls,
    Plain,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The file, to be read again.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// Must be the name this node joined under, if given.
    pub name: Option<NodeName>,
    /// Address or name, and port, TCP and UDP; that of joining if not given.
    pub listen: Option<String>,
    /// Where others reach this node, if not where it listens.
    pub address: Option<String>,
    pub state: Option<PathBuf>,
    pub socket: Option<PathBuf>,
    /// That of the farm if not given.
    pub wire: Option<Wire>,
    /// Processes of uid 0 may leave, guests of uid 0 may come. For labs.
    pub allow_root: bool,
    /// A holder of the farm's key may replace this node's program (`armento farm upgrade`).
    pub allow_upgrade: bool,
    /// Keepers that run another program than this daemon become its program: bodies come home and go out again.
    pub upgrade_keepers: bool,
    /// Trees of this home that have run for so many seconds become safe; 0: none does.
    pub safe_after_s: u64,
    /// So often a checkpoint of them is made.
    pub safe_every_s: u64,
    /// Connections between programs of this home that are away may go from node to node.
    pub direct_sockets: bool,
    /// Nodes this home sends to, and whose programs; all if not given. See `rules.rs`.
    pub send_to: Option<Rules>,
    /// Homes whose processes may come, and whose; all if not given.
    pub accept_from: Option<Rules>,
    /// No guests; this home's processes stay; no load is sent, no process moved. As `armento farm block`, `stay`, `quiet`.
    pub block: bool,
    pub stay: bool,
    pub quiet: bool,
    /// While this node has work of its own, or a person at a terminal, it takes no guests; guests that come have the
    /// least weight.
    pub owner_first: bool,
    /// The owner counts as away when seen so long ago.
    pub owner_idle_ms: u64,
    /// `mosix`, `armento`, `static` or `none`.
    pub policy: String,
    /// How full a node should be with a fresh program where it would run equally fast on several: 0 spreads, 100 packs.
    pub packing_percent: u64,
    /// The policy moves and places no process: it only logs what it would do.
    pub dry_run: bool,
    /// A guest tree without a message from its home is frozen after this, and ended after `dead_ms`. Home does the same
    /// with its own trees elsewhere, and declares them dead at `dead_ms`; of two nodes' settings the shorter hold.
    pub freeze_ms: u64,
    pub dead_ms: u64,
    pub gossip_period_ms: u64,
    /// Speed of the network between nodes, Mbit/s: what bytes to home cost a process that is away.
    pub link_mbit: u64,
    /// Memory kept free for this node's own, thousandths of its total.
    pub mem_reserve_permille: Option<u64>,
    /// Most memory that the guests of one tree may use here, KiB; what is not kept free if not given.
    pub guest_mem_max_kib: Option<u64>,
    /// Weight of the guests of one tree, where a process of this node has 100; as one of its own if not given.
    pub guest_cpu_weight: Option<u64>,
    /// Most processes and threads of the guests of one tree.
    pub guest_procs_max: u64,
    /// Limits of all processes that one user of another home has here.
    pub guest_users: Vec<GuestUsers>,
    /// Where MFS is mounted, and with that whether files of this node are served.
    pub mfs: Mfs,
    /// What is served: all files if none is given.
    pub mfs_export: Vec<MfsExport>,
    /// Mount points of file systems that other nodes mount there, too: programs from there open files directly.
    pub dfsa: Vec<PathBuf>,
    /// … also those that show another node's writes only after a close and an open.
    pub dfsa_relaxed: Vec<PathBuf>,
    /// Interfaces on which the farm is announced by multicast DNS; none if not given.
    pub discover: Vec<String>,
    /// The dashboard.
    pub web: Web,
    /// What is kept of what jobs of this home used.
    pub history: History,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            file: None,
            name: None,
            listen: None,
            address: None,
            state: None,
            socket: None,
            wire: None,
            allow_root: false,
            allow_upgrade: false,
            upgrade_keepers: true,
            safe_after_s: 0,
            safe_every_s: 30,
            direct_sockets: true,
            send_to: None,
            accept_from: None,
            block: false,
            stay: false,
            quiet: false,
            owner_first: false,
            owner_idle_ms: OWNER_IDLE_MS,
            policy: Policy::default().name().into(),
            packing_percent: 0,
            dry_run: false,
            freeze_ms: default_freeze_ms(),
            dead_ms: default_dead_ms(),
            gossip_period_ms: 1_000,
            link_mbit: Policy::default().link_mbit,
            mem_reserve_permille: None,
            guest_mem_max_kib: None,
            guest_cpu_weight: None,
            guest_procs_max: GUEST_PROCS,
            guest_users: Vec::new(),
            mfs: Mfs::default(),
            mfs_export: Vec::new(),
            dfsa: Vec::new(),
            dfsa_relaxed: Vec::new(),
            discover: Vec::new(),
            web: Web::default(),
            history: History::default(),
        }
    }
}

impl Config {
    /// `file`, or the usual one if it is there, or none.
    pub fn load(file: Option<&Path>) -> Result<Config, FarmError> {
        let usual = Path::new(DEFAULT_FILE);
        let path = match file {
            Some(path) => path,
            None if usual.exists() => usual,
            None => return Ok(Config::default()),
        };
        let bad = |why: String| FarmError::Config {
            path: path.display().to_string(),
            why,
        };
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        let mut config = Config::parse(&text).map_err(bad)?;
        config.file = Some(path.to_owned());
        Ok(config)
    }

    /// The settings in this text, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| e.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        self.policy.parse::<Policy>().map_err(|e| e.to_string())?;
        if !(50..=60_000).contains(&self.gossip_period_ms) {
            return Err("gossip_period_ms lies between 50 and 60000".into());
        }
        if !(1..=1_000_000).contains(&self.link_mbit) {
            return Err("link_mbit lies between 1 and 1000000".into());
        }
        if self.freeze_ms == 0 || self.dead_ms <= self.freeze_ms {
            let (freeze, dead) = (self.freeze_ms, self.dead_ms);
            return Err(format!(
                "dead_ms ({dead}) must be greater than freeze_ms ({freeze}), and that greater than 0"
            ));
        }
        if !(1_000..=86_400_000).contains(&self.owner_idle_ms) {
            return Err("owner_idle_ms lies between 1000 and 86400000, a day".into());
        }
        if self.mem_reserve_permille.is_some_and(|r| r > 900) {
            return Err("mem_reserve_permille lies between 0 and 900".into());
        }
        if self.packing_percent > 100 {
            return Err("packing_percent lies between 0 (spread) and 100 (pack)".into());
        }
        if self
            .guest_cpu_weight
            .is_some_and(|w| !(WEIGHT_MIN..=WEIGHT_MAX).contains(&w))
        {
            return Err("guest_cpu_weight lies between 1 and 10000".into());
        }
        if self.guest_procs_max < GUEST_PROCS_MIN {
            return Err(format!("guest_procs_max is {GUEST_PROCS_MIN} or more"));
        }
        if self.discover.len() > INTERFACES_MAX {
            return Err(format!(
                "discover names {} interfaces; {INTERFACES_MAX} at most",
                self.discover.len()
            ));
        }
        self.web.check()?;
        mfs::check(&self.mfs, &self.mfs_export)?;
        dfsa::check(&self.dfsa, &self.dfsa_relaxed)?;
        history::check(&self.history)?;
        guest_users::check(&self.guest_users)
    }

    /// `ARMENTO_STATE`, `state =`, or `/var/lib/armento`.
    pub fn state_dir(&self) -> PathBuf {
        let given = std::env::var_os("ARMENTO_STATE").map(PathBuf::from);
        given
            .or_else(|| self.state.clone())
            .unwrap_or_else(|| DEFAULT_STATE.into())
    }

    /// `ARMENTO_SOCKET`, `socket =`, or the default.
    pub fn socket_path(&self) -> PathBuf {
        match (&self.socket, std::env::var_os("ARMENTO_SOCKET")) {
            (Some(path), None) => path.clone(),
            _ => armento_client::api::socket_path(),
        }
    }

    /// Weight of the guests of one tree, if they have one of their own.
    pub(crate) fn guest_weight(&self) -> Option<u64> {
        self.guest_cpu_weight
            .or(self.owner_first.then_some(WEIGHT_MIN))
    }

    pub(crate) fn policy(&self) -> Policy {
        let mut policy: Policy = self.policy.parse().unwrap_or_default();
        if let Some(reserve) = self.mem_reserve_permille {
            policy.reserve_permille = reserve;
            policy.reserve_min_kib = 0;
        }
        policy.packing_percent = self.packing_percent;
        policy.link_mbit = self.link_mbit;
        policy.guest_weight = self.guest_weight().unwrap_or(100).min(100);
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text)
    }

    #[test]
    fn files_are_read_and_checked() {
        let c = parse("name = \"n1\"\nallow_root = true\nsend_to = [\"n2\"]\nwire = \"plain\"")
            .expect("good");
        assert!(c.allow_root && c.wire == Some(Wire::Plain));
        assert!(c.send_to.is_some() && c.accept_from.is_none());
        assert_eq!(c.guest_weight(), None);
        let c = parse("owner_first = true").expect("good");
        assert_eq!(c.guest_weight(), Some(1));
        let c = parse("owner_first = true\nguest_cpu_weight = 20").expect("good");
        assert_eq!(c.guest_weight(), Some(20));
        let check = |text: &str, part: &str| {
            let e = parse(text).expect_err(text);
            assert!(e.contains(part), "{e}");
        };
        check("policy = \"slurm\"", "slurm");
        check("nmae = \"n1\"", "nmae");
        check("name = \"N 1\"", "N 1");
        check("send_to = [\"a@\"]", "a@");
        check("freeze_ms = 5000\ndead_ms = 5000", "dead_ms");
        check("guest_cpu_weight = 0", "guest_cpu_weight");
        check("guest_procs_max = 3", "guest_procs_max");
        check("owner_first = true\nowner_idle_ms = 10", "owner_idle_ms");
        check("gossip_period_ms = 0", "gossip_period_ms");
        check("link_mbit = 0", "link_mbit");
        check("packing_percent = 101", "packing_percent");
    }
}
