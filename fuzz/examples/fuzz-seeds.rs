//! Writes the seeds below `fuzz/corpus/`: after a change of what travels, run it and commit what changed.

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
