//! The length of the clip, and the rate of the switch, for today's encoder.
//!
//! From: the encoder measured on this machine. Next: the lab that is started with the plan.

use super::mode::Mode;
use crate::published::{BYTES_PER_JOB, JOBS, LINK_BIT_S};
use serde::{Deserialize, Serialize};

/// The scale of this run, stated in the output.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Seconds of sound in each of the 24 files.
    pub clip_s: f64,
    /// CPU seconds of one conversion on an unlimited core of this machine, expected.
    pub cpu_s_per_job: f64,
    /// … and on a node, at its share of a core.
    pub node_s_per_job: f64,
    /// Bytes read and written by one conversion.
    pub bytes_per_job: f64,
    /// Rate of every link of the switch.
    pub rate_mbit: u32,
    /// Share of a core that a node has.
    pub speed: f64,
}

/// Cost of the encoder here: `cpu_s` and `bytes` (WAV and MP3) for `clip_s` seconds of sound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    pub clip_s: f64,
    pub cpu_s: f64,
    pub bytes: f64,
}

/// Shortest clip: below it, start-up and not encoding would be measured.
const CLIP_S_MIN: f64 = 2.0;
/// Longest: 24 files of it must fit in memory.
pub const CLIP_S_MAX: f64 = 240.0;
/// Rates that a veth pair shaped by tbf keeps on two cores.
const RATE_MBIT: std::ops::RangeInclusive<f64> = 10.0..=4000.0;

impl Plan {
    /// `single_s`: the requested duration of the single-node run.
    pub fn new(encoder: Encoder, mode: Mode, single_s: f64, speed: f64) -> Plan {
        let per_second = encoder.cpu_s / encoder.clip_s;
        let wanted = single_s * speed / JOBS as f64;
        let clip_s = (wanted / per_second).clamp(CLIP_S_MIN, CLIP_S_MAX);
        let cpu_s_per_job = clip_s * per_second;
        let node_s_per_job = cpu_s_per_job / speed;
        let bytes_per_job = clip_s * encoder.bytes / encoder.clip_s;
        let bit_s = rate(mode, node_s_per_job, bytes_per_job) / 1e6;
        let rate_mbit = bit_s.clamp(*RATE_MBIT.start(), *RATE_MBIT.end()).round() as u32;
        Plan {
            clip_s,
            cpu_s_per_job,
            node_s_per_job,
            bytes_per_job,
            rate_mbit,
            speed,
        }
    }
}

/// Bits a second that keep the paper's ratio of time on the wire to time on the processor.
fn rate(mode: Mode, node_s_per_job: f64, bytes_per_job: f64) -> f64 {
    let wire_share = BYTES_PER_JOB * 8.0 / LINK_BIT_S / mode.cpu_s_per_job();
    bytes_per_job * 8.0 / (wire_share * node_s_per_job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_encoder_gives_the_published_switch() {
        for mode in [Mode::Stereo, Mode::Mono] {
            let rate = rate(mode, mode.cpu_s_per_job(), BYTES_PER_JOB);
            assert!((rate - LINK_BIT_S).abs() < 1.0);
        }
    }

    #[test]
    fn single_run_takes_the_requested_time() {
        let lame = Encoder {
            clip_s: 60.0,
            cpu_s: 4.5,
            bytes: 12.5e6,
        };
        let p = Plan::new(lame, Mode::Stereo, 72.0, 0.4);
        assert!((p.node_s_per_job * 24.0 - 72.0).abs() < 1e-9);
        assert!((p.clip_s - 16.0).abs() < 1e-9);
        // Scaling clip and time together does not change the rate.
        assert_eq!(
            p.rate_mbit,
            Plan::new(lame, Mode::Stereo, 36.0, 0.4).rate_mbit
        );
    }

    #[test]
    fn absurd_measurements_stay_in_bounds() {
        let p = Plan::new(
            Encoder {
                clip_s: 10.0,
                cpu_s: 1e-6,
                bytes: 2e6,
            },
            Mode::Stereo,
            72.0,
            0.4,
        );
        assert_eq!((p.clip_s, p.rate_mbit), (CLIP_S_MAX, 4000));
    }
}
