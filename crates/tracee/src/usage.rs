//! Adds CPU time to what the kernel wrote for a program: timespec, struct tms, struct rusage.
//!
//! KERNEL: all words of 64 bits. A buffer that is too short stays as it is.

use armento_model::CpuTime;

/// KERNEL: USER_HZ is 100 on all architectures that we support.
pub const TICK_NS: u64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of each struct.
pub const TIMESPEC: usize = 16;
pub const TMS: usize = 32;
pub const RUSAGE: usize = 144;

fn word(b: &[u8], i: usize) -> u64 {
    let at = b.get(i * 8..i * 8 + 8).and_then(|w| w.try_into().ok());
    at.map_or(0, u64::from_le_bytes)
}

fn set_word(b: &mut [u8], i: usize, v: u64) {
    if let Some(at) = b.get_mut(i * 8..i * 8 + 8) {
        at.copy_from_slice(&v.to_le_bytes());
    }
}

/// Seconds and their parts of `part_ns` at two words; returns the sum in nanoseconds.
fn add_seconds(b: &mut [u8], first: usize, part_ns: u64, ns: u64) -> u64 {
    let sum = word(b, first) * SECOND_NS + word(b, first + 1) * part_ns + ns;
    set_word(b, first, sum / SECOND_NS);
    set_word(b, first + 1, sum % SECOND_NS / part_ns);
    sum / part_ns * part_ns
}

/// Adds to a timespec; returns the sum.
pub fn add_to_timespec(b: &mut [u8], ns: u64) -> u64 {
    add_seconds(b, 0, 1, ns)
}

/// Adds to ru_utime and ru_stime, two timevals; returns the sums.
pub fn add_to_rusage(b: &mut [u8], t: CpuTime) -> CpuTime {
    CpuTime {
        user_ns: add_seconds(b, 0, 1000, t.user_ns),
        system_ns: add_seconds(b, 2, 1000, t.system_ns),
    }
}

/// Memory usage that the kernel accounts. KERNEL: getrusage(2); ru_maxrss is the maximum of the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub peak_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// Words of struct rusage.
const PEAK: usize = 4;
const MINOR: usize = 8;
const MAJOR: usize = 9;

/// Merges ru_maxrss, ru_minflt and ru_majflt of a process that has used memory on two nodes.
pub fn add_memory(b: &mut [u8], m: Memory) {
    set_word(b, PEAK, word(b, PEAK).max(m.peak_kib));
    set_word(b, MINOR, word(b, MINOR) + m.minor_faults);
    set_word(b, MAJOR, word(b, MAJOR) + m.major_faults);
}

/// Adds to tms_utime and tms_stime, then the children's, in ticks; returns the sums.
pub fn add_to_tms(b: &mut [u8], own: CpuTime, children: CpuTime) -> (CpuTime, CpuTime) {
    let mut add = |i: usize, ns: u64| {
        let sum = word(b, i) + ns / TICK_NS;
        set_word(b, i, sum);
        sum * TICK_NS
    };
    let own = CpuTime {
        user_ns: add(0, own.user_ns),
        system_ns: add(1, own.system_ns),
    };
    let children = CpuTime {
        user_ns: add(2, children.user_ns),
        system_ns: add(3, children.system_ns),
    };
    (own, children)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    const T: CpuTime = CpuTime {
        user_ns: 1_500_000_000,
        system_ns: 20_000_999,
    };

    #[test]
    fn seconds_carry_over() {
        let mut b = bytes(&[3, 999_999_999]);
        assert_eq!(add_to_timespec(&mut b, 2), 4_000_000_001);
        assert_eq!(b, bytes(&[4, 1]));
    }

    #[test]
    fn rusage_keeps_its_other_fields() {
        let mut b = bytes(&[1, 600_000, 0, 5, 77]);
        let said = add_to_rusage(&mut b, T);
        assert_eq!(b, bytes(&[3, 100_000, 0, 20_005, 77]));
        assert_eq!((said.user_ns, said.system_ns), (3_100_000_000, 20_005_000));
    }

    #[test]
    fn faults_add_up_and_the_peak_is_the_larger() {
        let mut b = bytes(&[0, 0, 0, 0, 500, 1, 2, 3, 10, 20, 7]);
        let m = Memory {
            peak_kib: 400,
            minor_faults: 5,
            major_faults: 6,
        };
        add_memory(&mut b, m);
        assert_eq!(b, bytes(&[0, 0, 0, 0, 500, 1, 2, 3, 15, 26, 7]));
    }

    #[test]
    fn ticks_are_of_ten_milliseconds() {
        let mut b = bytes(&[1, 2, 3, 4]);
        let (own, children) = add_to_tms(&mut b, T, CpuTime::default());
        assert_eq!(b, bytes(&[151, 4, 3, 4]));
        assert_eq!(
            (own.user_ns, children.system_ns),
            (1_510_000_000, 40_000_000)
        );
    }

    #[test]
    fn a_short_buffer_stays() {
        let mut b = vec![1u8; 7];
        add_to_timespec(&mut b, 5);
        assert_eq!(b, vec![1u8; 7]);
    }
}
