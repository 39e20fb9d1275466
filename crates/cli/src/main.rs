//! `armento`: one binary, with a verb for each command, for the daemon, for keepers and for hosts.
//!
//! This crate decides nothing: it parses arguments, asks the daemon or calls a library, and prints. Start at [`Verb`].
//! Exit codes: 125 Armento itself failed, 126 and 127 the program cannot be run or found, 128+N it ended by signal N;
//! otherwise the program's own.

mod allocation;
mod bench;
mod boot;
mod booted;
mod calls;
mod checkpoint;
mod choice;
mod context;
mod dfsa;
mod discover;
mod drain;
mod dry_run;
mod fabric;
mod farm;
mod files;
mod history;
mod hold;
mod hostfile;
mod invite;
mod join;
mod lease_holder;
mod leave;
mod log;
mod metrics;
mod mfs;
mod migrate;
mod mosix;
mod mpi_env;
mod node;
mod nodes;
mod out;
mod pages;
mod progress;
mod ps;
mod recover;
mod restart;
mod run;
mod safe;
mod schema;
mod service;
mod sim;
mod switches;
mod sys;
mod top;
mod trust;
mod upgrade;
mod users;
mod watch;
mod web;
mod web_server;
mod when;
mod why;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::process::ExitCode;

const TOP_HELP: &str = "Examples:
  armento farm init            make a farm; prints the command with which others join
  armento node                 run this node's daemon
  armento run make -j8         run a program; its processes go where there is room
  armento ps                   where they are
  armento top                  ... and where they go, on one screen
  armento doctor               what this machine can and cannot do";

/// Running programs move between machines, and only their speed changes.
#[derive(Parser)]
#[command(name = "armento", version, after_help = TOP_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// The most frequent verbs alone: describing all verbs would take a tenth of the start of one program.
#[derive(Parser)]
#[command(name = "armento")]
struct Frequent {
    #[command(subcommand)]
    verb: FrequentVerb,
}

#[derive(Subcommand)]
enum FrequentVerb {
    /// Run a program; its processes move to nodes with room
    Run(run::Args),
}

#[derive(Subcommand)]
enum Verb {
    /// Make a farm, or a token with which nodes join it
    #[command(subcommand)]
    Farm(farm::Cmd),
    /// Farms that are controlled from a machine that is in none of them
    #[command(subcommand, after_help = context::HELP)]
    Context(context::Cmd),
    /// Join a farm
    Join(join::Args),
    /// Leave the farm: own processes home, guests away, keys deleted
    Leave(leave::Args),
    /// Run this node's daemon; drain a node
    Node(node::Args),
    /// Run a program; its processes move to nodes with room
    Run(run::Args),
    /// Show the farm's nodes
    Nodes(nodes::Args),
    /// Show processes and the nodes where they run
    Ps(ps::Args),
    /// Show what programs that were away did with files
    Files(files::Args),
    /// Files of every node below one directory, /mfs
    #[command(subcommand)]
    Mfs(mfs::Cmd),
    /// Show the mounts that nodes share, where programs open files directly
    Dfsa(dfsa::Args),
    /// Show the farm on one screen: nodes, processes, moves as they happen
    Top(top::Args),
    /// Open the farm in a browser
    Web(web::Args),
    /// Move a running process
    Migrate(migrate::Args),
    /// Write processes into a file, from which they can go on
    Checkpoint(checkpoint::Args),
    /// Keep a running program safe from the loss of its node
    Safe(safe::Args),
    /// Go on from a checkpoint file
    Restart(restart::Args),
    /// Bring a process home and keep it there, for a debugger
    Hold(hold::Args),
    /// Show why a process is where it is
    Why(why::Args),
    /// Show the decisions about own processes, with their figures
    Log(log::Args),
    /// The farm's network from one file: plan, apply, check, find faults
    #[command(subcommand)]
    Fabric(fabric::Cmd),
    /// What nodes without a disk start from
    #[command(subcommand)]
    Boot(boot::Cmd),
    /// Show what jobs used: by user, job, node, day, command
    History(history::Args),
    /// Make a farm on this one machine
    #[command(subcommand)]
    Lab(armento_lab::Cmd),
    /// Run a scenario in virtual time
    Sim(sim::Args),
    /// Test that moved programs behave as unmoved ones
    Conform(armento_conform::Args),
    /// Show what this machine can and cannot do, with remedies
    Doctor(armento_lab::doctor::Args),
    /// Run the published experiment: 24 encoders on a farm of four nodes
    Demo(armento_papers::demo::Args),
    /// Run published experiments, and compare with the published values
    #[command(subcommand)]
    Paper(armento_papers::Cmd),
    /// Run benchmarks of the papers on a lab, on hosts, or on the farm
    #[command(subcommand)]
    Bench(bench::Cmd),
    /// Write a hostfile of the farm's nodes, for mpirun
    Hostfile(hostfile::Args),
    /// Print settings with which the processes of an MPI program can move
    MpiEnv(mpi_env::Args),
    /// The commands of openMosix by their old names: mosrun, mosctl, mps, …
    #[command(subcommand)]
    Mosix(mosix::Cmd),
    /// Print this node's view of the farm as metrics for Prometheus
    Metrics(metrics::Args),
    /// Print the JSON schema of the control API, and of what --json prints
    Schema(schema::Args),
    /// Requests of the service's unit and the package's scripts
    #[command(subcommand, hide = true)]
    Service(service::Cmd),
    /// Write manual pages and completions
    #[command(hide = true)]
    Pages(pages::Args),
}

fn main() -> ExitCode {
    // Internal verbs come first: they must not start a thread or read a setting.
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    // The kernel starts an initramfs's first program by this name.
    if called == "/init" && std::process::id() == 1 {
        armento_provision::init::main();
    }
    if let Some(name) = mosix::old_name(&called) {
        let rest: Vec<_> = words.collect();
        return code(armento_mosix::main(&name, &rest));
    }
    let first = words.next();
    match first.as_ref().and_then(|a| a.to_str()) {
        Some("host") => return code(armento_host::main()),
        Some(armento_keeper::TAKE_OVER) => {
            let state = words.next().and_then(|w| w.to_str()?.parse().ok());
            return code(armento_keeper::succeed(state.unwrap_or(-1)));
        }
        Some(mfs::SERVE) => return code(mfs::serve_main()),
        Some(mfs::MOUNT) => return code(mfs::mount_main(std::env::args_os().nth(2).as_deref())),
        Some(web_server::VERB) => return code(web_server::main()),
        Some(armento_provision::init::RELAY) => {
            let words: Vec<String> = words.filter_map(|w| w.into_string().ok()).collect();
            return code(armento_provision::init::relay_main(&words));
        }
        Some(lease_holder::VERB) => return code(lease_holder::main()),
        Some(upgrade::helper::VERB) => {
            let what: Vec<_> = std::env::args_os().skip(2).collect();
            let word = |i: usize| what.get(i).map(AsRef::as_ref);
            return code(upgrade::helper::main(word(0), word(1)));
        }
        Some(armento_lab::INIT) => armento_lab::init_main(),
        _ => {}
    }
    let name = first
        .as_ref()
        .map_or_else(String::new, |v| v.to_string_lossy().into_owned());
    let verb = match first {
        Some(verb) if verb == "run" => parsed().map(
            |Frequent {
                 verb: FrequentVerb::Run(args),
             }| Verb::Run(args),
        ),
        _ => parsed().map(|cli: Cli| cli.verb),
    };
    match verb {
        Ok(verb) => code(out::finish(context::within(&name, || dispatch(verb)))),
        Err(e) => {
            let asked = !e.use_stderr();
            // Help that cannot be printed (closed pipe) is no failure.
            let _ = e.print();
            code(if asked { 0 } else { out::FAILED })
        }
    }
}

fn parsed<T: Parser>() -> Result<T, clap::Error> {
    let command = T::command().color(out::colour_choice());
    command
        .try_get_matches()
        .and_then(|matches| T::from_arg_matches(&matches))
}

fn dispatch(verb: Verb) -> anyhow::Result<i32> {
    match verb {
        Verb::Farm(cmd) => farm::run(cmd),
        Verb::Context(cmd) => context::run(cmd),
        Verb::Join(args) => join::run(args),
        Verb::Leave(args) => leave::run(args),
        Verb::Node(args) => node::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Nodes(args) => nodes::run(&args),
        Verb::Ps(args) => ps::run(&args),
        Verb::Files(args) => files::run(&args),
        Verb::Mfs(cmd) => mfs::run(&cmd),
        Verb::Dfsa(args) => dfsa::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Web(args) => web::run(&args),
        Verb::Migrate(args) => migrate::run(&args),
        Verb::Checkpoint(args) => checkpoint::run(&args),
        Verb::Safe(args) => safe::run(&args),
        Verb::Restart(args) => restart::run(&args),
        Verb::Hold(args) => hold::run(&args),
        Verb::Why(args) => why::run(&args),
        Verb::Log(args) => log::run(&args),
        Verb::Fabric(cmd) => fabric::run(cmd),
        Verb::Boot(cmd) => boot::run(cmd),
        Verb::History(args) => history::run(&args),
        Verb::Lab(cmd) => armento_lab::run(cmd).map(armento_lab::told),
        Verb::Sim(args) => sim::run(&args),
        Verb::Conform(args) => armento_conform::run(&args),
        Verb::Doctor(args) if args.calls => {
            calls::run(args.json);
            Ok(0)
        }
        Verb::Doctor(args) => armento_lab::doctor::run(args).map(armento_lab::told),
        Verb::Demo(args) => armento_papers::demo::run(args).map(armento_lab::told),
        Verb::Paper(cmd) => armento_papers::run(cmd).map(armento_lab::told),
        Verb::Bench(cmd) => bench::run(cmd).map(armento_lab::told),
        Verb::Hostfile(args) => hostfile::run(&args),
        Verb::MpiEnv(args) => mpi_env::run(&args),
        Verb::Mosix(cmd) => mosix::run(&cmd),
        Verb::Metrics(args) => metrics::run(&args),
        Verb::Schema(args) => schema::run(&args),
        Verb::Service(cmd) => service::run(cmd),
        Verb::Pages(args) => pages::run(&args, Cli::command()),
    }
}

fn code(n: i32) -> ExitCode {
    // A number that is no valid exit status is a failure of Armento.
    u8::try_from(n).map_or(ExitCode::from(125), ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_valid_and_every_verb_has_examples() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let below = |c: &clap::Command| -> Vec<clap::Command> {
            let verbs = c.get_subcommands().filter(|v| v.get_name() != "help");
            verbs.cloned().collect()
        };
        let mut open = below(&command);
        while let Some(mut verb) = open.pop() {
            let deeper = below(&verb);
            if deeper.is_empty() {
                let help = verb.render_long_help().to_string();
                let name = verb.get_name();
                assert!(help.contains("Example"), "`{name} --help` shows no example");
            }
            open.extend(deeper);
        }
    }
}
