//! Kinds of arguments: which are pointers, to how many bytes, in which direction.
//!
//! A NULL pointer always stays NULL, whatever the kind.

/// One argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A number, sent unchanged.
    Val,
    /// A descriptor number of home.
    Fd,
    /// A NUL-terminated string of at most PATH_MAX bytes.
    Path,
    /// Bytes the kernel reads.
    In(Len),
    /// Bytes the kernel reads, truncated where the body's memory ends; the argument named holds their count and is
    /// reduced with them (write).
    InSome(u8),
    /// Bytes the kernel writes: all of `Len` on success, or as `Len` says.
    Out(Len),
    /// Bytes the kernel may read and may write in parts.
    InOut(Len),
    /// An array of strings ended by NULL (argv, envp).
    Strs,
    /// An iovec array, its count in the next argument; `IovIn` is truncated like `InSome`.
    IovIn,
    IovOut,
    /// struct msghdr.
    MsgIn,
    MsgOut,
    /// An array of struct mmsghdr, its count in the next argument.
    MmsgIn,
    MmsgOut,
    /// Buffer for a socket address; the argument named is the [`Arg::AddrLen`].
    Addr(u8),
    /// socklen_t, in and out.
    AddrLen,
    /// In and out buffer. The argument named points to an int with its size.
    InOutBy(u8),
    /// An fd_set of as many bits as argument 0 says.
    Fds,
    /// Timeout into which the kernel writes the remaining time, also when the call fails.
    Timeout,
    /// Temporary signal mask: sent as NULL, because the engine sets masks itself.
    Mask,
    /// The command decides: see the sub-tables.
    Sub,
}

/// How many bytes a pointer argument covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Len {
    /// A struct of this size.
    Const(u32),
    /// A struct of this size that is written only when the call returns at least 1.
    Hit(u32),
    /// A struct of this size that is written only when the call is interrupted.
    Intr(u32),
    /// As many bytes as the argument (size_t) says.
    Arg(u8),
    /// As many bytes as the argument (int) says, none if negative, at most the bound: the kernel refuses or ignores
    /// anything beyond it.
    Int(u8, u32),
    /// The argument (unsigned int) times the size of an element.
    ArgTimes(u8, u32),
    /// The argument (size_t) and a fixed head.
    ArgPlus(u8, u32),
    /// As many bytes as the argument (unsigned int) says, at most the bound.
    Uint(u8, u32),
    /// Capacity in the argument (size_t); the call returns how many bytes are valid.
    Ret(u8),
    /// The same for a capacity of type int.
    RetInt(u8),
    /// Capacity in the argument, after a fixed head that is not counted (msgrcv).
    RetPlus(u8, u32),
    /// Capacity in elements in the argument; the call returns how many are valid.
    RetTimes(u8, u32),
    /// The first u32 of the struct is its size; 0 means the size given.
    Head(u32),
}
