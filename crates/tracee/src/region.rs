//! The page shared with a deputy or body: our code, a batch of calls, and one slot for each thread.
//!
//! ```text
//! base      code          one page, executable
//! +4 KiB    batch         header 64 bytes, then entries of 64
//! +64 KiB   scratch       small structs for injected calls
//! +192 KiB  scratch_areas        a batch and its structs for each of many threads at once, 1 KiB each
//! +1 MiB    slot 0        header page, then DATA bytes of data, then the next slot
//! ```
//! A slot is idle (`go` = 0, the deputy waits on it) or has a request (`go` = 1). The deputy sets `done` = 1 when the
//! result is complete, and then wakes the waiting thread if `watched` is not 0. The offsets are those of the assembly
//! in `sys.rs`.

use crate::call::Call;
use crate::sys::{self, SharedMap};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Address of the region in deputies and bodies. Linux places nothing here by itself: mmap grows down from the stack at
/// 0x7f…, position-independent programs start at 0x55…, ASan and TSan live elsewhere.
pub const BASE: u64 = 0x6a00_0000_0000;
/// Addresses reserved for our regions, whatever their size.
pub const ROOM: u64 = 1 << 40;
/// KERNEL: TASK_SIZE_MAX with four levels of page tables.
pub const USER_END: u64 = (1 << 47) - 4096;

/// Whether these `len` bytes may belong to the program: user addresses outside our region.
pub fn apart(at: u64, len: u64) -> bool {
    match at.checked_add(len) {
        Some(end) => end <= USER_END && (end <= BASE || at >= BASE + ROOM),
        None => false,
    }
}

const BATCH: u64 = 0x1000;
const SCRATCH: u64 = 0x1_0000;
const SCRATCH_LEN: u64 = 0x2_0000;
/// Offset in the scratch memory of the action of SIGTRAP, which one thread at a time sets. The bytes after it are
/// unused up to 0x10000.
const TRAP_ACTION: u64 = 0xf000;
const SLOTS: u64 = 0x10_0000;
/// How many threads can make injected calls at once.
pub const SCRATCH_AREAS: usize = 256;
const BOOTH: u64 = SCRATCH + SCRATCH_LEN;
const BOOTH_LEN: u64 = 0x400;
/// Calls that fit into the scratch area of one thread, and the offset of its small structs.
pub const SCRATCH_CALLS: usize = 9;
const BOOTH_SCRATCH: u64 = 64 + SCRATCH_CALLS as u64 * 64;
const _: () = assert!(BOOTH + SCRATCH_AREAS as u64 * BOOTH_LEN <= SLOTS);
/// Bytes of data a slot can carry: the largest single transfer a deputy does.
pub const DATA: u64 = 8 << 20;
const STRIDE: u64 = DATA + 0x1000;

const GO: u64 = 0;
const DONE: u64 = 4;
const NR: u64 = 8;
const RET: u64 = 64;
const CHILD: u64 = 72;
const MASKED: u64 = 80;
const MASK: u64 = 96;
const IDLE: u64 = 104;
const WATCHED: u64 = 112;

/// Addresses of our code in the tracee, and of its batch.
#[derive(Clone)]
pub struct Code {
    pub start: u64,
    pub gate: u64,
    pub deputy: u64,
    pub idle: u64,
    pub call: u64,
    pub after: u64,
    pub batch: u64,
    pub batch_max: usize,
    scratch: u64,
    scratch_len: u64,
    map: Arc<SharedMap>,
}

impl Code {
    /// The same code with a small batch and scratch memory of its own, of which there are [`SCRATCH_AREAS`]: for one of many
    /// threads that make their calls in parallel.
    pub fn scratch_area(&self, n: usize) -> Code {
        let at = self.start + BOOTH + (n % SCRATCH_AREAS) as u64 * BOOTH_LEN;
        Code {
            batch: at,
            batch_max: SCRATCH_CALLS,
            scratch: at + BOOTH_SCRATCH,
            scratch_len: BOOTH_LEN - BOOTH_SCRATCH,
            ..self.clone()
        }
    }

    /// Offset in our own mapping of what the tracee has at `addr`.
    fn here(&self, addr: u64) -> usize {
        (addr - self.start) as usize
    }

    pub fn write_batch(&self, calls: &[Call]) {
        let batch = self.here(self.batch);
        self.map.set_u64(batch, calls.len() as u64);
        for (i, (nr, args)) in calls.iter().enumerate() {
            let at = batch + 64 + i * 64;
            self.map.set_u64(at, *nr as u64);
            for (k, a) in args.iter().enumerate() {
                self.map.set_u64(at + 8 + k * 8, *a);
            }
        }
    }

    pub fn read_batch(&self, n: usize) -> Vec<i64> {
        let batch = self.here(self.batch);
        (0..n)
            .map(|i| self.map.u64(batch + 64 + i * 64 + 56) as i64)
            .collect()
    }

    /// Writes small structs for injected calls; returns the address at which the tracee sees them.
    pub fn scratch(&self, off: u64, data: &[u8]) -> u64 {
        assert!(off + data.len() as u64 <= self.scratch_len);
        self.map.write(self.here(self.scratch_at(off)), data);
        self.scratch_at(off)
    }

    pub fn scratch_at(&self, off: u64) -> u64 {
        self.scratch + off
    }

    /// Address of the action of SIGTRAP, for the thread that sets it.
    pub fn trap_action(&self) -> u64 {
        self.start + SCRATCH + TRAP_ACTION
    }

    pub fn read_scratch(&self, off: u64, buf: &mut [u8]) {
        self.map.read(self.here(self.scratch_at(off)), buf);
    }
}

/// One shared region. Deputies forked from a deputy inherit it, so it is reference-counted.
pub struct Region {
    map: Arc<SharedMap>,
    pub file: File,
    slots: u32,
    /// Slots that the creating process maps; a process that needs more grows its mapping.
    first: u32,
    used: std::sync::Mutex<Vec<bool>>,
}

impl Region {
    /// Bytes of a region with `slots` slots.
    pub fn size(slots: u32) -> u64 {
        SLOTS + u64::from(slots) * STRIDE
    }

    /// `file` is an empty memfd. The tracee maps it itself at [`BASE`], at first `first` of its `slots`: what is mapped
    /// shows as its memory in /proc and counts in its limit.
    pub fn new(file: File, slots: u32, first: u32) -> io::Result<Region> {
        file.set_len(Region::size(slots))?;
        let map = Arc::new(SharedMap::new(&file, Region::size(slots) as usize)?);
        map.write(0, sys::blob().code);
        Ok(Region {
            map,
            file,
            slots,
            first: first.min(slots),
            used: std::sync::Mutex::new(vec![false; slots as usize]),
        })
    }

    pub fn len(&self) -> u64 {
        Region::size(self.slots)
    }

    /// Bytes that the creating process maps.
    pub fn first_len(&self) -> u64 {
        Region::size(self.first)
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn code(&self) -> Code {
        let b = sys::blob();
        Code {
            start: BASE,
            gate: BASE + b.gate,
            deputy: BASE + b.deputy,
            idle: BASE + b.idle,
            call: BASE + b.call,
            after: BASE + b.after,
            batch: BASE + BATCH,
            batch_max: ((SCRATCH - BATCH) / 64 - 1) as usize,
            scratch: BASE + SCRATCH,
            scratch_len: SCRATCH_LEN,
            map: self.map.clone(),
        }
    }

    /// A free slot, emptied; `None` when all are taken.
    pub fn slot(self: &Arc<Self>) -> Option<Slot> {
        let mut used = self.used.lock().unwrap_or_else(|e| e.into_inner());
        let i = used.iter().position(|u| !u)?;
        used[i] = true;
        let s = Slot {
            region: self.clone(),
            off: SLOTS + i as u64 * STRIDE,
            index: i,
        };
        self.map.write(s.off as usize, &[0u8; 256]);
        s.watch(true);
        Some(s)
    }
}

/// The slot of one deputy thread. Freed when dropped.
pub struct Slot {
    region: Arc<Region>,
    off: u64,
    index: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.region.used.lock().unwrap_or_else(|e| e.into_inner())[self.index] = false;
    }
}

impl Slot {
    /// Address in the deputy: r15 of its loop.
    pub fn addr(&self) -> u64 {
        BASE + self.off
    }

    /// Bytes of the region up to its end.
    pub fn end(&self) -> u64 {
        self.off + STRIDE
    }

    /// Address of its data area in the deputy.
    pub fn data_addr(&self) -> u64 {
        self.addr() + 0x1000
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        self.region.map.atomic((self.off + at) as usize)
    }

    fn set(&self, at: u64, v: u64) {
        self.region.map.set_u64((self.off + at) as usize, v);
    }

    pub fn write_data(&self, off: u64, data: &[u8]) {
        assert!(off + data.len() as u64 <= DATA);
        self.region
            .map
            .write((self.off + 0x1000 + off) as usize, data);
    }

    pub fn read_data(&self, off: u64, buf: &mut [u8]) {
        assert!(off + buf.len() as u64 <= DATA);
        self.region
            .map
            .read((self.off + 0x1000 + off) as usize, buf);
    }

    /// Signals that the deputy blocks between calls. Takes effect at the end of the next call that has its own mask; a
    /// `child` starts with it.
    pub fn set_idle(&self, mask: u64) {
        self.set(IDLE, mask);
    }

    pub fn idle(&self) -> u64 {
        self.region.map.u64((self.off + IDLE) as usize)
    }

    /// Posts a call; [`Slot::wake`] follows. `mask`: signals the deputy blocks during it, if different from before.
    /// `child`: the slot of a thread or process that the call creates. Before: the slot is idle and its last result was
    /// taken.
    pub fn post(&self, nr: i64, args: [u64; 6], mask: Option<u64>, child: Option<&Slot>) {
        if let Some(child) = child {
            child.set_idle(self.idle());
        }
        self.set(NR, nr as u64);
        for (i, a) in args.iter().enumerate() {
            self.set(NR + 8 + 8 * i as u64, *a);
        }
        self.set(CHILD, child.map_or(0, Slot::addr));
        self.set(MASKED, u64::from(mask.is_some()));
        self.set(MASK, mask.unwrap_or(0));
        self.word(GO).store(1, Ordering::Release);
    }

    /// Wakes the deputy, which looks for a posted call. Called by the poster while it holds no lock that the result
    /// needs: the woken threads may preempt it here.
    pub fn wake(&self) {
        sys::futex_wake(self.word(GO));
    }

    /// Withdraws a posted call that the deputy has not seen yet.
    pub fn retract(&self) -> bool {
        self.word(GO)
            .compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Sets whether the deputy wakes a waiter when a result is complete. Only a thread that posts a call and polls for
    /// its result sets false before that, and true afterwards.
    pub fn watch(&self, yes: bool) {
        // Either the deputy sees this after it stored its result, or a reader that looks after this sees the result.
        self.word(WATCHED).swap(yes.into(), Ordering::SeqCst);
    }

    /// The result, if it is complete, without taking it.
    pub fn result(&self) -> Option<i64> {
        let stands = self.word(DONE).load(Ordering::SeqCst) == 1;
        stands.then(|| self.region.map.u64((self.off + RET) as usize) as i64)
    }

    /// Takes a complete result. `None`: another thread took it first.
    pub fn take(&self) -> Option<i64> {
        let done = self.word(DONE);
        done.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire)
            .ok()
            .map(|_| self.region.map.u64((self.off + RET) as usize) as i64)
    }

    /// Wakes the thread that waits in [`Slot::take_result`].
    pub fn wake_waiter(&self) {
        sys::futex_wake(self.word(DONE));
    }

    /// Waits for a result and takes it. One thread at a time waits on a slot.
    pub fn take_result(&self) -> i64 {
        loop {
            match self.take() {
                Some(ret) => return ret,
                None => sys::futex_wait(self.word(DONE), 0, 0),
            }
        }
    }

    /// Completes the posted call from our side with `ret`, for a deputy that will never run it.
    pub fn fail(&self, ret: i64) {
        self.set(RET, ret as u64);
        self.word(DONE).store(1, Ordering::Release);
        self.wake_waiter();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_where_nothing_is_mapped_is_reserved() {
        assert_eq!(armento_abi::HOLE, BASE + ROOM - 4096);
    }

    #[test]
    fn region_and_kernel_addresses_are_not_the_programs() {
        let check = |at, len, want| assert_eq!(apart(at, len), want, "{at:#x} {len:#x}");
        check(0x1000, 0x1000, true);
        check(BASE - 0x1000, 0x1000, true);
        check(BASE - 0x1000, 0x1001, false);
        check(BASE + Region::size(4), 0x1000, false);
        check(BASE + ROOM, 0x1000, true);
        check(USER_END - 0x1000, 0x1000, true);
        check(USER_END, 0x1000, false);
        check(0xffff_8000_0000_0000, 0x1000, false);
        check(u64::MAX - 0xfff, 0x2000, false);
    }
}
