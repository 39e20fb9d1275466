//! What home did for a body since its last checkpoint: each call with its result, thread by thread.
//!
//! ```text
//! checkpoint ──► A: open 3 · read 100 · write 100        B: stat 0 · read 5
//!                          ▲ next of A                          ▲ next of B
//! ```
//! A body that is built again from the checkpoint makes the same calls again. Each is compared with the record: it gets the
//! recorded result and is not made a second time. Behind the last recorded call of its thread a call is made as ever, and
//! recorded in its turn. A call that is another than the recorded one shows that the program went another way than before;
//! nothing is guessed then.
//!
//! The record cannot hold everything: a signal comes to a program at a moment that no call marks. Such an event is a
//! *gap*: until the next checkpoint the body cannot be built again.
//!
//! From: `keeper/src/deputy/wait_loop.rs` notes results, `keeper/src/calls/dispatch.rs` asks for them.
//! Next: `keeper/src/safe/mod.rs`.

use crate::sync::lock;
use armento_abi::{Packed, deadline, row, set_timeout};
use armento_model::Tid;
use armento_tracee::sys::SigInfo;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of results that are kept for one process. Behind half of them a checkpoint is due.
pub const BYTES_MAX: usize = 64 << 20;
/// What one entry takes beside its results.
const ENTRY: usize = 64;
/// A replay takes as long as what it repeats, on a node that is as fast and as free: this many times as long, and this
/// much longer, means that it does not end.
const SLOWER: u32 = 20;
const REPLAY_EXTRA: Duration = Duration::from_secs(60);
/// Signals that are kept to come again.
const SIGNALS_MAX: usize = 1024;

/// Calls that change nothing outside the program: they ask, they wait, or they map a file.
const ONLY_ASK: [i64; 41] = [
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_getpgrp,
    libc::SYS_getsid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_mmap,
];

/// Whether a call changes nothing outside the program.
pub fn only_asks(nr: u16) -> bool {
    ONLY_ASK.contains(&i64::from(nr))
}

/// A call as its thread makes it: what it is, and every byte that it passes. 128 bits of XXH3, which does not stand against
/// an adversary; a collision would harm the program that seeks it and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId(u128);

impl CallId {
    /// How long it may wait does not count: programs reckon that by clocks, and it changes nothing but when they wake up.
    pub fn of(c: &Packed) -> CallId {
        if waits_until(c) || deadline(c).is_some() {
            let mut c = c.clone();
            match waits_until(&c) {
                true => c.data.clear(),
                false => set_timeout(&mut c, 0),
            }
            return CallId::of_bytes(&c);
        }
        CallId::of_bytes(c)
    }

    fn of_bytes(c: &Packed) -> CallId {
        let mut h = Xxh3::new();
        h.update(&c.nr.to_le_bytes());
        h.update(&[c.arg_ptrs]);
        // The registers behind the call's own arguments hold whatever the program left in them.
        let own = row(c.nr.into()).map_or(c.args.len(), |r| r.args.len());
        let own = c.args.iter().take(own);
        own.for_each(|a| h.update(&a.to_le_bytes()));
        c.relocs.iter().for_each(|r| h.update(&r.to_le_bytes()));
        for o in &c.outs {
            h.update(format!("{o:?}").as_bytes());
        }
        h.update(&c.data);
        CallId(h.digest128())
    }

    /// Of a file mapping: it is no call to a deputy as the others are.
    pub fn of_mapping(args: &[u64; 6]) -> CallId {
        CallId::of(&Packed {
            nr: libc::SYS_mmap as u16,
            data: args.iter().flat_map(|a| a.to_le_bytes()).collect(),
            ..Packed::default()
        })
    }
}

/// A sleep until a time of a clock: it passes nothing else.
fn waits_until(c: &Packed) -> bool {
    let until = libc::TIMER_ABSTIME as u64;
    i64::from(c.nr) == libc::SYS_clock_nanosleep && c.args[1] & until != 0
}

/// What a call returned, and the bytes that it wrote into the program's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub ret: i64,
    pub outs: Vec<u8>,
    /// It was interrupted when it had done a part, `ret` bytes: the body makes it again for the rest.
    pub part: bool,
    /// How long it took, and when it was begun and done.
    pub took: Duration,
    pub begun: Option<Instant>,
    pub done: Option<Instant>,
    /// What home's kernel wrote into the program's memory beside: an address, and bytes.
    pub poke: Option<(u64, Vec<u8>)>,
}

struct Entry {
    call: CallId,
    nr: u16,
    answer: Answer,
}

/// What becomes of a call that comes.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// It is made.
    Live,
    /// It was made before, and returned this.
    Recorded(Answer),
    /// It is another than the one before: the recorded call's number.
    Other(u16),
}

#[derive(Default)]
pub struct Record {
    st: Mutex<State>,
    /// Of processes that share memory with this one, while all of them make their calls again.
    peers: Mutex<Vec<Weak<Record>>>,
    /// `--safe=exact`: a call that changes anything is made only when a checkpoint covers it, and no other than such a call
    /// was made since.
    pub exact: bool,
}

#[derive(Default)]
struct State {
    /// Since when there is a checkpoint that it begins with.
    since: Option<Instant>,
    /// When the last call was noted.
    last: Option<Instant>,
    /// When a body last began to make its calls again.
    rewound: Option<Instant>,
    threads: HashMap<Tid, Thread>,
    calls: u64,
    bytes: usize,
    /// What it does not hold.
    gap: Option<String>,
    /// Calls that the checkpoint covers: each thread of these stood before its call.
    covered: HashMap<Tid, CallId>,
    /// Calls that a stop has ended before they were made: their threads stand before them.
    unmade: HashMap<Tid, CallId>,
    /// What a thread has mapped last.
    mapped: Option<(Tid, [u64; 6])>,
    /// Signals that came since; see [`Record::note_signal`].
    signals: Vec<(Option<Tid>, SigInfo)>,
}

#[derive(Default)]
struct Thread {
    entries: Vec<Entry>,
    /// The next one that is compared; behind the last: calls are made.
    next: usize,
}

/// How much a record holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub calls: u64,
    pub bytes: usize,
}

impl Record {
    pub fn new(exact: bool) -> Record {
        Record {
            st: Mutex::default(),
            peers: Mutex::default(),
            exact,
        }
    }

    /// A checkpoint is complete: everything before it is forgotten. `covered`: calls before which their threads stood.
    pub fn begin(&self, mut covered: HashMap<Tid, CallId>) {
        let mut st = lock(&self.st);
        covered.extend(st.unmade.drain());
        *st = State {
            since: Some(Instant::now()),
            covered,
            ..State::default()
        };
    }

    /// Whether the checkpoint covers this call, which is made now.
    pub fn covers(&self, tid: Tid, call: CallId) -> bool {
        let mut st = lock(&self.st);
        // It stood before this call: none came since.
        let first = st.threads.get(&tid).is_none_or(|t| t.entries.is_empty());
        let covered = first && st.covered.get(&tid) == Some(&call);
        if covered {
            st.covered.remove(&tid);
        }
        covered
    }

    /// A signal came to the body. No call marks when; but where nothing was done since the checkpoint it may as well come
    /// after the body was built again.
    pub fn note_signal(&self, to: Option<Tid>, info: &SigInfo) {
        let mut st = lock(&self.st);
        if st.since.is_none() || st.gap.is_some() {
            return;
        }
        match self.exact && st.signals.len() < SIGNALS_MAX {
            true => st.signals.push((to, *info)),
            false => st.leave_gap(format!("signal {} came to it", i32::from(info[0]))),
        }
    }

    /// There is no checkpoint any more that it could begin with.
    pub fn end(&self) {
        *lock(&self.st) = State::default();
    }

    /// A call of a thread was made.
    pub fn note(&self, tid: Tid, call: CallId, nr: u16, answer: Answer) {
        let mut st = lock(&self.st);
        st.unmade.remove(&tid);
        if st.since.is_none() || st.gap.is_some() {
            return;
        }
        st.calls += 1;
        let now = Instant::now();
        st.last = Some(now);
        let poked = answer.poke.as_ref().map_or(0, |(_, bytes)| bytes.len());
        st.bytes += ENTRY + answer.outs.len() + poked;
        if st.bytes > BYTES_MAX {
            let most = BYTES_MAX >> 20;
            st.leave_gap(format!("its calls returned more than {most} MiB"));
            return;
        }
        let thread = st.threads.entry(tid).or_default();
        // A result may come late, when others are compared already.
        let at_end = thread.next == thread.entries.len();
        let done = answer.begun.map(|_| now);
        let answer = Answer { done, ..answer };
        thread.entries.push(Entry { call, nr, answer });
        thread.next += usize::from(at_end);
    }

    /// A file was mapped. Where home has room its node may have none, and chooses a place of its own: another node may choose
    /// another one.
    pub fn note_mapped(&self, tid: Tid, args: &[u64; 6]) {
        let mut st = lock(&self.st);
        let before = st.mapped.replace((tid, *args));
        let fixed = libc::MAP_FIXED as u64;
        let again = |before: &[u64; 6]| {
            let same = before[1..3] == args[1..3] && before[4..] == args[4..];
            same && before[3] & fixed == 0 && args[3] == before[3] | fixed
        };
        if before.is_some_and(|(t, before)| t == tid && again(&before))
            && st.since.is_some()
            && st.gap.is_none()
        {
            st.leave_gap("its node mapped a file at an address of its own".into());
        }
    }

    /// A stop has ended a call before it was made: its thread makes it again.
    pub fn note_unmade(&self, tid: Tid, call: CallId) {
        lock(&self.st).unmade.insert(tid, call);
    }

    /// Something happened to the body that no call marks.
    pub fn leave_gap(&self, what: impl FnOnce() -> String) {
        let mut st = lock(&self.st);
        if st.since.is_some() && st.gap.is_none() {
            st.leave_gap(what());
        }
    }

    /// Whether a body can be built again from the checkpoint before it; else why not.
    pub fn intact(&self) -> Result<(), String> {
        let st = lock(&self.st);
        match (&st.gap, st.since) {
            (Some(gap), _) => Err(gap.clone()),
            (None, None) => Err("it has no checkpoint yet".into()),
            (None, Some(_)) => Ok(()),
        }
    }

    /// When the checkpoint was made that it begins with.
    pub fn since(&self) -> Option<Instant> {
        lock(&self.st).since
    }

    pub fn size(&self) -> Size {
        let st = lock(&self.st);
        Size {
            calls: st.calls,
            bytes: st.bytes,
        }
    }

    /// The body is built again: its calls are compared from the first on. Returns the signals that are to come again.
    pub fn rewind(&self) -> Vec<(Option<Tid>, SigInfo)> {
        self.start_over();
        std::mem::take(&mut lock(&self.st).signals)
    }

    /// Its calls are compared from the first on.
    pub fn start_over(&self) {
        let mut st = lock(&self.st);
        st.rewound = Some(Instant::now());
        st.threads.values_mut().for_each(|t| t.next = 0);
    }

    /// A call comes.
    pub fn next(&self, tid: Tid, call: CallId) -> Next {
        let mut st = lock(&self.st);
        let Some(thread) = st.threads.get_mut(&tid) else {
            return Next::Live;
        };
        let Some(entry) = thread.entries.get(thread.next) else {
            return Next::Live;
        };
        if entry.call != call {
            let nr = entry.nr;
            let left = &thread.entries[thread.next..];
            if self.exact && left.iter().all(|e| only_asks(e.nr)) {
                // Nothing outside the program depends on what it had asked.
                thread.entries.truncate(thread.next);
                return Next::Live;
            }
            return Next::Other(nr);
        }
        thread.next += 1;
        Next::Recorded(entry.answer.clone())
    }

    /// The recorded call that the thread has not made again yet.
    pub fn expects(&self, tid: Tid) -> Option<u16> {
        let st = lock(&self.st);
        let thread = st.threads.get(&tid)?;
        thread.entries.get(thread.next).map(|e| e.nr)
    }

    /// These processes share memory with it: what one of them did is to be done again before another sees the result of a call
    /// that may have depended on it.
    pub fn has_peers(&self, peers: &[Arc<Record>]) {
        let others = peers.iter().filter(|p| !std::ptr::eq(&***p, self));
        *lock(&self.peers) = others.map(Arc::downgrade).collect();
    }

    /// They are not waited for any longer.
    pub fn forget_peers(&self) {
        lock(&self.peers).clear();
    }

    /// Whether a peer has still to make a call again that was begun before `until`; none: any call.
    pub fn peers_are_behind(&self, until: Option<Instant>) -> bool {
        let peers = lock(&self.peers).clone();
        peers
            .iter()
            .filter_map(Weak::upgrade)
            .any(|p| p.is_behind(until))
    }

    fn is_behind(&self, until: Option<Instant>) -> bool {
        let st = lock(&self.st);
        let before = |e: &Entry| match (until, e.answer.begun) {
            (Some(until), Some(begun)) => begun < until,
            _ => true,
        };
        let mut next = st.threads.values().filter_map(|t| t.entries.get(t.next));
        next.any(before)
    }

    /// Whether making the recorded calls again takes longer than any node is slower: it does not come to the next one. The
    /// answer, once: how long it has taken.
    pub fn replays_too_long(&self) -> Option<Duration> {
        let mut st = lock(&self.st);
        let before = st.last?.saturating_duration_since(st.since?);
        let now = st.rewound?.elapsed();
        let behind = st.threads.values().any(|t| t.next < t.entries.len());
        let late = behind && now > before.saturating_mul(SLOWER).saturating_add(REPLAY_EXTRA);
        if late {
            st.rewound = None;
        }
        late.then_some(now)
    }

    /// Whether some thread has not made all its recorded calls again.
    pub fn replays(&self) -> bool {
        let st = lock(&self.st);
        st.threads.values().any(|t| t.next < t.entries.len())
    }
}

impl State {
    /// No body can be built from it any more.
    fn leave_gap(&mut self, what: String) {
        self.gap = Some(what);
        // Calls that a thread has still to make again keep their answers.
        self.threads.retain(|_, t| t.next < t.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(nr: u16) -> CallId {
        CallId::of(&Packed {
            nr,
            ..Packed::default()
        })
    }

    fn answer(ret: i64, outs: &[u8]) -> Answer {
        Answer {
            ret,
            outs: outs.to_vec(),
            ..Answer::default()
        }
    }

    fn recorded(ret: i64) -> Next {
        Next::Recorded(answer(ret, b""))
    }

    fn with_calls() -> Record {
        let r = Record::default();
        r.begin(HashMap::new());
        r.note(1, id(0), 0, answer(10, &[]));
        r.note(2, id(5), 5, answer(20, &[]));
        r.note(1, id(1), 1, answer(11, &[]));
        r
    }

    #[test]
    fn a_file_that_a_node_maps_elsewhere_leaves_a_gap() {
        let fixed = libc::MAP_FIXED as u64;
        let r = Record::default();
        r.begin(HashMap::new());
        r.note_mapped(1, &[0, 8192, 5, 2, 3, 0]);
        r.note_mapped(1, &[0x7000, 4096, 5, 2 | fixed, 3, 4096]);
        assert!(r.intact().is_ok(), "the segment of a library");
        r.note_mapped(1, &[0, 4096, 5, 2, 3, 0]);
        r.note_mapped(1, &[0x7000, 4096, 5, 2 | fixed, 3, 0]);
        assert!(r.intact().is_err());
    }

    #[test]
    fn every_byte_of_a_call_counts() {
        let call = Packed {
            nr: 1,
            args: [3, 0, 5, 0, 0, 0],
            data: b"hello".to_vec(),
            arg_ptrs: 2,
            ..Packed::default()
        };
        let same = CallId::of(&call);
        assert_eq!(same, CallId::of(&call.clone()));
        let other = |change: fn(&mut Packed)| {
            let mut c = call.clone();
            change(&mut c);
            CallId::of(&c)
        };
        let changes: [fn(&mut Packed); 5] = [
            |c| c.nr = 2,
            |c| c.args[0] = 4,
            |c| c.data[4] = b'0',
            |c| c.arg_ptrs = 0,
            |c| c.relocs.push(0),
        ];
        for change in changes {
            assert_ne!(same, other(change));
        }
        // write(2) has three arguments.
        assert_eq!(same, other(|c| c.args[3] = 9));
        let wait = |ms| {
            CallId::of(&Packed {
                nr: libc::SYS_poll as u16,
                args: [0, 0, ms, 0, 0, 0],
                ..Packed::default()
            })
        };
        assert_eq!(wait(10), wait(20));
        let mapping = CallId::of_mapping(&call.args);
        assert_ne!(mapping, CallId::of_mapping(&[0; 6]));
    }

    #[test]
    fn calls_are_matched_thread_by_thread_and_then_made() {
        let r = with_calls();
        assert_eq!(r.next(1, id(7)), Next::Live);
        r.rewind();
        assert!(r.replays());
        assert_eq!(r.next(2, id(5)), recorded(20));
        assert_eq!(r.next(2, id(5)), Next::Live);
        assert_eq!(r.next(1, id(0)), recorded(10));
        assert_eq!(r.expects(1), Some(1));
        assert_eq!(r.next(1, id(1)), recorded(11));
        assert_eq!((r.expects(1), r.replays()), (None, false));
        // Of a thread that did not exist then.
        assert_eq!(r.next(3, id(0)), Next::Live);
    }

    #[test]
    fn a_replay_that_does_not_end_is_noticed() {
        let r = with_calls();
        assert_eq!(r.replays_too_long(), None);
        r.rewind();
        assert_eq!(r.replays_too_long(), None);
        let longer = REPLAY_EXTRA + Duration::from_secs(30);
        let earlier = Instant::now().checked_sub(longer);
        lock(&r.st).rewound = earlier;
        assert!(earlier.is_none() || r.replays_too_long() > Some(REPLAY_EXTRA));
        // All calls were made again.
        r.next(1, id(0));
        r.next(1, id(1));
        r.next(2, id(5));
        assert_eq!(r.replays_too_long(), None);
    }

    #[test]
    fn a_result_waits_for_what_peers_had_done_before() {
        let (one, other) = (Arc::new(Record::default()), Arc::new(Record::default()));
        let both = [one.clone(), other.clone()];
        both.iter().for_each(|r| r.begin(HashMap::new()));
        let timed = |ret| Answer {
            begun: Some(Instant::now()),
            ..answer(ret, b"")
        };
        let wrote = timed(1);
        one.note(1, id(0), 0, timed(2));
        other.note(5, id(1), 1, wrote);
        one.note(1, id(2), 2, timed(3));
        for r in &both {
            r.rewind();
            r.has_peers(&both);
        }
        let done = |n| match n {
            Next::Recorded(Answer { done, .. }) => done,
            next => panic!("{next:?}"),
        };
        // The other's write had begun before either of them was done.
        let first = done(one.next(1, id(0)));
        assert!(first.is_some() && one.peers_are_behind(first));
        assert!(!other.peers_are_behind(first.and_then(|d| d.checked_sub(Duration::from_secs(1)))));
        done(other.next(5, id(1)));
        assert!(!one.peers_are_behind(first));
        // What is made anew waits for everything.
        assert!(other.peers_are_behind(None) && !one.peers_are_behind(None));
        done(one.next(1, id(2)));
        assert!(!other.peers_are_behind(None));
    }

    #[test]
    fn another_call_than_before_is_detected() {
        let r = with_calls();
        r.rewind();
        assert_eq!(r.next(1, id(1)), Next::Other(0));
        assert_eq!(r.next(1, id(0)), recorded(10));
    }

    #[test]
    fn where_every_effect_is_covered_another_way_is_taken_live() {
        let r = Record::new(true);
        r.begin([(1, id(1))].into());
        r.note(1, id(4), 4, answer(0, &[]));
        let mut info: SigInfo = [0; 128];
        info[0] = 10;
        r.note_signal(None, &info);
        assert_eq!(r.intact(), Ok(()));
        assert_eq!(r.rewind().len(), 1);
        assert_eq!(r.next(1, id(5)), Next::Live);
        assert_eq!(r.next(1, id(4)), Next::Live);
        // A call that others have seen is not made a second time.
        r.note(1, id(1), 1, answer(0, b""));
        r.rewind();
        assert_eq!(r.next(1, id(4)), Next::Other(1));
        r.note_unmade(2, id(7));
        r.begin([(1, id(1))].into());
        assert!(r.covers(2, id(7)));
        assert!(!r.covers(1, id(2)) && !r.covers(2, id(1)));
        assert!(r.covers(1, id(1)) && !r.covers(1, id(1)));
    }

    #[test]
    fn a_second_loss_compares_everything_since_the_checkpoint() {
        let r = with_calls();
        r.rewind();
        assert_eq!(r.next(1, id(0)), recorded(10));
        assert_eq!(r.next(1, id(1)), recorded(11));
        r.note(1, id(2), 2, answer(12, b"x"));
        r.rewind();
        let rets: Vec<_> = [0, 1, 2].map(|nr| r.next(1, id(nr))).into();
        assert_eq!(rets[..2], [recorded(10), recorded(11)]);
        assert_eq!(rets[2], Next::Recorded(answer(12, b"x")));
    }

    #[test]
    fn a_gap_lasts_until_the_next_checkpoint() {
        let r = Record::default();
        r.leave_gap(|| "nothing to leave a gap in".into());
        assert!(r.intact().expect_err("none yet").contains("no checkpoint"));
        r.begin(HashMap::new());
        assert_eq!(r.intact(), Ok(()));
        r.leave_gap(|| "a signal".into());
        r.leave_gap(|| "another".into());
        assert_eq!(r.intact(), Err("a signal".into()));
        r.note(1, id(0), 0, answer(0, &[]));
        assert_eq!(r.size().calls, 0);
        r.begin(HashMap::new());
        assert_eq!(r.intact(), Ok(()));
        // A gap in the midst of a replay leaves other threads the answers of their calls.
        r.note(2, id(5), 5, answer(20, b""));
        r.rewind();
        r.leave_gap(|| "the end of a thread".into());
        assert_eq!(r.next(2, id(5)), recorded(20));
        r.end();
        assert!(r.intact().is_err());
    }

    #[test]
    fn a_record_is_bounded() {
        let r = Record::default();
        r.begin(HashMap::new());
        let much = vec![0; BYTES_MAX / 4];
        (0..4).for_each(|_| r.note(1, id(0), 0, answer(0, &much)));
        assert!(r.intact().expect_err("too much").contains("64 MiB"));
    }
}
