//! A sample of this node.
//!
//! Next: `gossip/src/vector.rs` (sends it to the others).

use crate::cgroup::{Allowed, Group};
use crate::cpu::processor_kind;
use crate::files::Files;
use crate::memory::machine_kib;
use crate::pressure::Pressure;
use crate::speed::Calibration;
use crate::tasks::Tasks;
use crate::{Smooth, claimed_cpu_set, sys};
use armento_gossip::{CpuSet, Entry};
use std::fs;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// An administrator may change the limits of groups: they are read again after so many samples.
const LIMITS_SAMPLES: u32 = 10;

/// For the first samples speed is measured again with each one: the first measurement may have been disturbed.
const REFINED: u32 = 30;

/// Values that an administrator sets in place of measured ones (MOSIX: `setspeed`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Speed of one core; 10000 = standard.
    pub speed: Option<u32>,
    pub cores: Option<u32>,
    pub mem_total_kib: Option<u64>,
}

/// One sample of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Threads in state R, except the sampling one.
    pub runnable: u32,
    /// The same smoothed, hundredths: shown to users for a node without a ledger.
    pub load: u32,
    /// Processors this node may use; a fraction counts as a whole one.
    pub cores: u32,
    /// Speed of each of them; a quota reduces it.
    pub speed: u32,
    /// [`Entry::kind`]: equal for the same processor and quota, 0 where an administrator set the speed.
    pub kind: u32,
    /// [`Entry::share_permille`].
    pub share_permille: u32,
    pub mem_total_kib: u64,
    pub mem_free_kib: u64,
}

impl Sample {
    /// Writes the sample into `entry`; its load too, which a ledger replaces by a better value.
    pub fn fill(&self, entry: &mut Entry) {
        entry.runnable = self.runnable;
        entry.load = self.load;
        entry.cores = self.cores;
        entry.speed = self.speed;
        entry.kind = self.kind;
        entry.share_permille = self.share_permille;
        entry.mem_total_kib = self.mem_total_kib;
        entry.mem_free_kib = self.mem_free_kib;
    }
}

/// Samples this node once a period. One per process: it keeps files open and remembers loads.
#[derive(Debug)]
pub struct Sampler {
    given: Given,
    calibration: Calibration,
    cpu: CpuSet,
    tasks: Tasks,
    load: Smooth,
    last: Option<Instant>,
    limits: Limits,
    pressure: Pressure,
    files: Files,
    samples: u32,
}

#[derive(Clone, Debug, Default)]
struct Limits {
    processors: u32,
    cpu_milli: Option<u64>,
    memory: Option<Group>,
}

impl Sampler {
    /// Measures the processor's speed, about 20 ms of CPU.
    pub fn new() -> Sampler {
        Sampler::with(Given::default())
    }

    pub fn with(given: Given) -> Sampler {
        Sampler {
            given,
            calibration: Calibration::first(),
            cpu: claimed_cpu_set(),
            tasks: Tasks::default(),
            load: Smooth::default(),
            last: None,
            limits: Limits::read(),
            pressure: Pressure::default(),
            files: Files::default(),
            samples: 0,
        }
    }

    /// CPU features that programs on this node may use.
    pub fn cpu(&self) -> &CpuSet {
        &self.cpu
    }

    pub fn sample(&mut self) -> Sample {
        self.samples += 1;
        if self.samples.is_multiple_of(LIMITS_SAMPLES) {
            self.limits = Limits::read();
            self.files = Files::default();
            self.calibration.follow_clock();
        }
        if self.samples < REFINED || self.samples.is_multiple_of(LIMITS_SAMPLES) {
            self.calibration.refine();
        }
        let now = Instant::now();
        let past = self
            .last
            .replace(now)
            .map_or(0, |last| now.duration_since(last).as_millis() as u64);
        let runnable = self.tasks.runnable();
        self.load.feed(runnable.saturating_mul(100), past);
        let (cores, speed) = self.power();
        let kind = self.kind();
        let (mem_total_kib, mem_free_kib) = self.memory();
        Sample {
            runnable,
            load: self.load.hundredths(),
            cores,
            speed,
            kind,
            share_permille: self.share_permille(),
            mem_total_kib,
            mem_free_kib,
        }
    }

    fn power(&self) -> (u32, u32) {
        let speed = self.given.speed.unwrap_or(self.calibration.speed());
        if let Some(cores) = self.given.cores {
            return (cores.max(1), speed);
        }
        let limit = if self.given.speed.is_some() {
            None
        } else {
            self.limits.cpu_milli
        };
        shared_power(self.limits.processors, limit, speed)
    }

    fn kind(&self) -> u32 {
        if self.given.speed.is_some() {
            return 0;
        }
        processor_kind(self.share_permille().into())
    }

    fn share_permille(&self) -> u32 {
        if self.given.speed.is_some() {
            return 1000;
        }
        let full = u64::from(self.limits.processors) * 1000;
        let milli = self.limits.cpu_milli.unwrap_or(full).clamp(1, full);
        (milli / milli.div_ceil(1000)).max(1) as u32
    }

    /// Total and free, KiB: the part of a sample that may change quickly.
    pub fn memory(&mut self) -> (u64, u64) {
        let group = self.limits.memory.as_ref();
        let read = |path: &str| self.files.read(path);
        let pressed = self.pressure.is_high(group, &read);
        let machine = machine_kib(&read("/proc/meminfo").unwrap_or_default(), pressed);
        let allowed = group.and_then(|group| group.memory(&read, pressed));
        least(machine, allowed, self.given.mem_total_kib)
    }
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new()
    }
}

impl Limits {
    fn read() -> Limits {
        let cgroups = read("/proc/self/cgroup").unwrap_or_default();
        let mounts = read("/proc/self/mountinfo").unwrap_or_default();
        let cpu = Group::find(&cgroups, &mounts, "cpu");
        Limits {
            processors: sys::affinity_count().unwrap_or(1).max(1),
            cpu_milli: cpu.and_then(|group| group.cpu_milli(&read)),
            memory: Group::find(&cgroups, &mounts, "memory"),
        }
    }
}

/// Cores and the speed of each under a quota: 40 % of one processor is one core of 0.4 the speed, 150 % of four are two
/// cores of 0.75.
fn shared_power(processors: u32, limit_milli: Option<u64>, speed: u32) -> (u32, u32) {
    let full = u64::from(processors.max(1)) * 1000;
    let milli = limit_milli.unwrap_or(full).clamp(1, full);
    let cores = milli.div_ceil(1000);
    let each = u64::from(speed) * milli / (cores * 1000);
    (cores as u32, (each as u32).max(1))
}

/// The smallest of machine, groups and administrator's value.
fn least(machine: (u64, u64), allowed: Option<Allowed>, given: Option<u64>) -> (u64, u64) {
    let (mut total, mut free) = machine;
    if let Some(allowed) = allowed {
        total = total.min(allowed.total_kib);
        free = free.min(allowed.free_kib);
    }
    if let Some(given) = given.filter(|&given| given < total) {
        // Used memory is subtracted from the administrator's value.
        free = free.min(given.saturating_sub(total.saturating_sub(free)));
        total = given;
    }
    (total, free.min(total))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// A number that grows with each start of a daemon: milliseconds of the wall clock.
pub fn boot_incarnation() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_millis() as u64)
}

/// The running kernel's release, e.g. `6.7.0-1-amd64`, and its first two numbers.
pub fn kernel_release() -> (String, (u32, u32)) {
    let text = read("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_owned();
    let version = version_of(&text);
    (text, version)
}

fn version_of(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_reduces_speed_before_cores() {
        let check = |processors, limit, want| {
            assert_eq!(
                shared_power(processors, limit, 10_000),
                want,
                "{limit:?} of {processors}"
            );
        };
        check(4, None, (4, 10_000));
        check(1, Some(400), (1, 4000));
        check(4, Some(400), (1, 4000));
        check(4, Some(1500), (2, 7500));
        check(2, Some(8000), (2, 10_000));
        check(4, Some(0), (1, 10));
        check(0, None, (1, 10_000));
    }

    #[test]
    fn tightest_memory_limit_counts() {
        let check = |allowed: Option<(u64, u64)>, given, want| {
            let allowed = allowed.map(|(total_kib, free_kib)| Allowed {
                total_kib,
                free_kib,
            });
            assert_eq!(
                least((8000, 5000), allowed, given),
                want,
                "{allowed:?} {given:?}"
            );
        };
        check(None, None, (8000, 5000));
        check(Some((2000, 1500)), None, (2000, 1500));
        check(Some((9000, 8500)), None, (8000, 5000));
        check(None, Some(4000), (4000, 1000));
        check(None, Some(2000), (2000, 0));
        check(Some((2000, 1500)), Some(9000), (2000, 1500));
    }

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version_of("6.7.0-1-amd64"), (6, 7));
        assert_eq!(version_of("6.18.44-fc"), (6, 18));
        assert_eq!(version_of(""), (0, 0));
    }

    #[test]
    fn this_node_can_be_sampled() {
        let mut sampler = Sampler::new();
        let sample = sampler.sample();
        assert!(sample.cores >= 1 && sample.speed >= 1);
        assert!(sample.mem_total_kib > 0 && sample.mem_free_kib <= sample.mem_total_kib);
        assert!(boot_incarnation() > 1 && kernel_release().1.0 >= 4);
        let mut entry = Entry::new("n1".parse().unwrap(), 1);
        sample.fill(&mut entry);
        assert_eq!((entry.cores, entry.speed), (sample.cores, sample.speed));
        let given = Given {
            speed: Some(7),
            cores: Some(3),
            mem_total_kib: Some(1),
        };
        let stated = Sampler::with(given).sample();
        assert_eq!(
            (stated.cores, stated.speed, stated.mem_total_kib),
            (3, 7, 1)
        );
    }
}
