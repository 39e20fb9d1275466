//! The lab alone, without the rest of `armento`: `lab up --no-farm`, `lab exec n1 -- CMD`, `lab doctor`.

use clap::Parser;

#[derive(Parser)]
enum Args {
    #[command(flatten)]
    Lab(armento_lab::Cmd),
    /// Show what this machine can and cannot do
    Doctor(armento_lab::doctor::Args),
}

fn main() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|a| a == armento_lab::INIT)
    {
        armento_lab::init_main();
    }
    let done = match Args::parse() {
        Args::Lab(cmd) => armento_lab::run(cmd),
        Args::Doctor(args) => armento_lab::doctor::run(args),
    };
    let code = done.map(armento_lab::told).unwrap_or_else(|e| {
        eprintln!("lab: {e:#}");
        1
    });
    std::process::exit(code)
}
