//! Why a machine is where it is in its boot.

use super::board::Progress;
use super::step::Step;
use serde::Serialize;

/// A usual cause, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    pub what: &'static str,
    pub remedy: &'static str,
}

/// What there is to say about a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// It is a node, or still on its way.
    pub well: bool,
    pub text: String,
    /// The most usual first; none for a machine that is well.
    pub causes: Vec<Cause>,
}

/// Milliseconds that a step may take until the next one, on slow machines: firmware waits for links, an emulated kernel
/// unpacks for half a minute, systemd starts services.
fn patience_ms(step: Step) -> u64 {
    match step {
        Step::Asked => 15_000,
        Step::Address | Step::Loader | Step::Script => 45_000,
        Step::Kernel | Step::Initrd | Step::Network => 120_000,
        Step::Root => 180_000,
        Step::System => 120_000,
        Step::Joined => u64::MAX,
    }
}

/// Judges the progress of one machine; none: no server has heard of it.
pub fn why(progress: Option<&Progress>, now_ms: u64) -> Verdict {
    let stuck = |text: String, causes: &[(&'static str, &'static str)]| Verdict {
        well: false,
        text,
        causes: causes
            .iter()
            .map(|&(what, remedy)| Cause { what, remedy })
            .collect(),
    };
    let Some(progress) = progress else {
        return stuck(
            "no boot server has heard of it".into(),
            &[
                (
                    "it is switched off, or its firmware does not boot from the network",
                    "set network boot (PXE) of the right card first in its firmware",
                ),
                (
                    "its card, cable or switch port is another than the inventory says",
                    "compare the address on the card with `mac` in the inventory; `armento boot claim` lists unknown machines",
                ),
                (
                    "no boot server serves its net",
                    "armento boot serve must run on a node of the net with boot = true; a switch may need a DHCP relay or port fast",
                ),
            ],
        );
    };
    let step = progress.step();
    let waited = now_ms.saturating_sub(progress.at_ms());
    let since = format!("{} ({} s ago)", step.text(), waited / 1000);
    if progress.node.is_none() {
        return stuck(
            format!("{since}; the inventory does not name its card"),
            &[(
                "it is new, or its card was changed",
                "armento boot claim MAC NAME gives it a name",
            )],
        );
    }
    if let Some(trouble) = &progress.trouble {
        return stuck(
            format!("{since}; then it said: {trouble}"),
            causes_after(step),
        );
    }
    if waited <= patience_ms(step) {
        return Verdict {
            well: true,
            text: since,
            causes: Vec::new(),
        };
    }
    stuck(since, causes_after(step))
}

/// What usually stops a machine after a step.
fn causes_after(step: Step) -> &'static [(&'static str, &'static str)] {
    match step {
        Step::Asked => &[
            (
                "another DHCP server was faster",
                "armento fabric doctor names it; run `armento boot init --proxy` beside one that must stay",
            ),
            (
                "the answer does not reach it",
                "look at the switch: a port that learns for 30 s (spanning tree) lets firmware give up",
            ),
        ],
        Step::Address => &[
            (
                "it took the address of another DHCP server on this net",
                "armento fabric doctor names it; run `armento boot init --proxy` beside one that must stay",
            ),
            (
                "its firmware cannot fetch iPXE by TFTP (UDP port 69, then any)",
                "look for a firewall between it and the boot server",
            ),
            (
                "it wants a signed loader (Secure Boot)",
                "switch Secure Boot off: iPXE of Debian is not signed",
            ),
        ],
        Step::Loader => &[
            (
                "iPXE has no driver for its card, or finds another card first",
                "try the other loader (ipxe.efi in place of snponly.efi); look at its screen",
            ),
            (
                "iPXE cannot reach the HTTP port of the boot server",
                "look for a firewall (TCP port 8117)",
            ),
        ],
        Step::Script => &[
            (
                "there is no image for it",
                "armento boot image list; `image` in its profile names one",
            ),
            (
                "its memory is too small for kernel and initramfs, or the download broke off",
                "look at its screen",
            ),
        ],
        Step::Kernel => &[(
            "the initramfs did not arrive whole: little memory (firmware of BIOS uses 3 GiB at most)",
            "look at its screen",
        )],
        Step::Initrd => &[
            (
                "the kernel stops early",
                "look at its screen; add console=ttyS0 to see it by a serial line",
            ),
            (
                "the image's kernel has no driver for its card",
                "build the image with linux-image-amd64, not the cloud one",
            ),
        ],
        Step::Network => &[
            (
                "the root is not served: NFS (TCP port 9117) or the image's file",
                "armento boot image list; look for a firewall",
            ),
            (
                "its memory is too small for a root in RAM",
                "root = \"live\" in its profile needs some 150 MB",
            ),
        ],
        Step::Root => &[
            (
                "a service of the image fails before the network is there",
                "look at its screen; `armento boot image back NAME` returns to the generation before",
            ),
            (
                "the image has no systemd, or armento's unit is disabled in it",
                "build or import it again",
            ),
        ],
        Step::System => &[
            (
                "it cannot join: the farm's member is not reached, or clocks are minutes apart",
                "journalctl -u armento-boot on it says why",
            ),
            (
                "this boot server does not hold the farm's key and makes no tokens",
                "run `armento boot serve` also where `armento farm init` was run",
            ),
        ],
        Step::Joined => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::Board;
    use super::*;

    #[test]
    fn every_step_but_the_last_has_causes_when_it_takes_too_long() {
        let mac = "52:54:00:00:00:01".parse().expect("mac");
        for step in Step::ALL {
            let mut board = Board::default();
            board.reached(mac, Some("n1"), *step, 1_000);
            let progress = board.machines.get(&mac);
            assert!(why(progress, 2_000).well, "{step:?}");
            let late = why(progress, 10_000_000);
            assert_eq!(late.well, *step == Step::Joined, "{step:?}");
            assert_eq!(late.causes.is_empty(), *step == Step::Joined, "{step:?}");
        }
    }

    #[test]
    fn what_the_machine_said_comes_first() {
        let mac = "52:54:00:00:00:01".parse().expect("mac");
        let mut board = Board::default();
        board.reached(mac, Some("n1"), Step::Network, 1_000);
        board.trouble(mac, "mount: no route to host");
        let verdict = why(board.machines.get(&mac), 1_001);
        assert!(!verdict.well);
        assert!(
            verdict.text.contains("no route to host"),
            "{}",
            verdict.text
        );
        assert!(!why(None, 0).well);
        board.reached(mac, None, Step::Asked, 5_000);
        let stranger = why(board.machines.get(&mac), 5_001);
        assert!(stranger.causes[0].remedy.contains("boot claim"));
    }
}
