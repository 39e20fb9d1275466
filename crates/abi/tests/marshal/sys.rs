//! The only file in which tests make system calls and access raw memory.

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use armento_abi::filter::SockFilter;

/// Makes a system call with the kernel's own convention: -errno on failure.
pub fn syscall(nr: u64, args: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: callers pass pointers into memory they own, or ones that fault in the kernel.
    let ret = unsafe { libc::syscall(nr as libc::c_long, a, b, c, d, e, f) };
    match ret {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        ret => ret,
    }
}

/// Puts the calling thread permanently under a filter; returns the listener.
pub fn filter_this_thread(program: &[SockFilter]) -> std::io::Result<OwnedFd> {
    #[repr(C)]
    struct Program(u16, *const SockFilter);
    let no_new_privs = [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0];
    syscall(libc::SYS_prctl as u64, no_new_privs);
    let program = Program(program.len() as u16, program.as_ptr());
    let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let at = &raw const program as u64;
    match syscall(libc::SYS_seccomp as u64, [mode, flags, at, 0, 0, 0]) {
        // SAFETY: the kernel just made this descriptor for us.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        error => Err(std::io::Error::from_raw_os_error(-error as i32)),
    }
}

/// Pages mapped with an unreadable page after them.
pub struct Mapping {
    addr: u64,
    len: usize,
}

impl Mapping {
    pub fn new(len: usize) -> Mapping {
        let (prot, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let addr = unsafe { libc::mmap(ptr::null_mut(), len + 4096, prot, flags, -1, 0) };
        assert_ne!(addr, libc::MAP_FAILED);
        // SAFETY: the first `len` bytes of the mapping just made.
        let done = unsafe { libc::mprotect(addr, len, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0);
        Mapping {
            addr: addr as u64,
            len,
        }
    }

    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The unreadable page.
    pub fn hole(&self) -> u64 {
        self.addr + self.len as u64
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped readable and writable for the life of `self`, which is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.addr as *mut u8, self.len) }
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) -> u64 {
        self.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
        self.addr + at as u64
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, unmapped once.
        unsafe { libc::munmap(self.addr as *mut libc::c_void, self.len + 4096) };
    }
}

fn copy(nr: libc::c_long, addr: u64, buf: *const u8, len: usize) -> usize {
    let local = [buf as u64, len as u64];
    let remote = [addr, len as u64];
    let (local, remote) = (local.as_ptr() as u64, remote.as_ptr() as u64);
    let args = [std::process::id().into(), local, 1, remote, 1, 0];
    syscall(nr as u64, args).max(0) as usize
}

/// Memory of this process, with the faults of its pages, accessed as a host accesses a body's.
pub struct Own;

impl armento_abi::Mem for Own {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), armento_abi::Fault> {
        match self.read_some(addr, buf) == buf.len() {
            true => Ok(()),
            false => Err(armento_abi::Fault),
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        // Like the kernel, process_vm_readv stops at pages within one segment.
        copy(libc::SYS_process_vm_readv, addr, buf.as_ptr(), buf.len())
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), armento_abi::Fault> {
        let done = copy(libc::SYS_process_vm_writev, addr, data.as_ptr(), data.len());
        if done == data.len() {
            Ok(())
        } else {
            Err(armento_abi::Fault)
        }
    }
}
