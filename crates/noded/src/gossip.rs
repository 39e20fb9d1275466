//! The datagram half of a daemon: SWIM membership and the load vector, on one socket.
//!
//! Next: `gossip/speak.rs`, once a period, and from there `act.rs`.

mod speak;

use crate::core::Node;
use crate::datagram::{Kind, Seal};
use crate::members::{Life, Standing, State, swim_config};
use crate::state::Member;
use crate::upkeep::Upkeep;
use crate::{address, clocks, hosts, news, peer};
use armento_client::version;
use armento_gossip::Message;
use armento_link::sockets;
use armento_sense::{Sample, Sampler};
use foca::{AccumulatingRuntime, Foca, NoCustomBroadcast, PostcardCodec, Timer};
use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// KERNEL: udp(7): the longest payload of an IPv4 datagram.
const DATAGRAM_MAX: usize = 65_507;
/// Periods between two looks at what needs no hurry: lost members, logs, ended hosts.
const SLOW_PERIODS: u64 = 5;
/// Members are asked for the farm's news every so many of those, and each time when somebody does not answer, or speaks
/// under another seal: whoever speaks under ours knows what we know.
const NEWS_TURNS: u64 = 12;
/// Memory is looked at so often between periods where there is somebody of ours: a program fills a gigabyte in a third of a
/// second, and one file is read.
const MEMORY_GLANCE: Duration = Duration::from_millis(250);
/// Lost members called again at once.
const CALLED_MAX: usize = 16;
/// Members that are told of a new address at once; the others hear of it from them.
const TOLD_MAX: usize = 64;
/// Timers of foca; it keeps a handful a member.
const TIMERS_MAX: usize = 100_000;

type Swim = Foca<Life, PostcardCodec, StdRng, NoCustomBroadcast>;

pub struct Gossip {
    node: Arc<Node>,
    socket: UdpSocket,
    seal: Seal,
    /// Of which news the seal is.
    epoch: u64,
    swim: Swim,
    runtime: AccumulatingRuntime<Life>,
    timers: BinaryHeap<Reverse<Due>>,
    sampler: Sampler,
    upkeep: Upkeep,
    /// The newest, of the last period.
    last: Option<Sample>,
    /// Memory was short when it was last looked at.
    short: bool,
    /// The membership may have changed since it was last looked at …
    stirred: bool,
    /// … and what it was then, as one number whatever their order.
    lives: u64,
    /// Datagrams came that our seal does not open.
    foreign: bool,
    /// Whether this machine still has the address that the others were told.
    address: address::Watch,
    clocks: clocks::Watch,
    /// Whom to ask for the news next, in turn.
    asked: u64,
    periods: u64,
}

/// A timer of foca's; equal moments in foca's own order.
#[derive(PartialEq, Eq)]
struct Due {
    at: Instant,
    timer: Timer<Life>,
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        let by_kind = || {
            let order = self.timer.partial_cmp(&other.timer);
            order.unwrap_or(std::cmp::Ordering::Equal)
        };
        self.at.cmp(&other.at).then_with(by_kind)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn dice(node: &Node) -> StdRng {
    StdRng::seed_from_u64(node.farm.boot ^ u64::from(std::process::id()).rotate_left(32))
}

impl Gossip {
    pub fn new(node: Arc<Node>, socket: UdpSocket) -> Gossip {
        let me = Life {
            name: node.farm.node.clone(),
            boot: node.farm.boot,
            addr: node.addr(),
        };
        let news = node.news();
        Gossip {
            seal: Seal::new(&news.secret),
            epoch: news.epoch,
            swim: Foca::new(me, swim_config(), dice(&node), PostcardCodec),
            runtime: AccumulatingRuntime::new(),
            timers: BinaryHeap::new(),
            sampler: Sampler::new(),
            upkeep: Upkeep::default(),
            last: None,
            short: false,
            stirred: true,
            lives: 0,
            foreign: false,
            address: address::Watch::default(),
            clocks: clocks::Watch::default(),
            // A farm that is switched on would ask its first node all at once, then its second.
            asked: dice(&node).next_u32().into(),
            periods: 0,
            node,
            socket,
        }
    }

    /// Until `stop` says so; then takes leave of the others if this node leaves the farm.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let period = Duration::from_millis(self.node.config.gossip_period_ms);
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut glances = interval(MEMORY_GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut buf = vec![0; DATAGRAM_MAX];
        loop {
            self.reseal();
            let watched = self.node.lock().has_work();
            let due = self.timers.peek().map(|Reverse(d)| d.at);
            let timer = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = stop.changed() => break,
                _ = ticks.tick() => self.period().await,
                _ = glances.tick(), if watched => self.watch_memory().await,
                () = timer => self.fire(),
                got = self.socket.recv_from(&mut buf) => match got {
                    Ok((n, from)) => self.hear(&buf[..n], from),
                    // KERNEL: udp(7): an ICMP error of an earlier send; the next call is fresh.
                    Err(e) => tracing::trace!("datagrams: {e}"),
                },
            }
            self.settle().await;
        }
        if self.node.lock().leaving {
            let _ = self.swim.leave_cluster(&mut self.runtime);
            self.settle().await;
        }
    }

    /// When a node is removed the secret changes, and with it the membership begins anew: what is said of the removed
    /// one under the old secret, by those who do not know yet, must find no way over.
    fn reseal(&mut self) {
        let news = self.node.news();
        if news.epoch == self.epoch {
            return;
        }
        (self.seal, self.epoch) = (Seal::new(&news.secret), news.epoch);
        let me = self.swim.identity().clone();
        self.swim = Foca::new(me, swim_config(), dice(&self.node), PostcardCodec);
        self.runtime = AccumulatingRuntime::new();
        self.timers.clear();
        let lives: Vec<Life> = {
            let core = self.node.lock();
            let up = core.members.values().filter(|m| m.is_up());
            up.map(Standing::life).collect()
        };
        let alive = lives.into_iter().map(foca::Member::alive);
        self.stirred = true;
        if let Err(e) = self.swim.apply_many(alive, true, &mut self.runtime) {
            tracing::warn!("membership begins without its members: {e}");
        }
    }

    fn hear(&mut self, datagram: &[u8], from: SocketAddr) {
        self.reseal();
        let Some((kind, payload)) = self.seal.open(datagram) else {
            tracing::debug!("{from}: not a member's datagram");
            self.foreign = true;
            return;
        };
        match kind {
            Kind::Swim => {
                self.stirred = true;
                if let Err(e) = self.swim.handle_data(payload, &mut self.runtime) {
                    tracing::debug!("{from}: {e}");
                }
            }
            Kind::ToCome => {}
            Kind::Vector => {
                let Ok(message) = postcard::from_bytes::<Message>(payload) else {
                    tracing::debug!("{from}: not a load vector");
                    return;
                };
                let now = self.node.now();
                let heard = self.node.lock().vector.receive(message, now);
                if heard.double {
                    tracing::error!(
                        "another node calls itself {} too; one of the two must leave and join under another name",
                        self.node.farm.node
                    );
                }
            }
        }
    }

    fn fire(&mut self) {
        let now = Instant::now();
        while self.timers.peek().is_some_and(|Reverse(d)| d.at <= now) {
            let Some(Reverse(due)) = self.timers.pop() else {
                break;
            };
            self.stirred = true;
            if let Err(e) = self.swim.handle_timer(due.timer, &mut self.runtime) {
                tracing::debug!("membership timer: {e}");
            }
        }
    }

    /// The others know a member by its newest life; each is called, for who does not hear of it calls where nobody is.
    fn tell_address(&mut self) {
        let Some(addr) = self.address.look(&self.node) else {
            return;
        };
        if let Err(e) = self.node.moved_to(addr) {
            tracing::warn!("{e}: a restart will not know the address");
        }
        let before = self.swim.identity().clone();
        let life = Life {
            boot: before.boot + 1,
            addr,
            ..before
        };
        if let Err(e) = self.swim.change_identity(life, &mut self.runtime) {
            tracing::warn!("the others cannot be told of the new address: {e}");
        }
        let lives: Vec<Life> = {
            let core = self.node.lock();
            core.members.values().map(Standing::life).collect()
        };
        for life in lives.into_iter().take(TOLD_MAX) {
            if let Err(e) = self.swim.announce(life, &mut self.runtime) {
                tracing::debug!("telling a member of the new address: {e}");
            }
        }
        self.stirred = true;
    }

    /// What is done now and then.
    fn slow(&mut self) {
        self.node.lines.trim();
        let mut lost: Vec<Member> = Vec::new();
        let patience = Duration::from_millis(self.node.config.dead_ms);
        let (buried, unwanted) = {
            let mut core = self.node.lock();
            let down = core.members.values().filter(|m| !m.is_up());
            lost.extend(down.map(|m| m.known.clone()));
            (core.hosts.bury(), core.hosts.unwanted(patience))
        };
        unwanted.iter().for_each(hosts::end);
        for record in &buried {
            hosts::clean(&self.node.state, record);
        }
        // In turn, so that each is called within a few rounds however many there are.
        let turn = (self.periods / SLOW_PERIODS) as usize * CALLED_MAX;
        let n = lost.len();
        for m in lost
            .iter()
            .cycle()
            .skip(turn.checked_rem(n).unwrap_or(0))
            .take(n.min(CALLED_MAX))
        {
            // Announcements are heard by whoever has the name, whatever its life.
            let life = Life {
                name: m.name.clone(),
                boot: 0,
                addr: m.addr,
            };
            if let Err(e) = self.swim.announce(life, &mut self.runtime) {
                tracing::debug!("calling {}: {e}", m.name);
            }
        }
        self.ask_for_news(n > 0);
        if let Err(e) = hosts::trim_logs(&self.node.state) {
            tracing::warn!("{e}");
        }
    }

    fn ask_for_news(&mut self, some_are_lost: bool) {
        let (node, turn) = (self.node.clone(), self.periods / SLOW_PERIODS);
        let strange = std::mem::take(&mut self.foreign) || some_are_lost;
        let to_come = version::is_to_come();
        if !strange && !to_come && !turn.is_multiple_of(NEWS_TURNS) {
            return;
        }
        let asked = self.asked;
        self.asked += 1;
        tokio::task::spawn_blocking(move || {
            news::ask_one(&node, asked);
            if to_come {
                peer::ask_to_come(&node);
            }
        });
    }

    /// Carries out what foca wants: send, set timers, tell who is there.
    async fn settle(&mut self) {
        while let Some((to, bytes)) = self.runtime.to_send() {
            self.send(to.addr, Kind::Swim, &bytes).await;
        }
        let now = Instant::now();
        while let Some((after, timer)) = self.runtime.to_schedule() {
            if self.timers.len() < TIMERS_MAX {
                let at = now + after;
                self.timers.push(Reverse(Due { at, timer }));
            }
        }
        while self.runtime.to_notify().is_some() {}
        if std::mem::take(&mut self.stirred) {
            self.sync();
        }
    }

    /// Suspicion comes without a notification, so the whole table is read; it is small.
    fn sync(&mut self) {
        let hashed = |m: &foca::Member<Life>| {
            let mut hasher = DefaultHasher::new();
            (m.id(), m.state() as u8).hash(&mut hasher);
            hasher.finish()
        };
        let all = self.swim.iter_membership_state();
        let sum = all.map(hashed).fold(0, u64::wrapping_add);
        if std::mem::replace(&mut self.lives, sum) == sum {
            return;
        }
        let lives = self.swim.iter_membership_state().map(|m| {
            let state = match m.state() {
                foca::State::Alive => State::Alive,
                foca::State::Suspect => State::Suspect,
                foca::State::Down => State::Down,
            };
            (m.id().clone(), state)
        });
        let changed = {
            let mut core = self.node.lock();
            core.sync_members(lives);
            core.members_changed
        };
        if changed {
            self.note_members();
        }
    }

    /// Writes the roster on another thread: a disk may take longer than a placement may.
    fn note_members(&self) {
        let node = self.node.clone();
        node.lock().members_changed = false;
        tokio::task::spawn_blocking(move || {
            if let Err(e) = node.save_roster() {
                tracing::warn!("{e}: a restart will not know all members");
            }
        });
    }

    async fn send(&self, to: SocketAddr, kind: Kind, payload: &[u8]) {
        // Of a family that our socket does not speak: nobody is there for us.
        let Some(to) = sockets::for_socket(to, self.node.farm.listen) else {
            tracing::debug!(
                "to {to}: this node listens at {} only",
                self.node.farm.listen.ip()
            );
            return;
        };
        let sealed = self.seal.close(kind, payload);
        // A lost datagram is what SWIM expects of a network.
        if let Err(e) = self.socket.send_to(&sealed, to).await {
            tracing::trace!("to {to}: {e}");
        }
    }
}
