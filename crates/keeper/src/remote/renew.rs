//! Renewals of the lease, and every other question to the node that keeps the checkpoint.
//!
//! From: `mod.rs`. Next: `noded/src/kept/away.rs`.

use crate::state::{Keep, Lease};
use armento_client::AskError;
use armento_client::api::{Answer, Ask, KeepStep};
use std::time::Duration;

/// Between two renewals: five fit into a lease.
const EVERY: Duration = Duration::from_secs(2);
/// The daemon asks the other one for at most twice three seconds (`noded/src/kept/away.rs`).
const ANSWER: Duration = Duration::from_millis(6500);

/// One step; what its answer means for the lease is noted. `Ok(true)`: something of the tree is kept there.
pub fn ask(keep: &Keep, step: KeepStep) -> Result<bool, AskError> {
    let at = keep.lease.at();
    let forgets = step == KeepStep::Forget;
    let asked = Lease::now();
    let ask = Ask::KeepAway {
        at: at.clone(),
        step,
    };
    match keep.daemon.ask(ask, ANSWER) {
        Ok(Answer::KeptAway { at, answer }) => {
            if answer.taken {
                keep.lease.granted(at, asked);
                keep.lease.taken();
            } else if answer.known {
                keep.lease.granted(at, asked);
            } else {
                keep.lease.void();
            }
            Ok(answer.known && !forgets)
        }
        Ok(_) => Err(AskError::Late),
        Err(e) => {
            // It was removed from the farm, or has left: another is chosen.
            if matches!(&e, AskError::Refused(no) if no.code == "no-such-node") && at.is_some() {
                keep.lease.void();
            }
            Err(e)
        }
    }
}

/// Renews, for ever.
pub fn renew_lease(keep: &Keep) {
    loop {
        std::thread::sleep(EVERY);
        if keep.lease.at().is_some()
            && let Err(e) = ask(keep, KeepStep::Renew)
        {
            eprintln!("lease: {e}");
        }
    }
}
