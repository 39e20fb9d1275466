//! The hosts of this node: which there are, found again after a restart.

use super::entry::{Entry, Stage};
use super::files::{clean_up, kill};
use super::record::{Key, Record, records, stem};
use crate::line_sender::LineSender;
use crate::state_dir::StateDir;
use crate::sys;
use armento_client::api::{Build, GuestInfo, HostHello};
use armento_model::{NodeName, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Guests of one host that are shown and counted.
const GUESTS_MAX: usize = 4096;
/// A host that was just started says hello within this time.
pub const HELLO_MAX: Duration = Duration::from_secs(5);
/// First uid of hosts when the daemon is root: above those of people and below `nobody`'s.
const GUEST_UIDS: u32 = 2_000_000;

#[derive(Default)]
pub struct HostTable(pub(super) BTreeMap<Key, Entry>);

impl HostTable {
    /// Those that an earlier daemon started and that still live.
    pub fn recover(state: &StateDir) -> HostTable {
        let mut table = HostTable::default();
        let dir = records(state);
        for file in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = file.file_name();
            if file.path().extension().is_none_or(|e| e != "json") {
                continue;
            }
            let read = state.read_json::<Record>(&format!("hosts/{}", name.to_string_lossy()));
            let Ok(Some(r)) = read else { continue };
            if r.lives() && r.addr.port() != 0 {
                table.put(r, true);
                continue;
            }
            // It ended, or its daemon did before it told a home of it.
            kill(&r);
            clean_up(state, &r);
        }
        table.tidy(&dir);
        table
    }

    /// Removes half-written records and empty logs of hosts that have ended. Logs with text are kept for people.
    fn tidy(&self, dir: &Path) {
        let stem_of = |r: &Record| stem(&r.home, r.tree);
        let live: BTreeSet<String> = self.records().map(stem_of).collect();
        for file in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let (log, json) = (name.strip_suffix(".log"), name.strip_suffix(".json"));
            let of_living = log.or(json).is_some_and(|stem| live.contains(stem));
            let said = log.is_some() && file.metadata().is_ok_and(|m| m.len() > 0);
            if !of_living && !said {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    pub fn put(&mut self, record: Record, recovered: bool) {
        let entry = Entry {
            session: None,
            silent: Instant::now(),
            reported_at: None,
            guests: Vec::new(),
            recovered,
            may_be_shut: recovered,
            build: Build::default(),
            expelled: None,
            stage: Stage::Up(record.clone()),
        };
        self.0.insert((record.home, record.tree), entry);
    }

    /// How far the host of that tree is, if there is one.
    pub fn stage(&self, home: &NodeName, tree: TreeId) -> Option<&Stage> {
        self.0.get(&(home.clone(), tree)).map(|e| &e.stage)
    }

    /// A host of that tree is being started.
    pub fn starting(&mut self, home: &NodeName, tree: TreeId, guest_uid: u32) {
        let entry = Entry {
            stage: Stage::Starting { guest_uid },
            session: None,
            silent: Instant::now(),
            reported_at: None,
            guests: Vec::new(),
            recovered: false,
            may_be_shut: false,
            build: Build::default(),
            expelled: None,
        };
        self.0.insert((home.clone(), tree), entry);
    }

    /// There is no host of that tree any more.
    pub fn remove(&mut self, home: &NodeName, tree: TreeId) {
        self.0.remove(&(home.clone(), tree));
    }

    /// That host has ended; another of its tree may have begun since.
    pub fn ended(&mut self, record: &Record) {
        let key = (record.home.clone(), record.tree);
        if self.0.get(&key).and_then(Entry::pid) == Some(record.pid) {
            self.0.remove(&key);
        }
    }

    /// A host says hello. `peer` is the process at the other end of the session.
    pub fn said_hello(
        &mut self,
        hello: &HostHello,
        peer: Option<i32>,
        session: u64,
        out: LineSender,
    ) -> bool {
        let entry = self.0.get_mut(&(hello.home.clone(), hello.tree));
        match entry {
            Some(e) if e.pid().is_some() && e.pid() == peer => {
                e.session = Some((session, out));
                e.build = hello.build.clone();
                true
            }
            _ => false,
        }
    }

    /// A host that is too old to be understood: it still counts as called.
    pub fn still_there(&mut self, hello: &HostHello, peer: Option<i32>) {
        let entry = self.0.get_mut(&(hello.home.clone(), hello.tree));
        if let Some(e) = entry.filter(|e| e.pid().is_some() && e.pid() == peer) {
            e.silent = Instant::now();
        }
    }

    /// The session ended; the host may live and come back.
    pub fn session_ended(&mut self, session: u64) {
        for e in self.0.values_mut() {
            if e.session.as_ref().is_some_and(|(s, _)| *s == session) {
                e.session = None;
                e.silent = Instant::now();
            }
        }
    }

    /// Hosts that no keeper has connected to for so long that none will: a host says hello when the first keeper has
    /// connected.
    pub fn unconnected(&self, longer_than: Duration) -> Vec<Record> {
        let late = |e: &&Entry| e.session.is_none() && e.silent.elapsed() > longer_than;
        let record = |e: &Entry| match &e.stage {
            Stage::Up(r) => Some(r.clone()),
            Stage::Starting { .. } => None,
        };
        self.0.values().filter(late).filter_map(record).collect()
    }

    /// Whether an earlier daemon started it.
    pub fn was_there(&self, session: u64) -> bool {
        let of = |e: &Entry| e.session.as_ref().is_some_and(|(s, _)| *s == session);
        self.0.values().any(|e| e.recovered && of(e))
    }

    pub fn of_session(&self, session: u64) -> Option<&Record> {
        let of = |e: &&Entry| e.session.as_ref().is_some_and(|(s, _)| *s == session);
        match &self.0.values().find(of)?.stage {
            Stage::Up(r) => Some(r),
            Stage::Starting { .. } => None,
        }
    }

    pub fn report(&mut self, session: u64, mut guests: Vec<GuestInfo>) {
        guests.truncate(GUESTS_MAX);
        for ((home, tree), e) in &mut self.0 {
            if e.session.as_ref().is_some_and(|(s, _)| *s == session) {
                for g in &mut guests {
                    g.home = home.clone();
                    g.tree = *tree;
                }
                e.guests = std::mem::take(&mut guests);
                e.reported_at = Some(Instant::now());
            }
        }
    }

    pub fn guests(&self) -> impl Iterator<Item = &GuestInfo> {
        self.0.values().flat_map(|e| &e.guests)
    }

    /// Each host that runs: its pid, what it was built from, and its guests.
    pub fn builds(&self) -> impl Iterator<Item = (i32, &Build, u64)> {
        let up = self.0.values();
        up.filter_map(|e| Some((e.pid()?, &e.build, e.guests.len() as u64)))
    }

    /// Hosts without known guests that have not reported since `then` whether they have any. One without a session for longer
    /// than `patience` has no guests that could be asked for.
    pub fn unreported(&self, then: Instant, patience: Duration) -> usize {
        let reported = |e: &Entry| e.reported_at.is_some_and(|t| t > then);
        let mute = |e: &Entry| e.session.is_none() && e.silent.elapsed() > patience;
        let all = self.0.values();
        all.filter(|e| e.guests.is_empty() && !reported(e) && !mute(e))
            .count()
    }

    /// Homes and users whose trees are here.
    pub fn owners(&self) -> BTreeSet<(NodeName, u32)> {
        let up = self.records();
        up.map(|r| (r.home.clone(), r.uid)).collect()
    }

    /// The user of a tree that is here.
    pub fn owner_of(&self, home: &NodeName, tree: TreeId) -> Option<u32> {
        let entry = self.0.get(&(home.clone(), tree))?;
        entry.record().map(|r| r.uid)
    }

    pub fn of_home(&self, home: &NodeName) -> Vec<Record> {
        let theirs = self.records().filter(|r| r.home == *home);
        theirs.cloned().collect()
    }

    pub fn all(&self) -> Vec<Record> {
        self.records().cloned().collect()
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.0.values().filter_map(Entry::record)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn senders(&self) -> impl Iterator<Item = &LineSender> {
        self.0
            .values()
            .filter_map(|e| e.session.as_ref().map(|(_, o)| o))
    }

    /// Takes out hosts that have ended since the last call: the kernel reports only those that are our children.
    pub fn take_ended(&mut self) -> Vec<Record> {
        let dead = |e: &Entry| match &e.stage {
            Stage::Up(r) => !r.lives(),
            Stage::Starting { .. } => false,
        };
        let keys: Vec<Key> = self
            .0
            .iter()
            .filter(|(_, e)| dead(e))
            .map(|(k, _)| k.clone())
            .collect();
        let gone = keys.iter().filter_map(|k| self.0.remove(k));
        gone.filter_map(|e| match e.stage {
            Stage::Up(r) => Some(r),
            Stage::Starting { .. } => None,
        })
        .collect()
    }

    /// The user a new host becomes: one that no other host has.
    pub fn free_uid(&self) -> u32 {
        let own = sys::euid();
        if own != 0 {
            return own;
        }
        let taken = |uid: u32| self.0.values().any(|e| e.guest_uid() == uid);
        (GUEST_UIDS..)
            .find(|uid| !taken(*uid))
            .unwrap_or(GUEST_UIDS)
    }
}

#[cfg(test)]
mod tests;
