//! The suite as a program of its own: `cargo run -p armento-conform --example conform -- --list`.

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "conform",
    about = "Runs guests natively, at home, away and in a storm"
)]
struct Cli {
    #[command(flatten)]
    args: armento_conform::Args,
}

fn main() -> anyhow::Result<()> {
    let code = armento_conform::run(&Cli::parse().args)?;
    std::process::exit(code);
}
