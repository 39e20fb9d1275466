//! Streams to the other boot servers, on which images follow: TLS with this node's certificate, both ways. The protocol is
//! in `armento_provision::follow`.

use anyhow::{Context as _, Result, bail};
use armento_link::{Badge, Duplex, Identity, LinkError, Listener, Role, dial};
use armento_model::NodeName;
use armento_noded::{Config, boot_identity};
use armento_provision::follow::{Follower, Peers, Progress, Source, Stream};
use armento_provision::image::Store;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two looks at another server: an edit is seen there within five seconds.
const LOOK: Duration = Duration::from_secs(1);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(3);
/// A connection with its handshake.
const DIAL: Duration = Duration::from_secs(5);
/// A server reads a whole root from its disk before it answers.
const SILENT: Duration = Duration::from_secs(120);
/// A stream is made anew after so long, with new certificates; the other side ends it soon after.
const STREAM: Duration = Duration::from_secs(540);
/// Certificates, and the list of removed nodes, are read again.
const RENEW: Duration = Duration::from_secs(60);
/// Streams of other servers at once.
const STREAMS_MAX: usize = 32;

pub struct Copies {
    /// Settings of the node.
    pub config: Option<PathBuf>,
    pub store: Store,
    /// This boot server, as the inventory calls it.
    pub own: String,
    /// Where other boot servers connect.
    pub address: SocketAddr,
    /// The other boot servers of the inventory.
    pub others: Box<dyn Fn() -> Vec<(String, IpAddr)> + Send + Sync>,
    pub peers: Arc<Peers>,
}

impl Copies {
    /// Follows and is followed as long as this process lives.
    pub fn start(self) -> Result<()> {
        let this = Arc::new(self);
        thread::Builder::new()
            .name("boot-copies".into())
            .spawn(move || this.run())
            .context("no thread for copies of images")?;
        Ok(())
    }

    fn run(self: Arc<Copies>) {
        let mut listens: Option<(Arc<Listener>, Instant)> = None;
        let mut follows: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
        loop {
            let names: Vec<String> = (self.others)().into_iter().map(|(n, _)| n).collect();
            self.peers.keep(&names);
            follows.retain(|_, thread| !thread.is_finished());
            if !names.is_empty() {
                self.listen(&mut listens);
            }
            for name in names {
                if let Entry::Vacant(place) = follows.entry(name) {
                    let (this, peer) = (self.clone(), place.key().clone());
                    let begun = thread::Builder::new()
                        .name("boot-follow".into())
                        .spawn(move || this.follow(&peer));
                    match begun {
                        Ok(thread) => drop(place.insert(thread)),
                        Err(e) => tracing::warn!("{} is not followed: {e}", place.key()),
                    }
                }
            }
            thread::sleep(LOOK);
        }
    }

    fn identity(&self) -> Result<Identity> {
        let config = Config::load(self.config.as_deref())?;
        let Some((node, identity)) = boot_identity(&config)? else {
            bail!("the farm has no keys (wire = plain): copy images by other means");
        };
        if node.to_string() != self.own {
            bail!(
                "this node is {node} in the farm, and {} in the inventory: images follow where both are the same",
                self.own
            );
        }
        Ok(identity)
    }

    /// Opens the listener, or gives it new certificates.
    fn listen(self: &Arc<Copies>, listens: &mut Option<(Arc<Listener>, Instant)>) {
        if listens.as_ref().is_some_and(|(_, at)| at.elapsed() < RENEW) {
            return;
        }
        let renewed = self.identity().and_then(|identity| match listens {
            Some((listener, _)) => Ok(listener.renew(&identity)?),
            None => {
                let listener = Arc::new(Listener::bind(&self.address.to_string(), &identity)?);
                let (this, accepts) = (self.clone(), listener.clone());
                thread::Builder::new()
                    .name("boot-copies".into())
                    .spawn(move || this.accept(&accepts))?;
                *listens = Some((listener, Instant::now()));
                Ok(())
            }
        });
        match (renewed, listens) {
            (Ok(()), Some((_, at))) => *at = Instant::now(),
            (Ok(()), None) => {}
            // The followers say why, for each server.
            (Err(e), _) => tracing::debug!("other boot servers cannot follow this one: {e:#}"),
        }
    }

    fn accept(self: &Arc<Copies>, listener: &Listener) {
        let source = Arc::new(Source::new(self.store.clone(), &self.own));
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let admits = |badge: &Badge| {
                let name = badge.node.to_string();
                badge.role == Role::Boot
                    && badge.tree.is_none()
                    && (self.others)().iter().any(|(n, _)| *n == name)
            };
            let (duplex, badge) = match listener.accept_if(None, admits) {
                Ok(accepted) => accepted,
                Err(LinkError::Closed) => return,
                Err(e) => {
                    tracing::debug!("a stream was not accepted: {e}");
                    continue;
                }
            };
            if open.fetch_add(1, Ordering::SeqCst) >= STREAMS_MAX {
                open.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (source, count) = (source.clone(), open.clone());
            let begun = thread::Builder::new()
                .name("boot-source".into())
                .spawn(move || {
                    let served = stream(duplex).and_then(|s| Ok(source.serve(s)?));
                    if let Err(e) = served {
                        tracing::debug!("the stream of {} ended: {e:#}", badge.node);
                    }
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            if begun.is_err() {
                open.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Follows one server until the inventory does not name it any more.
    fn follow(&self, peer: &str) {
        let mut follower = Follower::new(self.store.clone(), &self.own, peer, self.peers.clone());
        loop {
            let others = (self.others)();
            let Some((_, address)) = others.into_iter().find(|(n, _)| n == peer) else {
                return;
            };
            let address = SocketAddr::new(address, self.address.port());
            if let Err(e) = self.session(&mut follower, peer, address) {
                let text = e.to_string();
                if self.peers.set(peer, Progress::trouble(text.clone())) {
                    tracing::warn!("{peer} is not followed: {text}");
                }
                thread::sleep(AGAIN);
            }
        }
    }

    fn session(&self, follower: &mut Follower, peer: &str, address: SocketAddr) -> Result<()> {
        let node: NodeName = peer.parse()?;
        let identity = self.identity()?;
        let duplex = dial(&address.to_string(), &identity, &Badge::boot(&node), DIAL)?;
        let mut stream = stream(duplex)?;
        let until = Instant::now() + STREAM;
        while Instant::now() < until {
            follower.look(&mut stream)?;
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn stream(duplex: Duplex) -> Result<Stream<armento_link::Reader, armento_link::Writer>> {
    duplex.socket().set_read_timeout(Some(SILENT))?;
    duplex.socket().set_write_timeout(Some(SILENT))?;
    let (reads, writes) = duplex.split()?;
    Ok(Stream { reads, writes })
}
