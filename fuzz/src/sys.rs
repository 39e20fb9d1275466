//! An allocator that limits the memory of a decoder.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread may still allocate; `None`: no limit.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// Runs `f` with at most `bytes` in use at once. Beyond that an allocation fails, which ends the process
/// with a message unless the code under test handles it.
pub fn within<T>(bytes: usize, f: impl FnOnce() -> T) -> T {
    LEFT.set(Some(bytes));
    let done = f();
    LEFT.set(None);
    done
}

fn take(bytes: usize) -> bool {
    match LEFT.try_with(Cell::get) {
        Ok(Some(left)) => {
            let rest = left.checked_sub(bytes);
            if rest.is_some() {
                LEFT.set(rest);
            }
            rest.is_some()
        }
        _ => true,
    }
}

fn give(bytes: usize) {
    if let Ok(Some(left)) = LEFT.try_with(Cell::get) {
        // Memory allocated before `within` began may be freed inside.
        LEFT.set(Some(left.saturating_add(bytes)));
    }
}

// SAFETY: every block comes from `System` and goes back to it with its own layout; a null pointer means that there is
// none.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is System's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller's promise is System's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return std::ptr::null_mut();
        }
        give(layout.size());
        // SAFETY: the caller's promise is System's.
        unsafe { System.realloc(at, layout, size) }
    }
}
