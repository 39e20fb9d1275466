//! The filter agrees with the table, for every number and for the arguments it tests.

use armento_abi::filter::{
    ALLOW, ALU_AND, INSNS_MAX, JA, JEQ, JGE, JSET, LD_ABS, NOTIFY, RET, SockFilter, program,
};
use armento_abi::{Verdict, place_of};

const X86_64: u32 = 0xc000_003e;

/// Runs the filter as the kernel would; returns its action and the number of steps.
fn run(program: &[SockFilter], arch: u32, nr: u32, args: &[u64; 6]) -> (u32, usize) {
    let mut data = Vec::new();
    data.extend(nr.to_le_bytes());
    data.extend(arch.to_le_bytes());
    data.extend([0; 8]);
    for arg in args {
        data.extend(arg.to_le_bytes());
    }
    let (mut at, mut acc, mut steps) = (0, 0u32, 0);
    loop {
        let i = program[at];
        steps += 1;
        at += 1;
        let jump = |yes: bool| usize::from(if yes { i.jt } else { i.jf });
        match i.code {
            LD_ABS => {
                assert_eq!(i.k % 4, 0, "the kernel refuses unaligned loads");
                let word = &data[i.k as usize..i.k as usize + 4];
                acc = u32::from_le_bytes(word.try_into().expect("four"));
            }
            ALU_AND => acc &= i.k,
            JA => at += i.k as usize,
            JEQ => at += jump(acc == i.k),
            JGE => at += jump(acc >= i.k),
            JSET => at += jump(acc & i.k != 0),
            RET => return (i.k, steps),
            code => panic!("instruction {code:#x}"),
        }
    }
}

/// Values at which the result of some condition of the table changes.
const VALUES: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    11,
    12,
    15,
    16,
    17,
    18,
    0x22,
    0x32,
    0x21,
    0x20,
    0x4_0022,
    128,
    129,
    137,
    256,
    265,
    0x1001,
    0x1004,
    0x1005,
    0x3001,
    0x4000_0000,
    0xffff_ffff,
    0x5356_4d41,
    0x1_0000_0000,
    0x1_0000_0022,
    0xffff_ffff_0000_0000,
    u64::MAX,
];

#[test]
fn filter_agrees_with_table() {
    let program = program();
    assert!(program.len() < INSNS_MAX, "{}", program.len());
    let check = |nr: u64, args: [u64; 6]| {
        let want = match place_of(nr, &args) {
            Verdict::Body => ALLOW,
            Verdict::Host | Verdict::Home | Verdict::ComeHome(_) => NOTIFY,
        };
        let (got, _) = run(&program, X86_64, nr as u32, &args);
        assert_eq!(got, want, "call {nr} with {args:x?}");
    };
    for nr in 0..600 {
        for &a in VALUES {
            check(nr, [a; 6]);
            for i in 0..6 {
                for rest in [0, 1, u64::MAX] {
                    let mut args = [rest; 6];
                    args[i] = a;
                    check(nr, args);
                }
            }
        }
    }
    // futex depends on two arguments.
    for &op in VALUES {
        for &timeout in VALUES {
            check(202, [0x1000, op, 0, timeout, 0, 0]);
        }
    }
    for nr in [
        0x3fff_ffff,
        0x4000_0000,
        0x4000_0027,
        0x8000_0000,
        0xffff_ffff,
    ] {
        check(nr, [0; 6]);
    }
}

#[test]
fn foreign_architectures_are_notified() {
    let program = program();
    for arch in [0x4000_0003, 0, u32::MAX] {
        for nr in 0..600 {
            assert_eq!(run(&program, arch, nr, &[0; 6]).0, NOTIFY);
        }
    }
}

#[test]
fn jumps_stay_inside() {
    let program = program();
    for (at, i) in program.iter().enumerate() {
        let far = match i.code {
            JA => i.k as usize,
            JEQ | JGE | JSET => usize::from(i.jt.max(i.jf)),
            RET => continue,
            _ => 0,
        };
        assert!(at + 1 + far < program.len(), "instruction {at}");
    }
    assert_eq!(program.last().map(|i| i.code), Some(RET));
}

/// Calls that a body makes often must cost few instructions, and those without conditions must load nothing but number
/// and architecture, so that the kernel's bitmap contains them.
#[test]
fn local_calls_are_cheap() {
    let program = program();
    let check = |nr: u32, args: [u64; 6], most: usize| {
        let (verdict, steps) = run(&program, X86_64, nr, &args);
        assert_eq!(verdict, ALLOW, "call {nr}");
        assert!(steps <= most, "call {nr} takes {steps} instructions");
    };
    check(202, [0, 128, 0, 0, 0, 0], 14); // futex wait without timeout
    check(202, [0, 129, 1, 0, 0, 0], 10); // futex wake
    check(9, [0, 4096, 3, 0x22, u64::MAX, 0], 20); // mmap
    check(14, [0; 6], 20); // rt_sigprocmask
    for nr in [10, 11, 12, 14, 15, 24, 28, 39, 186, 218, 309, 318, 334] {
        for i in 0..6 {
            let mut args = [0; 6];
            args[i] = u64::MAX;
            check(nr, args, 20);
        }
    }
}
