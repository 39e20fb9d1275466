//! `armento lab proxy`: the arguments of the proxy for tests.

use crate::proxy::{self, Fault, Plan};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;

pub const HELP: &str = "Example:
  armento lab proxy --listen 127.0.0.1:7999 &
  ARMENTO_DIAL_VIA=127.0.0.1:7999 armento run --on n2 make";

#[derive(Debug, Args)]
pub struct Proxy {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Where connections lead [default: the first line of each connection, as with ARMENTO_DIAL_VIA]
    #[arg(long, value_name = "IP:PORT")]
    to: Option<SocketAddr>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes between two faults of one direction
    #[arg(long, default_value = "1000..1000000", value_parser = range, value_name = "A..B")]
    bytes: RangeInclusive<u64>,
    /// Milliseconds between two faults of one direction
    #[arg(long, default_value = "100..1000", value_parser = range, value_name = "A..B")]
    every: RangeInclusive<u64>,
    /// How long delays and stalls take, milliseconds
    #[arg(long, default_value = "1..300", value_parser = range, value_name = "A..B")]
    pause: RangeInclusive<u64>,
    /// Kinds of faults; none if none is named
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
}

/// `A..B`, both included.
fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |t: &str| t.parse().map_err(|e| format!("{t:?}: {e}"));
    match text.split_once("..") {
        Some((a, b)) if number(a)? <= number(b)? => Ok(number(a)?..=number(b)?),
        _ => Err("it is two numbers, `A..B`, the smaller first".into()),
    }
}

/// Prints its address, then each fault.
pub fn run(p: Proxy) -> Result<i32> {
    let listener = TcpListener::bind(p.listen)?;
    say!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let plan = Plan {
        seed: p.seed,
        bytes: p.bytes,
        every_ms: p.every,
        pause_ms: p.pause,
        faults: p.faults,
    };
    proxy::serve(&listener, p.to, &plan, |connection, direction, fault| {
        // Output that cannot be written is ignored: the faults go on.
        let _ = writeln!(
            std::io::stdout(),
            "connection {connection} direction {direction} {fault:?}"
        );
    })?;
    Ok(0)
}
