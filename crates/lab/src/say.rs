//! Output for users and scripts. Its reader may be gone (`| head`), or the disk may be full: the work goes on, because
//! a lab that is half taken down is of no use.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Some output could not be written.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Prints a line to standard output; its reader may be gone.
#[macro_export]
macro_rules! say {
    () => {
        $crate::say!("")
    };
    ($($text:tt)*) => {
        $crate::write_out(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Prints, without the end of a line.
pub fn write_out(text: Arguments) {
    let mut out = io::stdout().lock();
    let Err(e) = out.write_fmt(text).and_then(|()| out.flush()) else {
        return;
    };
    if e.kind() != ErrorKind::BrokenPipe && !UNWRITTEN.swap(true, Ordering::Relaxed) {
        eprintln!("armento: cannot write to standard output: {e}; the work itself goes on");
    }
}

/// The exit code of a command that did its work: a failure if its output was lost.
pub fn told(code: i32) -> i32 {
    match code {
        0 if UNWRITTEN.load(Ordering::Relaxed) => crate::enter::FAILED,
        _ => code,
    }
}
