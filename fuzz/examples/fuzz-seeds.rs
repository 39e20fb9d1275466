//! Writes the seeds below `fuzz/corpus/`: after a change of a wire format, run it and commit the changed files.

use armento_fuzz::seeds;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, name, bytes) in seeds::all() {
        std::fs::create_dir_all(corpus.join(target))?;
        std::fs::write(corpus.join(target).join(name), bytes)?;
    }
    Ok(())
}
