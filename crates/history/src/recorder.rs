//! The daemon's end of the history: takes what keepers report, and has one thread write it.
//!
//! Lock: `Shared::inner` is held for lookups only, never while the file is read or written.

use crate::day;
use crate::error::HistoryError;
use crate::jobs::{Began, Jobs};
use crate::query::read;
use crate::store::Store;
use armento_client::api::{HistoryInfo, HistoryQuery, JobUse};
use armento_model::{NodeName, TreeId};
use jiff::tz::TimeZone;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two writes. A daemon that is killed loses the day of what came since, not the amounts.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// Jobs of one transaction.
const BATCH_MAX: usize = 1024;
/// A question waits so long for what is new to be written, and is answered without it then.
const FRESH_MAX: Duration = Duration::from_secs(2);
/// Keepers that were there before the daemon have said hello by then.
const REJOINED: Duration = Duration::from_secs(600);
const PRUNE_EVERY: Duration = Duration::from_secs(3600);
const DAY_MS: u64 = 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// False: nothing is recorded, and the file is not touched.
    pub enabled: bool,
    /// Days that are kept.
    pub days: u32,
    /// Size of the file at most, MiB.
    pub megabytes: u32,
}

impl Settings {
    fn bytes_max(self) -> u64 {
        u64::from(self.megabytes) << 20
    }
}

struct Inner {
    jobs: Jobs,
    /// Writes that were asked for, and that have been tried.
    asked: u64,
    done: u64,
    /// A reader found the file damaged.
    suspect: bool,
    stop: bool,
    /// Why nothing is written at present; empty: it is.
    trouble: String,
    /// What became of a damaged file.
    notice: String,
}

struct Shared {
    path: PathBuf,
    home: NodeName,
    settings: Settings,
    inner: Mutex<Inner>,
    change: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Recorder {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Recorder {
    /// Records jobs of `home` in the file `path`, which is opened when there is something to write.
    pub fn start(path: PathBuf, home: NodeName, settings: Settings) -> Recorder {
        let inner = Inner {
            jobs: Jobs::default(),
            asked: 0,
            done: 0,
            suspect: false,
            stop: false,
            trouble: String::new(),
            notice: String::new(),
        };
        let shared = Arc::new(Shared {
            path,
            home,
            settings,
            inner: Mutex::new(inner),
            change: Condvar::new(),
        });
        let writes = shared.clone();
        let thread = settings.enabled.then(|| {
            let named = thread::Builder::new().name("history".into());
            named.spawn(move || Writer::new(&writes).run())
        });
        let thread = match thread {
            Some(Err(e)) => {
                tracing::error!("no history is recorded: {e}");
                None
            }
            Some(Ok(thread)) => Some(thread),
            None => None,
        };
        Recorder {
            shared,
            thread: Mutex::new(thread),
        }
    }

    pub fn began(&self, began: &Began) {
        if self.shared.settings.enabled {
            self.shared.lock().jobs.began(began, now_ms());
        }
    }

    pub fn used(&self, tree: TreeId, used: JobUse) {
        if self.shared.settings.enabled {
            self.shared.lock().jobs.used(tree, used);
        }
    }

    pub fn ended(&self, tree: TreeId) {
        if self.shared.settings.enabled {
            self.shared.lock().jobs.ended(tree, now_ms());
        }
    }

    /// Has what is new written, then reads. `uid`: only that user's. Waits for the disk: for a thread that may.
    pub fn info(
        &self,
        query: &HistoryQuery,
        uid: Option<u32>,
    ) -> Result<HistoryInfo, HistoryError> {
        let shared = &self.shared;
        let settings = shared.settings;
        let zone = TimeZone::system();
        let mut found = Ok((Vec::new(), false));
        if settings.enabled {
            self.write_now();
            found = read(&shared.path, query, uid, &zone);
            if found.as_ref().is_err_and(HistoryError::is_damaged) {
                shared.lock().suspect = true;
                self.write_now();
                found = read(&shared.path, query, uid, &zone);
            }
        }
        let bytes = std::fs::metadata(&shared.path).map_or(0, |m| m.len());
        let inner = shared.lock();
        let (rows, more) = match found {
            // A file that could not be begun cannot be read: what is told is why.
            Err(_) if !inner.trouble.is_empty() => (Vec::new(), false),
            found => found?,
        };
        let off = "the daemon's configuration says: history.enabled = false";
        let trouble = match (settings.enabled, inner.trouble.is_empty()) {
            (false, _) => off.to_owned(),
            (true, false) => inner.trouble.clone(),
            (true, true) => inner.notice.clone(),
        };
        Ok(HistoryInfo {
            rows,
            more,
            days: settings.days,
            bytes,
            bytes_max: settings.bytes_max(),
            lost: inner.jobs.lost,
            trouble,
            silent: Vec::new(),
        })
    }

    /// Waits, not for ever, until what has come so far is written or cannot be.
    fn write_now(&self) {
        let mut inner = self.shared.lock();
        inner.asked += 1;
        let mine = inner.asked;
        self.shared.change.notify_all();
        let waits = |i: &mut Inner| i.done < mine && !i.stop;
        let waited = self
            .shared
            .change
            .wait_timeout_while(inner, FRESH_MAX, waits);
        drop(waited);
    }

    /// Writes what is there, and ends. Nothing is recorded afterwards.
    pub fn close(&self) {
        self.shared.lock().stop = true;
        self.shared.change.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn now_ms() -> u64 {
    let at = SystemTime::now().duration_since(UNIX_EPOCH);
    at.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}

/// The thread that has the file.
struct Writer<'a> {
    shared: &'a Shared,
    store: Option<Store>,
    began: Instant,
    began_ms: u64,
    /// Jobs of an earlier daemon that did not come back were ended.
    settled: bool,
    prune_at: Instant,
}

impl Writer<'_> {
    fn new(shared: &Shared) -> Writer<'_> {
        let now = Instant::now();
        Writer {
            shared,
            store: None,
            began: now,
            began_ms: now_ms(),
            settled: false,
            prune_at: now,
        }
    }

    fn run(mut self) {
        loop {
            let (asked, stop, suspect) = {
                let inner = self.shared.lock();
                let idle = |i: &mut Inner| i.asked == i.done && !i.stop;
                let (mut inner, _) = self
                    .shared
                    .change
                    .wait_timeout_while(inner, WRITE_EVERY, idle)
                    .unwrap_or_else(PoisonError::into_inner);
                (inner.asked, inner.stop, std::mem::take(&mut inner.suspect))
            };
            if suspect {
                self.store = None;
            }
            let wrote = self.write_safely(suspect);
            self.tell(wrote);
            {
                let mut inner = self.shared.lock();
                inner.done = asked;
            }
            self.shared.change.notify_all();
            if stop {
                return;
            }
        }
    }

    /// A damaged file is put aside once, and what is in memory goes to a new one.
    fn write_safely(&mut self, look: bool) -> Result<(), HistoryError> {
        let path = &self.shared.path;
        match self.write(look) {
            Err(e) if e.is_damaged() => {
                self.store = None;
                let kept = Store::put_aside(path)?;
                let notice = format!("{e}; it is kept as {}, a new one was begun", kept.display());
                tracing::error!("{notice}");
                let mut inner = self.shared.lock();
                inner.jobs.forget_rows();
                inner.notice = notice;
                drop(inner);
                self.write(true)
            }
            other => other,
        }
    }

    /// `look`: the file is opened even if there is nothing to write.
    fn write(&mut self, look: bool) -> Result<(), HistoryError> {
        let zone = TimeZone::system();
        loop {
            let jobs = self.shared.lock().jobs.unwritten(BATCH_MAX);
            if jobs.is_empty() && !look && self.store.is_none() {
                return Ok(());
            }
            let bytes_max = self.shared.settings.bytes_max();
            let store = match &mut self.store {
                Some(store) => store,
                none => none.insert(Store::open(&self.shared.path, bytes_max)?),
            };
            if jobs.is_empty() {
                break;
            }
            let today = day::of(now_ms(), &zone);
            let home = &self.shared.home;
            let rows = match store.write(home, today, &jobs) {
                Err(HistoryError::Full(_)) => {
                    store.make_room()?;
                    store.write(home, today, &jobs)
                }
                wrote => wrote,
            }?;
            let mut inner = self.shared.lock();
            for (row, (tree, job)) in rows.into_iter().zip(&jobs) {
                inner.jobs.written(*tree, row, job);
            }
        }
        self.tidy(&zone)
    }

    fn tidy(&mut self, zone: &TimeZone) -> Result<(), HistoryError> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let now = Instant::now();
        if !self.settled && now.duration_since(self.began) > REJOINED {
            let rows = self.shared.lock().jobs.rows();
            store.end_unseen(&rows, self.began_ms)?;
            self.settled = true;
        }
        if now >= self.prune_at {
            self.prune_at = now + PRUNE_EVERY;
            let oldest_ms = now_ms().saturating_sub(u64::from(self.shared.settings.days) * DAY_MS);
            store.prune(day::of(oldest_ms, zone), oldest_ms)?;
        }
        Ok(())
    }

    /// Trouble is logged once, and its end.
    fn tell(&self, wrote: Result<(), HistoryError>) {
        let mut inner = self.shared.lock();
        let trouble = wrote
            .err()
            .map_or_else(String::new, |e| format!("{e}; {}", e.hint()));
        match (inner.trouble.is_empty(), trouble.is_empty()) {
            (true, false) => tracing::warn!("{trouble}"),
            (false, true) => tracing::info!("the history is written again"),
            _ => {}
        }
        inner.trouble = trouble;
    }
}
