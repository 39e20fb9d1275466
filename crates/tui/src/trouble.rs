//! Why a request has no answer, and what to do.

use armento_client::AskError;

/// An error and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub message: String,
    pub hint: String,
}

impl From<&AskError> for Trouble {
    fn from(e: &AskError) -> Trouble {
        Trouble {
            message: e.to_string(),
            hint: e.hint().to_owned(),
        }
    }
}
