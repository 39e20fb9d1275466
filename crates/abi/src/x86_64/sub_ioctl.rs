//! ioctl commands. Sizes are listed here, never taken from the command number: drivers may follow pointers inside the
//! argument of unknown commands.
//!
//! Omitted on purpose: SIOCGIFCONF, SIOCETHTOOL, FIDEDUPERANGE, FS_IOC_FIEMAP (nested or counted data), SG_IO, sound,
//! DRM, TUN, BTRFS_* (devices and their own structures).

use super::command::{Command, IN_INT, OUT_INT};
use crate::Arg::{In, InOut, Out, Val};
use crate::Len::Const;

/// Outputs in which a driver may leave bytes unchanged are `InOut`.
/// KERNEL: asm-generic/ioctls.h, linux/sockios.h, linux/fs.h, linux/mtio.h, Linux 6.18.
pub(super) const IOCTL: &[Command] = &[
    (0x1, InOut(Const(4))),           // FIBMAP
    (0x2, OUT_INT),                   // FIGETBSZ
    (0x301, Out(Const(16))),          // HDIO_GETGEO
    (0x125d, Val),                    // BLKROSET
    (0x125e, OUT_INT),                // BLKROGET
    (0x1260, Out(Const(8))),          // BLKGETSIZE
    (0x1261, Val),                    // BLKFLSBUF
    (0x1263, Out(Const(8))),          // BLKRAGET
    (0x1268, OUT_INT),                // BLKSSZGET
    (0x1278, OUT_INT),                // BLKIOMIN
    (0x1279, OUT_INT),                // BLKIOOPT
    (0x127a, OUT_INT),                // BLKALIGNOFF
    (0x127b, OUT_INT),                // BLKPBSZGET
    (0x127e, Out(Const(2))),          // BLKROTATIONAL
    (0x4b33, Out(Const(1))),          // KDGKBTYPE
    (0x4b3b, OUT_INT),                // KDGETMODE
    (0x4b44, OUT_INT),                // KDGKBMODE
    (0x5401, Out(Const(36))),         // TCGETS
    (0x5402, In(Const(36))),          // TCSETS
    (0x5403, In(Const(36))),          // TCSETSW
    (0x5404, In(Const(36))),          // TCSETSF
    (0x5405, InOut(Const(18))),       // TCGETA
    (0x5406, In(Const(18))),          // TCSETA
    (0x5407, In(Const(18))),          // TCSETAW
    (0x5408, In(Const(18))),          // TCSETAF
    (0x5409, Val),                    // TCSBRK
    (0x540a, Val),                    // TCXONC
    (0x540b, Val),                    // TCFLSH
    (0x540c, Val),                    // TIOCEXCL
    (0x540d, Val),                    // TIOCNXCL
    (0x540e, Val),                    // TIOCSCTTY
    (0x540f, OUT_INT),                // TIOCGPGRP
    (0x5410, IN_INT),                 // TIOCSPGRP
    (0x5411, OUT_INT),                // TIOCOUTQ
    (0x5412, In(Const(1))),           // TIOCSTI
    (0x5413, Out(Const(8))),          // TIOCGWINSZ
    (0x5414, In(Const(8))),           // TIOCSWINSZ
    (0x5415, OUT_INT),                // TIOCMGET
    (0x5416, IN_INT),                 // TIOCMBIS
    (0x5417, IN_INT),                 // TIOCMBIC
    (0x5418, IN_INT),                 // TIOCMSET
    (0x5419, OUT_INT),                // TIOCGSOFTCAR
    (0x541a, IN_INT),                 // TIOCSSOFTCAR
    (0x541b, OUT_INT),                // FIONREAD
    (0x541d, Val),                    // TIOCCONS
    (0x5420, IN_INT),                 // TIOCPKT
    (0x5421, IN_INT),                 // FIONBIO
    (0x5422, Val),                    // TIOCNOTTY
    (0x5423, IN_INT),                 // TIOCSETD
    (0x5424, OUT_INT),                // TIOCGETD
    (0x5425, Val),                    // TCSBRKP
    (0x5427, Val),                    // TIOCSBRK
    (0x5428, Val),                    // TIOCCBRK
    (0x5429, OUT_INT),                // TIOCGSID
    (0x5437, Val),                    // TIOCVHANGUP
    (0x5441, Val),                    // TIOCGPTPEER
    (0x5450, Val),                    // FIONCLEX
    (0x5451, Val),                    // FIOCLEX
    (0x5452, IN_INT),                 // FIOASYNC
    (0x545c, Val),                    // TIOCMIWAIT
    (0x545d, Out(Const(80))),         // TIOCGICOUNT
    (0x5460, Out(Const(8))),          // FIOQSIZE
    (0x5603, Out(Const(6))),          // VT_GETSTATE
    (0x8901, IN_INT),                 // FIOSETOWN
    (0x8902, IN_INT),                 // SIOCSPGRP
    (0x8903, OUT_INT),                // FIOGETOWN
    (0x8904, OUT_INT),                // SIOCGPGRP
    (0x8905, OUT_INT),                // SIOCATMARK
    (0x8906, Out(Const(16))),         // SIOCGSTAMP
    (0x8907, Out(Const(16))),         // SIOCGSTAMPNS
    (0x8910, InOut(Const(40))),       // SIOCGIFNAME
    (0x8913, InOut(Const(40))),       // SIOCGIFFLAGS
    (0x8915, InOut(Const(40))),       // SIOCGIFADDR
    (0x8917, InOut(Const(40))),       // SIOCGIFDSTADDR
    (0x8919, InOut(Const(40))),       // SIOCGIFBRDADDR
    (0x891b, InOut(Const(40))),       // SIOCGIFNETMASK
    (0x891d, InOut(Const(40))),       // SIOCGIFMETRIC
    (0x8921, InOut(Const(40))),       // SIOCGIFMTU
    (0x8927, InOut(Const(40))),       // SIOCGIFHWADDR
    (0x8933, InOut(Const(40))),       // SIOCGIFINDEX
    (0x8942, InOut(Const(40))),       // SIOCGIFTXQLEN
    (0x894c, Val),                    // SIOCGSKNS
    (0xb701, Val),                    // NS_GET_USERNS
    (0xb702, Val),                    // NS_GET_PARENT
    (0xb703, Val),                    // NS_GET_NSTYPE
    (0xb704, OUT_INT),                // NS_GET_OWNER_UID
    (0x4004_5431, IN_INT),            // TIOCSPTLCK
    (0x4004_5436, Val),               // TIOCSIG
    (0x4004_9409, Val),               // FICLONE
    (0x4008_6602, IN_INT),            // FS_IOC_SETFLAGS
    (0x4008_6d01, In(Const(8))),      // MTIOCTOP
    (0x401c_5820, In(Const(28))),     // FS_IOC_FSSETXATTR
    (0x4020_940d, In(Const(32))),     // FICLONERANGE
    (0x402c_542b, In(Const(44))),     // TCSETS2
    (0x402c_542c, In(Const(44))),     // TCSETSW2
    (0x402c_542d, In(Const(44))),     // TCSETSF2
    (0x8004_5200, OUT_INT),           // RNDGETENTCNT
    (0x8004_5430, OUT_INT),           // TIOCGPTN
    (0x8004_5432, OUT_INT),           // TIOCGDEV
    (0x8004_5438, OUT_INT),           // TIOCGPKT
    (0x8004_5439, OUT_INT),           // TIOCGPTLCK
    (0x8004_5440, OUT_INT),           // TIOCGEXCL
    (0x8008_1272, Out(Const(8))),     // BLKGETSIZE64
    (0x8008_6601, OUT_INT),           // FS_IOC_GETFLAGS
    (0x8008_6d03, Out(Const(8))),     // MTIOCPOS
    (0x8008_7601, InOut(Const(4))),   // FS_IOC_GETVERSION
    (0x801c_581f, Out(Const(28))),    // FS_IOC_FSGETXATTR
    (0x802c_542a, Out(Const(44))),    // TCGETS2
    (0x8030_6d02, Out(Const(48))),    // MTIOCGET
    (0x8100_9431, InOut(Const(256))), // FS_IOC_GETFSLABEL
    (0xc018_5879, InOut(Const(24))),  // FITRIM
];
