//! What programs of others print: NetPIPE and LAMMPS.

use crate::results::Rate;

/// NetPIPE's lines: `  7:   24 bytes   4000 times -->   8.20 Mbps in   22.33 usec`. A rate of messages that go to and fro, as
/// Transfer's one way.
pub fn netpipe(stdout: &str) -> Vec<Rate> {
    let read = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let at = |word: &str| words.iter().position(|w| *w == word);
        let number = |i: usize| words.get(i)?.parse::<f64>().ok();
        let bytes = number(at("bytes")?.checked_sub(1)?)? as u64;
        let n = number(at("times")?.checked_sub(1)?)? as u64;
        // One way, microseconds; NetPIPE's Mbit has 2^20 bits, so that its time is the better value.
        let us = number(at("usec")?.checked_sub(1)?)?;
        Some(Rate {
            bytes,
            n,
            s: us * 2.0 * n as f64 / 1e6,
            mb_s: bytes as f64 / us,
        })
    };
    stdout.lines().filter_map(read).collect()
}

/// LAMMPS's thermodynamic lines, as printed, and the time of its loop.
pub fn thermo(stdout: &str) -> Option<(Vec<String>, f64)> {
    let mut lines = stdout.lines();
    lines.find(|l| l.trim_start().starts_with("Step"))?;
    let mut rows = Vec::new();
    for line in lines {
        if let Some(rest) = line.strip_prefix("Loop time of ") {
            let s = rest.split_whitespace().next()?.parse().ok()?;
            return Some((rows, s));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.iter().all(|w| w.parse::<f64>().is_ok()) && !words.is_empty() {
            rows.push(words.join(" "));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_netpipe_are_read() {
        let text = "0: host\nNow starting the main loop\n  0:       1 bytes   1000 times -->      0.25 Mbps in      30.00 usec\n\
                     9:   32768 bytes    100 times -->     89.00 Mbps in    2844.00 usec\n";
        let all = netpipe(text);
        assert_eq!((all.len(), all[1].bytes, all[1].n), (2, 32_768, 100));
        assert!((all[1].mb_s - 11.52).abs() < 0.01, "{all:?}");
    }

    #[test]
    fn lines_of_lammps_are_read() {
        let text =
            "Step Temp E_pair\n 0 1.44 -6.77\n  100 0.75 -5.75\nLoop time of 0.5 on 2 procs\n";
        let (rows, s) = thermo(text).expect("read");
        assert_eq!((rows.len(), &*rows[1], s), (2, "100 0.75 -5.75", 0.5));
        assert!(thermo("nothing").is_none());
    }
}
