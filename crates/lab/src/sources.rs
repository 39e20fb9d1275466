//! Real C sources that are built in labs: zstd's library, as cargo has unpacked it to build this workspace.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The library's own makefile builds everything three times, with options that depend on the machine. Expects the sources in
/// `lib`, and makes `obj/libzstd.a`.
pub const MAKEFILE: &str = "\
SRCS := $(wildcard lib/common/*.c lib/compress/*.c lib/decompress/*.c lib/dictBuilder/*.c lib/deprecated/*.c lib/legacy/*.c)
OBJS := $(patsubst lib/%.c,obj/%.o,$(SRCS)) obj/huf.o
CFLAGS := -O2 -Ilib -Ilib/common -Ilib/legacy -DZSTD_LEGACY_SUPPORT=1 -DZSTD_MULTITHREAD -DXXH_NAMESPACE=ZSTD_
obj/libzstd.a: $(OBJS)
\tar rcs $@ $^
obj/%.o: lib/%.c
\t@mkdir -p $(dir $@)
\t$(CC) $(CFLAGS) -c -o $@ $<
obj/huf.o: lib/decompress/huf_decompress_amd64.S
\t@mkdir -p obj
\t$(CC) $(CFLAGS) -c -o $@ $<
";

/// zstd's `lib`.
pub fn zstd() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let registry = home
        .context("there is no home directory")?
        .join("registry/src");
    let each = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let crates = each(&registry).flat_map(|index| each(&index.path()));
    let found = crates
        .filter(|c| c.file_name().to_string_lossy().starts_with("zstd-sys-"))
        .map(|c| c.path().join("zstd/lib"))
        .find(|lib| lib.is_dir());
    found.with_context(|| {
        format!(
            "the sources of zstd are not in {}\nhint: `cargo fetch` in the sources of Armento brings them",
            registry.display()
        )
    })
}
