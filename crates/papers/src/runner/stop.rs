//! Ctrl-C, `kill`, a closed terminal: what was measured is kept, and labs are taken down before this process ends.

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is said at the end.
pub const INTERRUPTED: &str = "interrupted; labs are down, what was measured is kept";

/// Whether a signal has come. The runner looks before it keeps a sample: a signal of the terminal reaches the programs
/// of a run, too, and what they did then is no measurement.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// True from the signal on.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Temporary folders of this process, `armento-WHAT-PID`: it ends without dropping what would remove them.
fn remove_folders() {
    let end = format!("-{}", std::process::id());
    // Large ones, on a disk, are in /var/tmp.
    let places = [std::env::temp_dir(), "/var/tmp".into()];
    let all = places.iter().flat_map(std::fs::read_dir).flatten();
    for folder in all.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        if name.starts_with("armento-") && name.ends_with(&end) {
            // A failure here has no remedy, and the folder is a temporary one.
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}

/// Begins to watch for signals. `hint`: what is said at the end.
pub fn arm(hint: String) -> Result<Stop> {
    let stop = Stop::default();
    // Set within the handler, at once.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.0.clone())?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let down = armento_lab::down_own();
            if let Err(e) = down {
                eprintln!("armento paper: {e:#}");
            }
            remove_folders();
            eprintln!("armento paper: {INTERRUPTED}\nhint: {hint}");
            std::process::exit(128 + signal);
        }
    });
    Ok(stop)
}
