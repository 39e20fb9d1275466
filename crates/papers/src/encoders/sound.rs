//! Recorded sound, and the cost of today's encoder on this machine.

use super::mode::Mode;
use super::plan::{Encoder, Plan};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Voices recorded for Debian's alsa-utils: real sound, 1.4 s each. Left and right follow each other.
const VOICES: &str = "/usr/share/sounds/alsa";
const NAMES: [&str; 8] = [
    "Front_Left",
    "Front_Right",
    "Rear_Left",
    "Rear_Right",
    "Side_Left",
    "Side_Right",
    "Front_Center",
    "Rear_Center",
];
/// The paper's sampling: 44.1 kHz, 16 bit, stereo.
const FORM: [&str; 6] = ["-r", "44100", "-b", "16", "-c", "2"];
/// Long enough that start-up does not count, seconds.
const SAMPLE_S: f64 = 8.0;
/// Number of measurements; the slowest counts, so that the runs take no longer than requested. Measured: between two of
/// them a shared machine was 1.5 times as fast, for moments only.
const SAMPLES: usize = 4;

/// Fails with the packages to install when a program or the recordings are missing.
pub fn check_packages() -> Result<()> {
    let have = |program: &str| {
        std::env::var_os("PATH")
            .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(program).is_file()))
    };
    let mut missing: Vec<&str> = ["lame", "sox"].into_iter().filter(|p| !have(p)).collect();
    if !Path::new(VOICES).join("Front_Left.wav").exists() {
        missing.push("alsa-utils");
    }
    if !have("ip") {
        missing.push("iproute2");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    bail!("the demo needs these Debian packages: {list}\nhint: apt-get install -y {list}")
}

/// A directory of this process outside the farm; removed when dropped.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Result<Scratch> {
        let dir = std::env::temp_dir().join(format!("armento-demo-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure here has no remedy, and the directory is in /tmp.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes `seconds` of recorded voices to `to`.
pub fn clip(to: &Path, seconds: f64) -> Result<()> {
    let mut sox = Command::new("sox");
    sox.args(["-D", "-V1"]);
    sox.args(NAMES.iter().map(|n| format!("{VOICES}/{n}.wav")));
    sox.args(FORM).arg(to);
    // All voices together last 11.4 s; repeated as often as needed, then cut.
    let times = (seconds / 11.0).ceil() as u32;
    sox.args([
        "repeat",
        &times.to_string(),
        "trim",
        "0",
        &format!("{seconds:.3}"),
    ]);
    quiet(sox)
}

/// Encodes natively on this machine.
pub fn encode(wav: &Path, mp3: &Path, mode: Mode) -> Result<()> {
    let mut lame = Command::new("lame");
    lame.args(mode.options().split(' ')).arg(wav).arg(mp3);
    quiet(lame)
}

/// The encoder's cost for one second of this sound on this machine, unlimited.
pub fn measure(scratch: &Path, mode: Mode) -> Result<Encoder> {
    let (wav, mp3) = (scratch.join("sample.wav"), scratch.join("sample.mp3"));
    clip(&wav, SAMPLE_S)?;
    let mut slowest: Option<Encoder> = None;
    for _ in 0..SAMPLES {
        let before = (children_cpu_s()?, io_bytes()?);
        encode(&wav, &mp3, mode)?;
        let after = (children_cpu_s()?, io_bytes()?);
        let seen = Encoder {
            clip_s: SAMPLE_S,
            cpu_s: after.0 - before.0,
            bytes: after.1 - before.1,
        };
        if slowest.is_none_or(|s| s.cpu_s < seen.cpu_s) {
            slowest = Some(seen);
        }
    }
    slowest.context("the encoder was not measured")
}

/// The clip of the plan, and the MP3 that every job must produce.
pub fn reference(scratch: &Path, plan: &Plan, mode: Mode) -> Result<(Vec<u8>, Vec<u8>)> {
    let (wav, mp3) = (scratch.join("clip.wav"), scratch.join("clip.mp3"));
    clip(&wav, plan.clip_s)?;
    encode(&wav, &mp3, mode)?;
    Ok((fs::read(wav)?, fs::read(mp3)?))
}

fn quiet(mut c: Command) -> Result<()> {
    let name = c.get_program().to_string_lossy().into_owned();
    let out = c
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} did not start"))?;
    if !out.status.success() {
        bail!(
            "{name} failed, {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(())
}

/// User and system time of this process's ended children.
fn children_cpu_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    parse_children_cpu(&stat).context("/proc/self/stat has another form than expected")
}

/// Fields 16 and 17 of proc(5) stat, in ticks of 1/100 s (USER_HZ on every Linux of this kind).
fn parse_children_cpu(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(13);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / 100.0)
}

/// Bytes that this process and its ended children passed to read and write calls.
fn io_bytes() -> Result<f64> {
    let io = fs::read_to_string("/proc/self/io")?;
    let sum = |key| {
        io.lines()
            .find_map(|l| l.strip_prefix(key)?.trim().parse::<f64>().ok())
    };
    let both = sum("rchar:").zip(sum("wchar:"));
    both.map(|(r, w)| r + w)
        .context("/proc/self/io has another form than expected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_time_is_parsed_with_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 150 50 20 0 1 0 99";
        assert_eq!(parse_children_cpu(stat), Some(2.0));
        assert!(children_cpu_s().unwrap() >= 0.0);
        assert!(io_bytes().unwrap() > 0.0);
    }
}
