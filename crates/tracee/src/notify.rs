//! The listener of a seccomp filter. KERNEL: seccomp_unotify(2).

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// `struct seccomp_notif` with its `seccomp_data` unrolled: 80 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Notice {
    pub id: u64,
    /// The thread, in the pid namespace of the listener's owner.
    pub tid: u32,
    pub flags: u32,
    pub nr: i32,
    pub arch: u32,
    pub ip: u64,
    pub args: [u64; 6],
}

#[repr(C)]
struct Reply {
    id: u64,
    val: i64,
    error: i32,
    flags: u32,
}

const RECV: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const SET_FLAGS: u64 = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;
const CONTINUE: u32 = 1;
/// SECCOMP_SET_MODE_FILTER with NEW_LISTENER | WAIT_KILLABLE_RECV.
pub const SET_MODE_FILTER: u64 = 1;
pub const FILTER_FLAGS: u64 = 1 << 3 | 1 << 5;

pub struct Listener(OwnedFd);

impl Listener {
    pub fn new(fd: OwnedFd) -> Listener {
        // KERNEL 6.6: wake the supervisor on the same core. Older kernels refuse; only speed is lost.
        let _ = sys::ioctl_val(fd.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP);
        Listener(fd)
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Waits for the next call. `Ok(None)`: that thread died in the meantime; call again.
    pub fn receive(&self) -> io::Result<Option<Notice>> {
        let mut n = Notice::default();
        match sys::ioctl(self.raw(), RECV, &mut n) {
            Ok(_) => Ok(Some(n)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Ends the call with `ret` (negative errno included). False: the thread died in the meantime.
    pub fn reply(&self, id: u64, ret: i64) -> bool {
        let (val, error) = if (-4095..0).contains(&ret) {
            (0, ret as i32)
        } else {
            (ret, 0)
        };
        sys::ioctl(
            self.raw(),
            SEND,
            &mut Reply {
                id,
                val,
                error,
                flags: 0,
            },
        )
        .is_ok()
    }

    /// Lets the kernel run the call in the thread itself.
    pub fn let_through(&self, id: u64) -> bool {
        sys::ioctl(
            self.raw(),
            SEND,
            &mut Reply {
                id,
                val: 0,
                error: 0,
                flags: CONTINUE,
            },
        )
        .is_ok()
    }
}
