//! Stores both sides of a difference where the user can read them.

use std::path::PathBuf;

use anyhow::Result;

use crate::task::{Mode, Outcome, Task};

/// Writes both outcomes and how to repeat them; the node's disk is removed with the lab.
pub fn keep(
    task: &Task,
    round: u32,
    repeat: &str,
    native: &Outcome,
    other: &Outcome,
) -> Option<PathBuf> {
    let folder = std::env::temp_dir()
        .join(format!("armento-conform-{}", std::process::id()))
        .join(format!("{}.{}.{round}", task.folder(), task.mode.word()));
    let write = || -> Result<()> {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("repeat"), format!("{repeat}\n"))?;
        // A native run that differs from the first one is both sides.
        let other_side = if task.mode == Mode::Native {
            "again"
        } else {
            task.mode.word()
        };
        for (side, outcome) in [("native", native), (other_side, other)] {
            for (name, stream) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
                let bytes: Vec<u8> = stream
                    .head
                    .chars()
                    .map(|c| u8::try_from(c).unwrap_or(b'?'))
                    .collect();
                std::fs::write(folder.join(format!("{side}.{name}")), bytes)?;
            }
            let rest = serde_json::to_vec_pretty(&outcome)?;
            std::fs::write(folder.join(format!("{side}.json")), rest)?;
        }
        Ok(())
    };
    match write() {
        Ok(()) => Some(folder),
        Err(cause) => {
            eprintln!(
                "cannot keep the evidence in {}: {cause:#}",
                folder.display()
            );
            None
        }
    }
}
