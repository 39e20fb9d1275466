//! Starts everything, and follows the inventory and the images while it runs.

use super::listen::{self, Limits};
use super::state::{MakeToken, State};
use super::{dnsmasq, http};
use crate::follow::Peers;
use crate::image::Listed;
use crate::layout::{BootDir, Settings, replace};
use crate::problem::{At, BootError};
use crate::stage::Board;
use armento_fabric::inventory::Farm;
use std::fs;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Between two looks at the inventory and the images.
const LOOK: Duration = Duration::from_secs(1);

/// Is given all generations that there are.
pub type OnImages = Box<dyn Fn(&[Listed]) + Send + Sync>;

/// What the caller does for the boot server.
pub struct Hooks {
    /// Makes a token for one use, for a node of this name.
    pub make_token: MakeToken,
    /// Reads the inventory again.
    pub read_farm: Box<dyn Fn() -> Result<Farm, String> + Send + Sync>,
    /// The images are others than before: NFS serves these from now on.
    pub images: OnImages,
}

/// A boot server that is ready to run.
pub struct Server {
    state: Arc<State>,
    hooks: Hooks,
    address: IpAddr,
}

impl Server {
    /// Writes dnsmasq's configuration and lays out iPXE. Nothing listens yet.
    pub fn new(
        boot: BootDir,
        settings: Settings,
        farm: Farm,
        hooks: Hooks,
    ) -> Result<Server, BootError> {
        let text = dnsmasq::configuration(&farm, &settings)?;
        replace(&boot.dnsmasq(), text.as_bytes())?;
        let net = farm.boot_net().map(|n| n.name.clone()).unwrap_or_default();
        let own = farm.node(&settings.server).and_then(|n| n.address(&net));
        let address = own.ok_or_else(|| {
            BootError::refused(
                format!("{} has no address in the boot net", settings.server),
                "give it a link in that net",
            )
        })?;
        let make_token = hooks.make_token;
        let hooks = Hooks {
            make_token: Box::new(|_| Err(String::new())),
            ..hooks
        };
        let state = Arc::new(State::new(boot, settings, farm, make_token));
        dnsmasq::lay_out_loaders(&state)?;
        Ok(Server {
            state,
            hooks,
            address,
        })
    }

    /// Where machines reach this server.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The node that has an address in the boot net; follows the inventory.
    pub fn node_at(&self) -> impl Fn(IpAddr) -> Option<String> + Send + Sync + 'static {
        let state = self.state.clone();
        move |address| state.node_at(address)
    }

    /// The other boot servers; follows the inventory.
    pub fn others(&self) -> impl Fn() -> Vec<(String, IpAddr)> + Send + Sync + 'static {
        let state = self.state.clone();
        move || state.others()
    }

    /// What is known of them: a follower writes it, `status` tells it.
    pub fn peers(&self) -> Arc<Peers> {
        self.state.peers.clone()
    }

    /// The progress of all machines.
    pub fn board(&self) -> Board {
        self.state.board()
    }

    /// Runs until `stop` is ready. `listens` is called when machines are answered.
    pub async fn run(
        &self,
        listens: impl FnOnce(),
        stop: impl Future<Output = ()>,
    ) -> Result<(), BootError> {
        let port = self.state.settings.http;
        // In the boot net alone: a machine that is in other nets serves nothing there.
        let own = SocketAddr::new(self.address, port);
        let listener = TcpListener::bind(own).await.map_err(|e| {
            BootError::refused(
                format!("cannot listen on {own}: {e}"),
                "does another `armento boot serve` run here?",
            )
        })?;
        listens();
        let base = format!("http://{}:{port}", self.address);
        let routes = http::routes(self.state.clone(), base);
        let changed = Arc::new(Notify::new());
        tokio::select! {
            served = listen::serve(listener, routes, Limits::SERVER) => served.at(Path::new("HTTP")),
            () = dnsmasq::supervise(self.state.clone(), changed.clone()) => Ok(()),
            () = self.follow(&changed) => Ok(()),
            () = stop => Ok(()),
        }?;
        self.state.save()
    }

    /// Looks at inventory and images for ever.
    async fn follow(&self, changed: &Notify) {
        let mut inventory = stamp(&self.state.settings.inventory);
        let mut images: Vec<(String, bool)> = Vec::new();
        let mut first = true;
        loop {
            let now = stamp(&self.state.settings.inventory);
            if now != inventory {
                inventory = now;
                self.read_again(changed);
            }
            match self.state.store.list() {
                Ok(list) => {
                    let seen: Vec<(String, bool)> = list
                        .iter()
                        .map(|l| (l.generation.to_string(), l.current))
                        .collect();
                    if first || seen != images {
                        (self.hooks.images)(&list);
                        self.state.images_are(&list);
                        images = seen;
                        first = false;
                    }
                }
                Err(e) => tracing::warn!("the images cannot be listed: {e}"),
            }
            if let Err(e) = self.state.save() {
                tracing::warn!("the progress cannot be written down: {e}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn read_again(&self, changed: &Notify) {
        let farm = match (self.hooks.read_farm)() {
            Ok(farm) => farm,
            Err(e) => {
                tracing::error!("the inventory changed and is not used, the one before is: {e}");
                return;
            }
        };
        let state = &self.state;
        let text = match dnsmasq::configuration(&farm, &state.settings) {
            Ok(text) => text,
            Err(e) => {
                tracing::error!("the inventory changed and is not used, the one before is: {e}");
                return;
            }
        };
        state.set_farm(farm);
        let before = fs::read_to_string(state.boot.dnsmasq()).unwrap_or_default();
        if before != text {
            match replace(&state.boot.dnsmasq(), text.as_bytes()) {
                Ok(()) => changed.notify_one(),
                Err(e) => tracing::error!("dnsmasq's configuration cannot be written: {e}"),
            }
        }
    }
}

/// When a file, or one beside it that it may name, changed last.
fn stamp(path: &Path) -> Vec<(String, SystemTime)> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let beside = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<(String, SystemTime)> = beside
        .filter_map(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            let named = Path::new(&name)
                .extension()
                .is_some_and(|x| x == "toml" || x == "csv");
            named.then_some(())?;
            Some((name, e.metadata().ok()?.modified().ok()?))
        })
        .collect();
    all.sort();
    all
}
