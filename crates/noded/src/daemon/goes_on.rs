//! The end of a daemon, and whether its process goes on as another program.

use crate::error::FarmError;
use crate::upgrade::become_program;

/// The daemon has ended; if it `restarts`, this process becomes the program at its path.
pub fn goes_on(restarts: bool) -> Result<(), FarmError> {
    match restarts {
        true => Err(FarmError::state("the daemon cannot be started again")(
            become_program(),
        )),
        false => Ok(()),
    }
}
