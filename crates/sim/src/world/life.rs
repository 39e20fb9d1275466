//! The life of a process: it starts, is moved, ends.

use super::state::World;
use super::things::{Chore, Event};
use crate::machine::TaskId;
use armento_balance::{Fresh, place};
use armento_model::{Pid, Stay};

impl World {
    pub(super) fn pid(task: TaskId) -> Pid {
        task as Pid + 100
    }

    pub(super) fn start(&mut self, task: TaskId) {
        let job = self.procs[task].job;
        if !self.daemons[job.home].up {
            // The home is down: the process cannot start.
            self.procs[task].ended_us = Some(self.now);
            self.procs[task].lost = true;
            self.living -= 1;
            self.out.lost += 1;
            return;
        }
        self.procs[task].born = true;
        self.comes_to(task, job.home);
        match self.prices.start_ns {
            0 => self.begin(task),
            work => {
                self.starting[job.home] += 1;
                self.chore(job.home, Chore::Start(task), work);
            }
        }
    }

    /// The process exists: its place is chosen.
    fn begin(&mut self, task: TaskId) {
        let job = self.procs[task].job;
        let starting = &mut self.starting[job.home];
        *starting = starting.saturating_sub(1);
        let begin = *starting;
        // Its keeper does not report it before.
        self.homes[job.home].insert(task);
        let now = self.tick(job.home);
        if job.placed {
            let fresh = Fresh {
                begin,
                ..Fresh::default()
            };
            let view = self.view(job.home);
            if let Some(to) = place(&view, &self.policy, &fresh) {
                self.daemons[job.home]
                    .ledger
                    .placing(World::pid(task), &to, &fresh, now);
                let to = self.index(&to);
                match self.admitted(job.home, task, to) {
                    Ok(()) if to != job.home => {
                        // It waits for its place at its exec.
                        self.fly(task, to);
                        return;
                    }
                    Ok(()) => {}
                    Err(stay) => {
                        self.out.refused += 1;
                        let ledger = &mut self.daemons[job.home].ledger;
                        ledger.stayed(World::pid(task), stay, now);
                    }
                }
            }
        } else {
            self.daemons[job.home].born = true;
        }
        self.enter(task);
    }

    pub(super) fn ended(&mut self, task: TaskId) {
        let home = self.procs[task].job.home;
        self.procs[task].running = None;
        self.procs[task].ended_us = Some(self.now);
        self.procs[task].flight = None;
        self.leaves(task);
        self.homes[home].remove(&task);
        self.living -= 1;
        self.out.last_end_us = self.now;
        if !self.daemons[home].up {
            return;
        }
        let now = self.tick(home);
        self.daemons[home].ledger.ended(World::pid(task), now);
        self.decide(home);
    }

    /// A crash ended it: the process, its place or its home is gone.
    pub(super) fn lost(&mut self, task: TaskId) {
        self.stop(task);
        self.out.lost += 1;
        self.procs[task].lost = true;
        self.ended(task);
    }

    pub(super) fn enter(&mut self, task: TaskId) {
        let (place, left) = (self.procs[task].place, self.procs[task].left_ns);
        let own = place == self.procs[task].job.home;
        let machine = &mut self.machines[place].0;
        let key = match own && self.prices.guests_yield {
            true => machine.enter_ahead(task, left, self.now),
            false => machine.enter(task, left, self.now),
        };
        self.procs[task].stands = false;
        self.procs[task].running = Some(key);
        self.changed(place);
    }

    pub(super) fn stop(&mut self, task: TaskId) {
        let place = self.procs[task].place;
        if let Some(key) = self.procs[task].running.take() {
            self.procs[task].left_ns = self.machines[place].0.leave(task, key, self.now);
            self.changed(place);
        }
    }

    fn comes_to(&mut self, task: TaskId, place: usize) {
        self.procs[task].place = place;
        self.procs[task].came_us = self.now;
        self.here[place].insert(task);
        self.used_kib[place] += self.procs[task].rss_kib;
        self.check_memory(place);
    }

    fn leaves(&mut self, task: TaskId) {
        let place = self.procs[task].place;
        if self.here[place].remove(&task) {
            self.used_kib[place] -= self.procs[task].rss_kib;
        }
    }

    pub(super) fn grown(&mut self, task: TaskId, kib: u64) {
        if self.procs[task].lives() {
            let place = self.procs[task].place;
            self.procs[task].rss_kib += kib;
            self.used_kib[place] += kib;
            self.check_memory(place);
            self.send_if_short(place);
        }
    }

    // --- moves ---

    pub(super) fn fly(&mut self, task: TaskId, to: usize) {
        self.check_flight(task, to);
        let proc = &mut self.procs[task];
        proc.flight = Some(to);
        proc.trip += 1;
        let (place, chore) = (proc.place, Chore::Leave(task, proc.trip));
        let first = !proc.known.contains(&to);
        self.end_of_flight(place, chore, first);
    }

    /// Whether this flight is still in progress.
    fn flies(&self, task: TaskId, trip: u32) -> Option<usize> {
        let proc = &self.procs[task];
        proc.flight
            .filter(|_| proc.trip == trip && proc.ended_us.is_none())
    }

    /// Work for a move is done.
    pub(super) fn did(&mut self, chore: Chore) {
        match chore {
            Chore::Start(task) if self.procs[task].lives() => self.begin(task),
            Chore::Leave(task, trip) if self.flies(task, trip).is_some() => {
                let proc = &self.procs[task];
                let us = proc.rss_kib * 1024 / self.prices.bandwidth;
                let at = self.sent(proc.place, us) + self.prices.hop_us;
                self.at(at, Event::Crossed(task, trip));
            }
            Chore::Arrive(task, trip) if self.flies(task, trip).is_some() => {
                self.stop(task);
                self.procs[task].stands = true;
                self.after(self.prices.pause_us, Event::Thaw(task, trip));
            }
            Chore::Start(..) | Chore::Leave(..) | Chore::Arrive(..) | Chore::Serve => {}
        }
    }

    /// The time at which sending for so many microseconds is finished.
    fn sent(&mut self, node: usize, us: u64) -> u64 {
        if !self.prices.one_wire {
            return self.now + us;
        }
        let free = &mut self.wires_us[node];
        *free = self.now.max(*free) + us;
        *free
    }

    pub(super) fn crossed(&mut self, task: TaskId, trip: u32) {
        let Some(to) = self.flies(task, trip) else {
            return;
        };
        if self.is_linked(self.procs[task].place, to) {
            let first = self.procs[task].known.insert(to);
            self.end_of_flight(to, Chore::Arrive(task, trip), first);
        } else {
            self.stays(task, Stay::LinkLost);
        }
    }

    /// Its flight failed; it goes on where it is.
    pub(super) fn stays(&mut self, task: TaskId, stay: Stay) {
        let proc = &mut self.procs[task];
        proc.flight = None;
        let (home, stands) = (proc.job.home, proc.running.is_none());
        proc.stands = false;
        let waits = proc.copying.waits;
        self.out.failed += 1;
        let now = self.tick(home);
        self.daemons[home]
            .ledger
            .stayed(World::pid(task), stay, now);
        if stands && !waits {
            self.enter(task);
        }
    }

    pub(super) fn thaw(&mut self, task: TaskId, trip: u32) {
        let Some(to) = self.flies(task, trip) else {
            return;
        };
        self.procs[task].flight = None;
        self.leaves(task);
        self.comes_to(task, to);
        let (home, name) = (self.procs[task].job.home, self.names[to].clone());
        let now = self.tick(home);
        self.daemons[home]
            .ledger
            .moved(World::pid(task), &name, now);
        self.daemons[home].moves += 1;
        self.out.moves += 1;
        self.procs[task].stands = false;
        if !self.procs[task].copying.waits {
            self.enter(task);
        }
    }
}
