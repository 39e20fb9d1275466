//! Stereo and mono: half the processor time for the same file.

use crate::published::{JOBS, table};
use serde::{Deserialize, Serialize};

/// What the encoders make of a stereo file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Stereo,
    Mono,
}

impl Mode {
    /// One word, as in the names of values.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Stereo => "stereo",
            Mode::Mono => "mono",
        }
    }

    /// The published table.
    pub fn table(self) -> &'static str {
        match self {
            Mode::Stereo => "openmosix-topology/stereo.csv",
            Mode::Mono => "openmosix-topology/mono.csv",
        }
    }

    /// lame's options. PAPER(P, test bed): `-256 -copy -crc` and `-256 -mono`; `-q 0` is the slowest and best search,
    /// which keeps today's processor as busy for each byte as is possible.
    pub fn options(self) -> &'static str {
        match self {
            Mode::Stereo => "--quiet -b 256 -m s -q 0 -p",
            Mode::Mono => "--quiet -b 256 -m m -q 0 -p",
        }
    }

    /// PAPER(P, case 1): seconds of all conversions on the single node.
    pub fn single_s(self) -> f64 {
        let table = table(self.table()).ok();
        let row = table
            .as_ref()
            .and_then(|t| t.find(&[("topology", "single")]));
        row.and_then(|r| r.number("makespan_s")).unwrap_or(f64::NAN)
    }

    /// PAPER(P, case 1): of one conversion.
    pub fn cpu_s_per_job(self) -> f64 {
        self.single_s() / JOBS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_nodes_are_read() {
        assert_eq!(Mode::Stereo.cpu_s_per_job(), 269.125);
        assert_eq!(Mode::Mono.single_s(), 3233.0);
    }
}
