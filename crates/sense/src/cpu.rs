//! CPU features that user code can use.

use crate::sys::{cpuid, xcr0};
use armento_gossip::CpuSet;
use armento_model::{Part, Xsave};
use std::sync::OnceLock;

/// Bits that user code may rely on; the others (virtualisation, thermal, kernel-only) would keep programs at home
/// without need. Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E.
const fn bits(list: &[u32]) -> u32 {
    let mut mask = 0;
    let mut i = 0;
    while i < list.len() {
        mask |= 1 << list[i];
        i += 1;
    }
    mask
}

/// sse3 pclmul ssse3 fma cx16 sse4.1 sse4.2 movbe popcnt aes xsave osxsave avx f16c rdrand.
const L1_ECX: u32 = bits(&[0, 1, 9, 12, 13, 19, 20, 22, 23, 25, 26, 27, 28, 29, 30]);
/// fpu tsc cx8 cmov clflush mmx fxsr sse sse2.
const L1_EDX: u32 = bits(&[0, 4, 8, 15, 19, 23, 24, 25, 26]);
/// fsgsbase bmi1 hle avx2 bmi2 erms rtm avx512f dq rdseed adx ifma clflushopt clwb pf er cd sha bw vl.
const L7_EBX: u32 = bits(&[
    0, 3, 4, 5, 8, 9, 11, 16, 17, 18, 19, 21, 23, 24, 26, 27, 28, 29, 30, 31,
]);
/// prefetchwt1 vbmi ospke waitpkg vbmi2 gfni vaes vpclmul vnni bitalg vpopcntdq rdpid movdiri movdir64b.
const L7_ECX: u32 = bits(&[0, 1, 4, 5, 6, 8, 9, 10, 11, 12, 14, 22, 27, 28]);
/// 4vnniw 4fmaps fsrm vp2intersect serialize amx-bf16 avx512-fp16 amx-tile amx-int8.
const L7_EDX: u32 = bits(&[2, 3, 4, 8, 14, 22, 23, 24, 25]);
/// sha512 sm3 sm4 avx-vnni avx512-bf16 amx-fp16 avx-ifma.
const L7_1_EAX: u32 = bits(&[0, 1, 2, 4, 5, 21, 23]);
/// xsaveopt xsavec xgetbv1: the dynamic loader saves registers with these.
const LD_1_EAX: u32 = bits(&[0, 1, 2]);
/// lahf lzcnt sse4a misalignsse prefetchw xop fma4 tbm.
const E1_ECX: u32 = bits(&[0, 5, 6, 7, 8, 11, 16, 21]);
/// syscall mmxext rdtscp lm 3dnowext 3dnow.
const E1_EDX: u32 = bits(&[11, 22, 27, 29, 30, 31]);

const OSXSAVE: u32 = 1 << 27;

/// Features that programs on this machine may use.
pub fn cpu_set() -> CpuSet {
    static SET: OnceLock<CpuSet> = OnceLock::new();
    SET.get_or_init(features).clone()
}

fn features() -> CpuSet {
    let (one, seven, extended) = (cpuid(1, 0), cpuid(7, 0), cpuid(0x8000_0001, 0));
    // Sub-leaves beyond the highest one return undefined values.
    let seven_1 = if seven.eax >= 1 { cpuid(7, 1).eax } else { 0 };
    let saves = one.ecx & OSXSAVE != 0;
    CpuSet {
        vendor: vendor(),
        flags: [
            one.ecx & L1_ECX,
            one.edx & L1_EDX,
            seven.ebx & L7_EBX,
            seven.ecx & L7_ECX,
            seven.edx & L7_EDX,
            seven_1 & L7_1_EAX,
            if saves {
                cpuid(0xd, 1).eax & LD_1_EAX
            } else {
                0
            },
            extended.ecx & E1_ECX,
            extended.edx & E1_EDX,
        ],
        xcr0: if saves { xcr0() } else { 0 },
        xsave_bytes: if saves { cpuid(0xd, 0).ebx } else { 0 },
    }
}

/// Features that this node reports and by which it admits guests. For tests, a node without a feature that the machine
/// has: `ARMENTO_CPU_WITHOUT=avx2,avx512f`.
pub fn claimed_cpu_set() -> CpuSet {
    let mut set = cpu_set();
    if let Some(features) = std::env::var_os("ARMENTO_CPU_WITHOUT") {
        set.without(&features.to_string_lossy());
    }
    set
}

/// The layout of a thread's extended state on this machine.
pub fn xsave() -> &'static Xsave {
    // CPUID causes a VM exit: dozens of microseconds for each component.
    static XSAVE: OnceLock<Xsave> = OnceLock::new();
    XSAVE.get_or_init(|| {
        if cpuid(1, 0).ecx & OSXSAVE == 0 {
            return Xsave::default();
        }
        let enabled = xcr0();
        let parts = (2..63u8).filter(|n| enabled >> n & 1 == 1).map(|number| {
            let leaf = cpuid(0xd, number.into());
            Part {
                number,
                at: leaf.ebx,
                bytes: leaf.eax,
            }
        });
        Xsave {
            bytes: cpuid(0xd, 0).ebx,
            parts: parts.collect(),
        }
    })
}

/// The layout by which this node admits guests. For tests, with a component elsewhere: `ARMENTO_CPU_XSAVE=2@640`.
pub fn claimed_xsave() -> Xsave {
    let mut layout = xsave().clone();
    let claimed = std::env::var("ARMENTO_CPU_XSAVE").unwrap_or_default();
    if let Some((number, at)) = claimed.split_once('@')
        && let (Ok(number), Ok(at)) = (number.parse::<u8>(), at.parse())
    {
        let mut parts = layout.parts.iter_mut();
        if let Some(part) = parts.find(|p| p.number == number) {
            part.at = at;
        }
    }
    layout
}

/// A number for this processor's model of which a program gets `share_milli` thousandths; never 0. AMD APM vol. 3,
/// Intel SDM vol. 2A, CPUID: vendor, signature and the name that users read.
pub(crate) fn processor_kind(share_milli: u64) -> u32 {
    static MODEL: OnceLock<[[u32; 4]; 5]> = OnceLock::new();
    let leaves = MODEL.get_or_init(model);
    // FNV-1a (RFC 9923): spreads well; collisions give no advantage to an attacker.
    let mix = |h: u32, b: u8| (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    let words = leaves.iter().flatten().map(|w| u64::from(*w));
    let bytes = words.chain([share_milli]).flat_map(u64::to_le_bytes);
    bytes.fold(0x811c_9dc5, mix).max(1)
}

fn model() -> [[u32; 4]; 5] {
    [0, 1, 0x8000_0002, 0x8000_0003, 0x8000_0004].map(|leaf| {
        let r = cpuid(leaf, 0);
        // Leaf 1: ebx has the number of the present core, ecx and edx the features that the kernel enabled.
        if leaf == 1 {
            [r.eax, 0, 0, 0]
        } else {
            [r.eax, r.ebx, r.ecx, r.edx]
        }
    })
}

fn vendor() -> String {
    let leaf = cpuid(0, 0);
    let text = [leaf.ebx, leaf.edx, leaf.ecx]
        .map(u32::to_le_bytes)
        .concat();
    text.into_iter()
        .filter(u8::is_ascii_graphic)
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_the_base_features_and_covers_itself() {
        let set = cpu_set();
        assert_eq!(set, cpu_set());
        assert!(set.covers(&set));
        assert_eq!(set.flags[1] & bits(&[25, 26]), bits(&[25, 26]), "no SSE2");
        assert!(!set.vendor.is_empty() && set.vendor.len() <= 12);
        if set.xcr0 != 0 {
            assert_eq!(set.xcr0 & 3, 3, "x87 and SSE state are always enabled");
            assert!(set.xsave_bytes >= 576, "legacy area and header");
        }
    }

    #[test]
    fn layout_has_every_enabled_component() {
        let (set, layout) = (cpu_set(), xsave());
        assert!(layout.is_sane(), "{layout:?}");
        assert_eq!(layout.bytes, set.xsave_bytes);
        let bits = layout.parts.iter().fold(3, |all, p| all | 1 << p.number);
        assert_eq!(bits, set.xcr0 | 3);
        assert!(layout.refuses(layout, set.xcr0).is_none());
    }

    #[test]
    fn features_match_those_of_the_kernel() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let line = info.lines().find(|line| line.starts_with("flags")).unwrap();
        let check = |name: &str, have: bool| {
            assert_eq!(
                line.split_whitespace().any(|flag| flag == name),
                have,
                "{name}"
            );
        };
        let set = cpu_set();
        check("ssse3", set.flags[0] & 1 << 9 != 0);
        check("avx2", set.flags[2] & 1 << 5 != 0);
        check("avx512f", set.flags[2] & 1 << 16 != 0);
        check("xsavec", set.flags[6] & 2 != 0);
        check("lahf_lm", set.flags[7] & 1 != 0);
    }
}
