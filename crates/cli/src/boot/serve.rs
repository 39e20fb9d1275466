//! `armento boot serve`.

use super::copies::Copies;
use super::place::{Place, farm};
use crate::out::{Failure, say};
use anyhow::{Context as _, Result};
use armento_nfs::{Caller, Export, Exports, Key, Running};
use armento_noded::{Config, new_token, notify_ready, notify_stopping};
use armento_provision::image::{Listed, Store};
use armento_provision::init::Joining;
use armento_provision::layout::{BootDir, Settings};
use armento_provision::server::{Hooks, Server};
use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const HELP: &str = "Examples:
  armento boot serve
  ARMENTO_LOG=debug armento boot serve         with the lines of dnsmasq
  systemctl enable --now armento-boot-server   the same as a service, also after a restart of this machine

It runs until it is ended, notices changes of the inventory and of images, and starts dnsmasq again if that ends. Any number of
boot servers may serve the same net: their answers are equal. Tokens with which nodes join are made where the farm's key
is (where `armento farm init` was run).";

/// A token is given when the root is mounted; systemd has started by then.
const TOKEN: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Settings of the node, for tokens [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<i32> {
    log();
    let boot = args.place.boot();
    let settings = args.place.settings()?;
    let inventory = farm(&settings)?;
    let nfs: Arc<Mutex<Option<Running>>> = Arc::default();
    let hooks = hooks(&boot, &settings, args.config.clone(), nfs.clone());
    let server =
        Server::new(boot.clone(), settings.clone(), inventory, hooks).map_err(Failure::from)?;
    Copies {
        config: args.config.clone(),
        store: Store::new(&boot),
        own: settings.server.clone(),
        address: SocketAddr::new(server.address(), settings.copies),
        others: Box::new(server.others()),
        peers: server.peers(),
    }
    .start()?;
    let node_at = server.node_at();
    let resolver = move |address: IpAddr| match node_at(address) {
        Some(name) => Caller::Node(name),
        None => Caller::Refused,
    };
    let own = SocketAddr::new(server.address(), settings.nfs);
    let key = key(&boot)?;
    let none = Exports {
        list: Vec::new(),
        key,
    };
    let running = armento_nfs::Server::bind(own, none, resolver).map_err(|e| Failure {
        message: e.to_string(),
        hint: "another NFS server may have this port: armento boot init --nfs PORT".into(),
    })?;
    *nfs.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let served = runtime.block_on(async {
        let mut end = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let what = format!(
            "boot server {}: http://{}:{}, NFS port {}",
            settings.server,
            server.address(),
            settings.http,
            settings.nfs
        );
        let listens = || {
            notify_ready(&what);
            say(&format!("{what}\n"));
        };
        let stop = async {
            tokio::select! {
                _ = end.recv() => {}
                _ = interrupt.recv() => {}
            }
            notify_stopping("ends; nodes go on with another boot server");
        };
        server
            .run(listens, stop)
            .await
            .map_err(|e| Failure::from(e).into())
    });
    drop(runtime);
    let running = nfs.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(running) = running {
        running.stop();
    }
    served.map(|()| 0)
}

fn hooks(
    boot: &BootDir,
    settings: &Settings,
    config: Option<PathBuf>,
    nfs: Arc<Mutex<Option<Running>>>,
) -> Hooks {
    let make_token = move |node: &str| {
        let config = Config::load(config.as_deref()).map_err(|e| e.to_string())?;
        let (token, member) = new_token(&config, TOKEN, 1).map_err(|e| e.to_string())?;
        tracing::info!("{node} gets the token {}", token.id);
        Ok(Joining {
            token: token.to_string(),
            member: member.to_string(),
        })
    };
    let again = settings.clone();
    let read_farm = move || farm(&again).map_err(|e| format!("{e:#}"));
    let boot = boot.clone();
    let images = move |list: &[Listed]| {
        let exports = match key(&boot) {
            Ok(key) => exports(&boot, list, key),
            Err(e) => return tracing::error!("NFS goes on with the images before: {e:#}"),
        };
        let names: Vec<&str> = exports.list.iter().map(|e| e.path.as_str()).collect();
        tracing::info!("NFS serves {}", names.join(", "));
        let nfs = nfs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(e)) = nfs.as_ref().map(|nfs| nfs.replace(exports)) {
            tracing::error!("NFS goes on with the images before: {e}");
        }
    };
    Hooks {
        make_token: Box::new(make_token),
        read_farm: Box::new(read_farm),
        images: Box::new(images),
    }
}

/// Each generation, and each node's own directories.
fn exports(boot: &BootDir, list: &[Listed], key: Key) -> Exports {
    // The initramfs of a node speaks from a port below 1024: other programs of its users have no part in this.
    let own = Export::per_node("/persistent", boot.persistent());
    let mut all = vec![own.privileged_ports()];
    for Listed { generation, .. } in list {
        let path = format!("/image/{}/{}", generation.image, generation.number);
        // Equal on all boot servers that have a copy of it: the time at which it was made is in its manifest.
        let made = generation.manifest().map_or(0, |m| m.made);
        let number = made << 16 | u64::from(generation.number & 0xffff);
        all.push(Export::image(path, generation.root(), number).privileged_ports());
    }
    Exports { list: all, key }
}

fn key(boot: &BootDir) -> Result<Key> {
    let path = boot.nfs_key();
    let bytes = std::fs::read(&path).map_err(|e| Failure {
        message: format!("{}: {e}", path.display()),
        hint: "`armento boot init` makes it; a further boot server needs a copy of the first one's"
            .into(),
    })?;
    let key: Result<[u8; 32], _> = bytes.try_into();
    match key {
        Ok(key) => Ok(Key(key)),
        Err(_) => {
            let failure = Failure {
                message: format!("{} is damaged: it has not 32 bytes", path.display()),
                hint: "remove it and run `armento boot init`; running nodes with a live root must then start again".into(),
            };
            Err(failure.into())
        }
    }
}

/// Messages on standard error, as the daemon's: ARMENTO_LOG=debug shows more.
fn log() {
    let level = match std::env::var("ARMENTO_LOG").as_deref() {
        Ok("debug" | "trace") => tracing::Level::DEBUG,
        Ok("warn") => tracing::Level::WARN,
        Ok("error") => tracing::Level::ERROR,
        _ => tracing::Level::INFO,
    };
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
