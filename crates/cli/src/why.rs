//! `armento why PID`.

use crate::out::{ANSWER, ask, confused, say, say_json};
use armento_client::api::{Answer, Ask};
use armento_model::Pid;
use serde_json::json;

const HELP: &str = "Examples:
  armento why 4711
  armento why 4711 --json | jq -r .stay";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The process, as its home numbers it
    pid: Pid,
    /// Print JSON (schema armento.why/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let answer = ask(Ask::Why { pid: args.pid }, ANSWER)?;
    let Answer::Why {
        pid,
        place,
        stay,
        explanation,
        remedy,
    } = answer
    else {
        return Err(confused());
    };
    if args.json {
        let fields = json!({
            "pid": pid, "place": place, "stay": stay,
            "explanation": explanation, "remedy": remedy,
        });
        say_json("armento.why/1", fields);
        return Ok(0);
    }
    let place = place.map_or_else(|| "an unknown node".into(), |n| n.to_string());
    let code = stay.map_or_else(String::new, |s| format!(" [{}]", s.code()));
    say(&format!(
        "{pid} is on {place}{code}: {explanation}\nremedy: {remedy}\n"
    ));
    Ok(0)
}
