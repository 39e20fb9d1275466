//! `armento schema`.

use crate::out::say;

const HELP: &str = "Examples:
  armento schema > armento.schema.json
  armento schema | jq '.\"$defs\".NodeInfo.properties | keys'

`$defs` has each type, `line` and `reply` what a control session carries, `documents` what --json prints.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// For uniformity with other commands: the schema is JSON in any case
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let _ = args.json;
    say(&format!("{:#}\n", armento_schema::document()));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use armento_schema::DOCUMENTS;
    use clap::{Arg, Command, CommandFactory as _};

    /// Names of documents in a text.
    fn named(text: &str) -> Vec<String> {
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || "./-".contains(c));
        let words = text.match_indices("armento").map(|(at, _)| {
            let word = &text[at..];
            word[..word.find(is_end).unwrap_or(word.len())].to_owned()
        });
        let is_document = |w: &String| w.contains('/') && !w.starts_with("armento/");
        words.filter(is_document).collect()
    }

    fn help(arg: &Arg) -> String {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        help + &arg
            .get_long_help()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    #[test]
    fn every_json_option_names_a_document_with_a_schema() {
        let known: Vec<&str> = DOCUMENTS.iter().map(|(name, _)| *name).collect();
        let mut command = crate::Cli::command();
        command.build();
        let mut open = vec![("armento".to_owned(), command)];
        let mut said = Vec::new();
        while let Some((name, command)) = open.pop() {
            for arg in command.get_arguments() {
                let names = named(&help(arg));
                for name in &names {
                    assert!(known.contains(&name.as_str()), "{name} has no schema");
                }
                // The schema itself is JSON in any case.
                let prints = arg.get_id() == "json" && name != "armento schema";
                assert!(
                    !prints || !names.is_empty(),
                    "`{name} --json` names no document"
                );
                said.extend(names);
            }
            let below = |c: &Command| (format!("{name} {}", c.get_name()), c.clone());
            open.extend(command.get_subcommands().map(below));
        }
        for name in known {
            assert!(said.iter().any(|s| s == name), "no option names {name}");
        }
    }
}
