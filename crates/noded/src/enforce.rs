//! What is not trusted any more goes where it belongs: guests away, our own home. Looked at once a period, and at
//! once when the settings change.

use crate::core::{Core, Node};
use crate::error::refusal;
use crate::hosts::{self, Record, Whom};
use crate::log::Decided;
use crate::switches::{away, shut};
use crate::trust::{Changes, Rules, Trust};
use crate::{Config, FarmError};
use armento_client::api::{Dest, Order, Refusal, TrustChange, TrustInfo};
use armento_model::{NodeName, Pid, Stay};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Who does not come is asked again.
const AGAIN: Duration = Duration::from_secs(5);
/// A host asked to send its guests away takes none for so long; it is asked again before.
const SHUT: Duration = Duration::from_secs(15);
/// Guests that are not fetched by then are ended, with their host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Those who leave a node have this weight, together, until they may come again: with the least, beside a program of the
/// owner's, the milliseconds of a departure took four seconds.
const LEAVING_WEIGHT: u64 = 50;
/// A target that did not trust us is not tried again for so long (`design.md` §2).
pub const REFUSED: Duration = Duration::from_secs(60);

/// Where guests have a weight: the others' of the node are 100. `None`: they have none.
fn weigh(records: &[Record], weight: Option<u64>) {
    let all = weight
        .into_iter()
        .flat_map(|w| records.iter().map(move |r| (r, w)));
    all.for_each(|(record, w)| hosts::weigh(record, w));
}

impl Node {
    /// Says what is not allowed to be where it is that it must go.
    pub fn enforce(&self) {
        let mut core = self.lock();
        if core.leaving {
            return;
        }
        let core = &mut *core;
        core.draining.retain(|_, until| Instant::now() < *until);
        core.refused.retain(|_, (until, _)| Instant::now() < *until);
        let (away, guests) = (away(core), core.hosts.guests().count());
        core.switches.settle(&away, guests);
        self.close(core);
        for pid in self.astray(core) {
            self.recall(core, pid, Stay::NotTrusted.code());
        }
        for pid in away {
            if let Some(what) = core.switches.brings(pid) {
                self.recall(core, pid, what);
            }
        }
        let weight = self.settings().guest_weight();
        let mut leave = Vec::new();
        for (home, uid) in core.hosts.owners() {
            let Some((stay, why, whom, patience)) = self.unwelcome(core, &home, uid) else {
                let opened = core.hosts.welcome(&home, uid);
                weigh(&opened, weight);
                continue;
            };
            let order = Order::Expel {
                why,
                stay,
                for_ms: SHUT.as_millis() as u64,
            };
            let whose = (&home, uid);
            let (told, lost) = core.hosts.expel(whose, whom, &order, AGAIN, patience);
            leave.extend(told);
            lost.iter().for_each(hosts::end);
        }
        let each = LEAVING_WEIGHT / leave.len().max(1) as u64;
        weigh(&leave, weight.map(|w| w.max(each)));
    }

    /// Why that user's guests must go, or none may come, and how long they may take before they are ended: who is only
    /// to make room may take for ever.
    fn unwelcome(
        &self,
        core: &Core,
        home: &NodeName,
        uid: u32,
    ) -> Option<(Stay, String, Whom, Duration)> {
        let me = &self.farm.node;
        if core.draining.contains_key(home) {
            let why = format!("{home} is being removed from the farm");
            return Some((Stay::NotTrusted, why, Whom::All, PATIENCE));
        }
        if !self.trust().accepts_from(home).has(uid) {
            let why = format!("accept_from of {me} leaves out user {uid} of {home}");
            return Some((Stay::NotTrusted, why, Whom::All, PATIENCE));
        }
        let what = core.switches.keeps_out()?;
        let whom = match core.switches.sends_away() {
            Some(_) => Whom::All,
            None => Whom::Idle,
        };
        Some((Stay::SwitchedOff, shut(me, what), whom, Duration::MAX))
    }

    /// Ours where they may not be.
    fn astray(&self, core: &Core) -> Vec<Pid> {
        let trust = self.trust();
        let strays = core.keepers.procs().filter(|p| {
            p.place != core.me
                && (core.draining.contains_key(&p.place) || !trust.sends_to(&p.place).has(p.uid))
        });
        strays.map(|p| p.pid).collect()
    }

    fn recall(&self, core: &mut Core, pid: Pid, cause: &str) {
        let asked = core.recalled.get(&pid);
        if asked.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        core.recalled.retain(|_, at| at.elapsed() < AGAIN);
        core.recalled.insert(pid, Instant::now());
        let Some(tree) = core.keepers.holder(pid).map(|k| k.hello.tree) else {
            return;
        };
        let ticket = core.next();
        let order = Order::Move {
            pid,
            to: Dest::Home,
            ticket,
            balances: false,
            by_hand: false,
        };
        if core.keepers.order(tree, pid, ticket, order, None) {
            tracing::info!("{pid} comes home: {cause}");
            let (now, me) = (self.now(), core.me.clone());
            core.ledger.flies_to(pid, &me, now);
            core.keepers
                .note(pid, &me, &me, Decided::ordered(cause, ticket));
        }
    }

    /// Tells keepers where nothing of theirs goes, when that has changed.
    fn close(&self, core: &mut Core) {
        let trust = self.trust();
        let Core {
            keepers,
            members,
            draining,
            ..
        } = core;
        keepers.close(|uid| {
            let shut = |n: &&NodeName| draining.contains_key(*n) || !trust.sends_to(n).has(uid);
            members.keys().filter(shut).cloned().collect()
        });
    }

    /// `name` is to be removed: everybody goes where they belong, and nobody goes there.
    pub fn drain(&self, name: &NodeName) {
        self.lock()
            .draining
            .insert(name.clone(), Instant::now() + PATIENCE);
        self.enforce();
    }

    pub fn trust(&self) -> Arc<Trust> {
        let trust = self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        trust.clone()
    }

    /// Reads the configuration again. After `Err` what held before holds.
    pub fn reload(&self) -> Result<TrustInfo, FarmError> {
        let fresh = match &self.config.file {
            Some(file) => Config::load(Some(file))?,
            None => self.config.clone(),
        };
        let changes = Changes::read(&self.state)?;
        let trust = Trust::new(&fresh, &changes).map_err(|why| FarmError::Config {
            path: fresh
                .file
                .as_ref()
                .map_or("trust".into(), |f| f.display().to_string()),
            why,
        })?;
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = fresh.clone();
        self.lock().switches.follow(&fresh);
        self.holds(trust);
        Ok(self.trust_info(&fresh, &changes))
    }

    /// `armento farm trust`.
    pub fn change_trust(&self, change: Option<&TrustChange>) -> Result<TrustInfo, Refusal> {
        let failed =
            |e: FarmError| refusal("failed", format!("{e}; nothing was changed"), e.hint());
        let given = self.settings();
        let mut changes = Changes::read(&self.state).map_err(failed)?;
        let Some(change) = change else {
            return Ok(self.trust_info(&given, &changes));
        };
        if change.reset {
            changes = Changes::default();
        }
        let bad = |why: String| {
            let hint = "a rule is NODE, USER@NODE, USER@* or one of them behind a !";
            refusal("bad-rule", format!("{why}; nothing was changed"), hint)
        };
        let rules = |texts: &Option<Vec<String>>| {
            let rules = texts.clone().map(Rules::try_from).transpose();
            rules.map_err(bad)
        };
        changes.send_to = rules(&change.send_to)?.or(changes.send_to);
        changes.accept_from = rules(&change.accept_from)?.or(changes.accept_from);
        changes.allow_root = change.allow_root.or(changes.allow_root);
        let trust = Trust::new(&given, &changes).map_err(bad)?;
        if !change.dry_run {
            changes.write(&self.state).map_err(failed)?;
            self.holds(trust);
        }
        Ok(self.trust_info(&given, &changes))
    }

    fn holds(&self, trust: Trust) {
        *self.trust.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(trust);
        // Who refused us before may be asked again: people change both sides at once.
        self.lock().refused.clear();
        self.enforce();
    }

    fn trust_info(&self, given: &Config, changes: &Changes) -> TrustInfo {
        let texts = |changed: &Option<Rules>, given: &Option<Rules>| {
            let rules = changed.clone().or_else(|| given.clone());
            rules.map(Vec::from)
        };
        let changed = [
            ("send_to", changes.send_to.is_some()),
            ("accept_from", changes.accept_from.is_some()),
            ("allow_root", changes.allow_root.is_some()),
        ];
        let core = self.lock();
        TrustInfo {
            node: self.farm.node.clone(),
            send_to: texts(&changes.send_to, &given.send_to),
            accept_from: texts(&changes.accept_from, &given.accept_from),
            allow_root: changes.allow_root.unwrap_or(given.allow_root),
            changed: changed
                .iter()
                .filter(|(_, yes)| *yes)
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            homeward: self.astray(&core).len() as u64,
            expelled: core.hosts.expelled_guests(),
        }
    }
}
