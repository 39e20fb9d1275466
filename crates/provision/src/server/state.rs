//! What the boot server knows: inventory, progress, tokens given out.

use super::orders::{Answer, order};
use crate::follow::Peers;
use crate::image::{Generation, Listed, Store};
use crate::init::Joining;
use crate::layout::{BootDir, Settings, replace};
use crate::problem::BootError;
use crate::stage::{Board, Seen, Step};
use armento_fabric::addr::Mac;
use armento_fabric::inventory::{Farm, Root};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two tokens for one machine: a boot takes longer.
const TOKEN_EVERY: Duration = Duration::from_secs(10);
/// Machines whose last token is remembered.
const TOKENS_MAX: usize = 65_536;

/// Begins what is said of a node whose root was removed.
const GONE: &str = "its root";

/// Makes a token for one use, for a node of this name.
pub type MakeToken = Box<dyn Fn(&str) -> Result<Joining, String> + Send + Sync>;

pub struct State {
    pub boot: BootDir,
    pub settings: Settings,
    pub store: Store,
    farm: Mutex<Arc<Farm>>,
    board: Mutex<Changed<Board>>,
    given: Mutex<BTreeMap<Mac, Instant>>,
    /// How far this server is with following the others.
    pub peers: Arc<Peers>,
    make_token: MakeToken,
}

struct Changed<T> {
    value: T,
    unsaved: bool,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

impl State {
    pub fn new(boot: BootDir, settings: Settings, farm: Farm, make_token: MakeToken) -> State {
        // A damaged file costs nothing but the past.
        let board = std::fs::read(boot.progress()).ok();
        let board = board.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let state = State {
            store: Store::new(&boot),
            boot,
            settings,
            farm: Mutex::new(Arc::new(farm)),
            board: Mutex::new(Changed {
                value: board.unwrap_or_default(),
                unsaved: true,
            }),
            given: Mutex::default(),
            peers: Arc::default(),
            make_token,
        };
        state.renamed();
        state
    }

    pub fn farm(&self) -> Arc<Farm> {
        locked(&self.farm).clone()
    }

    /// Another inventory from now on.
    pub fn set_farm(&self, farm: Farm) {
        *locked(&self.farm) = Arc::new(farm);
        self.renamed();
    }

    fn renamed(&self) {
        let farm = self.farm();
        let name = |mac: Mac| farm.node_with(mac).map(|n| n.name.clone());
        let mut board = locked(&self.board);
        board.value.rename(&name);
        board.unsaved = true;
    }

    pub fn board(&self) -> Board {
        locked(&self.board).value.clone()
    }

    /// A machine reached a step.
    pub fn reached(&self, mac: Mac, step: Step) {
        let farm = self.farm();
        let node = farm.node_with(mac).map(|n| n.name.as_str());
        let mut board = locked(&self.board);
        board.value.reached(mac, node, step, now_ms());
        board.unsaved = true;
    }

    pub fn trouble(&self, mac: Mac, text: &str) {
        let mut board = locked(&self.board);
        board.value.trouble(mac, text);
        board.unsaved = true;
    }

    /// These generations are here now: nodes whose root is none of them are named, with what to do.
    pub fn images_are(&self, list: &[Listed]) {
        let here: Vec<String> = list.iter().map(|l| l.generation.to_string()).collect();
        let mut board = locked(&self.board);
        let mut changed = false;
        for progress in board.value.machines.values_mut() {
            let Some(image) = progress
                .image
                .clone()
                .filter(|_| progress.step() >= Step::Root)
            else {
                continue;
            };
            let said = progress
                .trouble
                .as_ref()
                .is_some_and(|t| t.starts_with(GONE));
            let gone = !here.contains(&image);
            if gone && progress.trouble.is_none() {
                let server = &self.settings.server;
                let node = progress.node.as_deref().unwrap_or("a machine");
                let text = format!(
                    "{GONE} {image} is not on {server} any more: bring its directory back from another boot server or a backup, \
                     or start the node again with another image (armento boot reboot {node})"
                );
                tracing::error!("{node}: {text}");
                progress.trouble = Some(text);
                changed = true;
            } else if said && !gone {
                progress.trouble = None;
                changed = true;
            }
        }
        board.unsaved |= changed;
    }

    /// What dnsmasq logged.
    pub fn seen(&self, seen: Seen) {
        match seen {
            Seen::Machine(mac, step) => self.reached(mac, step),
            Seen::Address(address, step) => {
                let farm = self.farm();
                let net = farm.boot_net().map(|n| n.name.clone()).unwrap_or_default();
                let node = farm.nodes.iter().find(|n| n.address(&net) == Some(address));
                let mac = node.and_then(|n| n.boot_macs(&net).first().copied());
                if let Some(mac) = mac {
                    self.reached(mac, step);
                }
            }
            Seen::OtherServer(mac) => {
                self.trouble(
                    mac,
                    "it took the address of another DHCP server on this net",
                );
            }
        }
    }

    /// The node that has an address in the boot net.
    pub fn node_at(&self, address: IpAddr) -> Option<String> {
        let farm = self.farm();
        let net = farm.boot_net()?.name.clone();
        let node = farm
            .nodes
            .iter()
            .find(|n| n.address(&net) == Some(address))?;
        Some(node.name.clone())
    }

    /// The other boot servers, with their addresses in the boot net.
    pub fn others(&self) -> Vec<(String, IpAddr)> {
        let farm = self.farm();
        let Some(net) = farm.boot_net() else {
            return Vec::new();
        };
        let others = farm
            .boot_servers
            .iter()
            .filter(|n| **n != self.settings.server);
        let with_address = |n: &String| Some((n.clone(), farm.node(n)?.address(&net.name)?));
        others.filter_map(with_address).collect()
    }

    /// Whether an address is that of the card's node. A machine may claim any card, but not take part in the connection of
    /// another address.
    pub fn is_at(&self, mac: Mac, address: IpAddr) -> bool {
        let farm = self.farm();
        let name = farm.node_with(mac).map(|n| n.name.clone());
        name.is_some() && name == self.node_at(address)
    }

    /// What the machine with this card is to boot.
    pub fn answer(&self, mac: Mac) -> Answer {
        let farm = self.farm();
        let Some(node) = farm.node_with(mac) else {
            return Answer::Wait(format!(
                "this machine waits for a name: armento boot claim {mac} NAME"
            ));
        };
        if node.root == Root::Disk {
            return Answer::Disk;
        }
        let found = self
            .store
            .of_node(node.image.as_deref())
            .map_err(|e| format!("{e}. {}", e.hint()));
        let made = found.and_then(|generation| {
            let sha256 = match node.root {
                Root::Ram => self.sum(&generation)?,
                _ => None,
            };
            let image = (generation.image.as_str(), generation.number);
            let answer = order(&farm, node, mac, &self.settings, image, sha256.as_deref())?;
            locked(&self.board).value.image(mac, generation.to_string());
            Ok(answer)
        });
        made.unwrap_or_else(|why| {
            self.trouble(mac, &why);
            Answer::Wait(why)
        })
    }

    fn sum(&self, generation: &Generation) -> Result<Option<String>, String> {
        generation
            .manifest()
            .map(|m| m.erofs)
            .map_err(|e| e.to_string())
    }

    /// A token for a machine, at most one at a time.
    pub fn token(&self, mac: Mac) -> Result<Joining, String> {
        let farm = self.farm();
        let node = farm
            .node_with(mac)
            .ok_or("the inventory does not name this card")?;
        {
            let mut given = locked(&self.given);
            let now = Instant::now();
            given.retain(|_, at| now.duration_since(*at) < TOKEN_EVERY);
            if given.contains_key(&mac) || given.len() >= TOKENS_MAX {
                return Err(format!(
                    "it had a token less than {} s ago",
                    TOKEN_EVERY.as_secs()
                ));
            }
            given.insert(mac, now);
        }
        (self.make_token)(&node.name)
    }

    /// Writes the progress down, if it changed.
    pub fn save(&self) -> Result<(), BootError> {
        let board = {
            let mut board = locked(&self.board);
            if !std::mem::take(&mut board.unsaved) {
                return Ok(());
            }
            board.value.clone()
        };
        let path = self.boot.progress();
        let bytes = serde_json::to_vec(&board).map_err(|e| BootError::Damaged {
            path: path.clone(),
            what: e.to_string(),
        })?;
        replace(&path, &bytes)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
