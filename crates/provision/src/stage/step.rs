//! The steps of a boot, in their order.

use serde::{Deserialize, Serialize};

macro_rules! steps {
    ($($name:ident $word:literal $text:literal),* $(,)?) => {
        /// One step of a machine's boot. The order is that in which they happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Step { $($name),* }
        impl Step {
            /// All of them, from the first.
            pub const ALL: &[Step] = &[$(Step::$name),*];
            /// As `armento boot status` shows it.
            pub fn word(self) -> &'static str { match self { $(Step::$name => $word),* } }
            /// What has happened.
            pub fn text(self) -> &'static str { match self { $(Step::$name => $text),* } }
            /// The step of a word.
            pub fn from_word(word: &str) -> Option<Step> {
                match word { $($word => Some(Step::$name),)* _ => None }
            }
        }
    };
}
steps!(
    Asked "asked" "its firmware asked for an address",
    Address "address" "it was offered an address",
    Loader "loader" "it was given iPXE",
    Script "script" "iPXE asked what to boot",
    Kernel "kernel" "it fetched the kernel",
    Initrd "initrd" "it fetched the initramfs",
    Network "network" "the initramfs has its network",
    Root "root" "its root is mounted",
    System "system" "systemd runs",
    Joined "joined" "it is a node of the farm",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back_to_their_steps() {
        for step in Step::ALL {
            assert_eq!(Step::from_word(step.word()), Some(*step));
            let json = serde_json::to_string(step).expect("json");
            assert_eq!(json, format!("\"{}\"", step.word()));
        }
        assert_eq!(Step::from_word("boot"), None);
    }
}
