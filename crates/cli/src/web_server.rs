//! `armento web-server`: serves the dashboard. Its standard input begins with what to do, and ends when it is to end.
//!
//! From: `noded/src/web/server.rs`. Next: `web/src/serve.rs`. It has been started as a user without rights.

use crate::{out, sys};
use armento_client::api::{WebStart, WebUp};
use armento_client::{encode, read_line};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;

pub const VERB: &str = "web-server";

/// Returns the exit code. Before: this process has one thread.
pub fn main() -> i32 {
    let mut input = BufReader::new(io::stdin());
    let bound = prepare(&mut input);
    let said = match &bound {
        Ok(bound) => WebUp::Up { port: bound.port() },
        Err(why) => WebUp::Unable { why: why.clone() },
    };
    if !answer(&said) {
        return out::FAILED;
    }
    let served = bound.and_then(|bound| {
        ends_with(input).map_err(|e| e.to_string())?;
        armento_web::serve(bound).map_err(|e| e.to_string())
    });
    match served {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("armento {VERB}: {e}");
            out::FAILED
        }
    }
}

fn prepare(input: &mut impl BufRead) -> Result<armento_web::Bound, String> {
    let start: WebStart = read_line(input).map_err(|e| format!("no instructions: {e}"))?;
    sys::be_ordinary_to_oom();
    // Whatever it is made to run has no more rights than it has.
    rustix::thread::set_no_new_privs(true).map_err(|e| e.to_string())?;
    armento_web::bind(start).map_err(|e| e.to_string())
}

fn answer(said: &WebUp) -> bool {
    let line = encode(said);
    let written = line.is_ok_and(|line| {
        let mut out = io::stdout();
        out.write_all(&line).and_then(|()| out.flush()).is_ok()
    });
    if !written {
        eprintln!("armento {VERB}: the daemon does not listen");
    }
    written
}

/// The daemon holds the other end: however it ends, this process does.
fn ends_with(mut input: impl Read + Send + 'static) -> io::Result<()> {
    let until = move || {
        let mut rest = [0; 64];
        while !matches!(input.read(&mut rest), Ok(0) | Err(_)) {}
        std::process::exit(0);
    };
    thread::Builder::new()
        .name("stdin".into())
        .spawn(until)
        .map(drop)
}
