//! The laboratory alone, without the rest of `armento`: `lab up --no-farm`, `lab exec n1 -- CMD`.

use clap::Parser;

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    cmd: armento_lab::Cmd,
}

fn main() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|a| a == armento_lab::INIT)
    {
        armento_lab::init_main();
    }
    match armento_lab::run(Args::parse().cmd) {
        Ok(code) => std::process::exit(code),
        Err(e) => {
            eprintln!("lab: {e:#}");
            std::process::exit(1);
        }
    }
}
