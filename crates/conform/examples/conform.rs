//! The suite as a separate program: `cargo run -p armento-conform --example conform -- --list`.

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

fn main() {
    let code = armento_conform::run(&Cli::parse().args).unwrap_or_else(|cause| {
        eprintln!("conform: {cause:#}");
        2
    });
    std::process::exit(code);
}
