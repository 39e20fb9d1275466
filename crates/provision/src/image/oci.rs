//! Archives of roots: one tar, or an OCI image with a tar a layer, also as `docker save` and `podman save` write it.
//!
//! Source: OCI Image Format 1.1, image-layout.md, layer.md (whiteouts).

use crate::problem::{At, BootError};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Component, Path, PathBuf};

/// Layers of one image. Source: Docker allows 127.
const LAYERS_MAX: usize = 512;
/// Bytes of an index or a manifest.
const JSON_MAX: u64 = 4 << 20;
/// Manifests that lead to manifests.
const DEPTH_MAX: u32 = 4;
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// Unpacks an archive to an empty directory. `beside`: where blobs of an OCI image may be kept meanwhile.
pub fn unpack(archive: &Path, root: &Path, beside: &Path) -> Result<(), BootError> {
    let layered = first_names(archive)?;
    if !layered {
        return layer(File::open(archive).at(archive)?, archive, root);
    }
    fs::create_dir(beside).at(beside)?;
    let mut tar = tar::Archive::new(opened(File::open(archive).at(archive)?, archive)?);
    tar.set_preserve_ownerships(false);
    tar.unpack(beside).at(beside)?;
    let layers = layers(beside, archive)?;
    for blob in layers {
        layer(File::open(&blob).at(&blob)?, archive, root)?;
    }
    fs::remove_dir_all(beside).at(beside)
}

/// Whether the archive is an image with layers: it has `index.json` or `manifest.json` at its top.
fn first_names(archive: &Path) -> Result<bool, BootError> {
    let mut tar = tar::Archive::new(opened(File::open(archive).at(archive)?, archive)?);
    for entry in tar.entries().map_err(|e| damaged(archive, e))? {
        let entry = entry.map_err(|e| damaged(archive, e))?;
        let path = entry.path().map_err(|e| damaged(archive, e))?;
        let path = path.strip_prefix(".").unwrap_or(&path);
        if path == Path::new("index.json") || path == Path::new("manifest.json") {
            return Ok(true);
        }
        // A root has these; an image does not.
        if path.starts_with("etc") || path.starts_with("usr") {
            return Ok(false);
        }
    }
    Ok(false)
}

/// The layers of an unpacked image, from the lowest.
fn layers(dir: &Path, archive: &Path) -> Result<Vec<PathBuf>, BootError> {
    let wrong = |what: &str| BootError::Damaged {
        path: archive.to_owned(),
        what: what.to_owned(),
    };
    let found = if dir.join("index.json").is_file() {
        let mut manifest = json(&dir.join("index.json"))?;
        let mut depth = 0;
        while manifest["layers"].as_array().is_none() {
            depth += 1;
            let all = manifest["manifests"]
                .as_array()
                .filter(|_| depth <= DEPTH_MAX);
            let all = all.ok_or_else(|| wrong("its index leads to no layers"))?;
            let chosen = choose(all)?;
            let digest = chosen["digest"].as_str().unwrap_or_default();
            manifest = json(&blob(dir, digest).ok_or_else(|| wrong("a digest is missing"))?)?;
        }
        let digests = manifest["layers"].as_array().into_iter().flatten();
        digests
            .map(|l| blob(dir, l["digest"].as_str().unwrap_or_default()))
            .collect::<Option<Vec<_>>>()
    } else {
        let manifest = json(&dir.join("manifest.json"))?;
        let layers = manifest[0]["Layers"].as_array().into_iter().flatten();
        layers
            .map(|l| below(dir, l.as_str().unwrap_or_default()))
            .collect()
    };
    let found = found.ok_or_else(|| wrong("a layer is named in a way that leads out of it"))?;
    if found.is_empty() || found.len() > LAYERS_MAX {
        return Err(wrong(&format!("it has {} layers", found.len())));
    }
    Ok(found)
}

/// The image for this machine, of several.
fn choose(all: &[Value]) -> Result<&Value, BootError> {
    let of = |m: &&Value| m["platform"]["architecture"].as_str().map(str::to_owned);
    let own = match super::elf::OWN {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |m: &&Value| of(m).is_none_or(|a| a == own);
    all.iter().find(fits).ok_or_else(|| {
        let known: Vec<String> = all.iter().filter_map(|m| of(&m)).collect();
        BootError::refused(
            format!("the image is for {}, this farm is {own}", known.join(", ")),
            format!("save it for this platform: podman pull --platform linux/{own}"),
        )
    })
}

fn blob(dir: &Path, digest: &str) -> Option<PathBuf> {
    let (algorithm, hex) = digest.split_once(':')?;
    below(dir, &format!("blobs/{algorithm}/{hex}"))
}

/// A path of plain parts below a directory.
fn below(dir: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let mut parts = path.components();
    let plain = parts.all(|c| matches!(c, Component::Normal(_)));
    (plain && !path.as_os_str().is_empty()).then(|| dir.join(path))
}

fn json(path: &Path) -> Result<Value, BootError> {
    let mut text = Vec::new();
    let file = File::open(path).at(path)?;
    file.take(JSON_MAX).read_to_end(&mut text).at(path)?;
    serde_json::from_slice(&text).map_err(|e| BootError::Damaged {
        path: path.to_owned(),
        what: e.to_string(),
    })
}

/// The archive without its compression.
fn opened(mut file: File, archive: &Path) -> Result<Box<dyn Read>, BootError> {
    use std::io::Seek as _;
    let mut head = [0; 4];
    let n = file.read(&mut head).at(archive)?;
    file.rewind().at(archive)?;
    let file = BufReader::with_capacity(1 << 17, file);
    Ok(match &head[..n] {
        // RFC 1952, RFC 8878.
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(file).at(archive)?)
        }
        [0xfd, b'7', b'z', b'X'] => {
            return Err(BootError::refused(
                format!("{} is compressed by xz", archive.display()),
                "decompress it first: xz -d",
            ));
        }
        _ => Box::new(file),
    })
}

/// One layer over what is there.
fn layer(file: File, archive: &Path, root: &Path) -> Result<(), BootError> {
    let mut tar = tar::Archive::new(opened(file, archive)?);
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(true);
    tar.set_unpack_xattrs(true);
    tar.set_overwrite(true);
    for entry in tar.entries().map_err(|e| damaged(archive, e))? {
        let mut entry = entry.map_err(|e| damaged(archive, e))?;
        let path = entry.path().map_err(|e| damaged(archive, e))?.into_owned();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if name == OPAQUE {
            empty(root, path.parent().unwrap_or(Path::new("")))?;
        } else if let Some(gone) = name.strip_prefix(WHITEOUT) {
            remove(root, &path.with_file_name(gone))?;
        } else if !entry.unpack_in(root).at(&root.join(&path))? {
            return Err(BootError::Damaged {
                path: archive.to_owned(),
                what: format!("{} leads out of the root", path.display()),
            });
        }
    }
    Ok(())
}

/// A path below the root whose directories are no links; none if it would lead elsewhere or is not there.
fn plain(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut found = root.to_owned();
    let parts: Vec<Component> = path.components().collect();
    for (i, part) in parts.iter().enumerate() {
        match part {
            Component::CurDir => continue,
            Component::Normal(name) => found.push(name),
            _ => return None,
        }
        let meta = fs::symlink_metadata(&found).ok()?;
        if i + 1 < parts.len() && !meta.is_dir() {
            return None;
        }
    }
    (found != root).then_some(found)
}

fn remove(root: &Path, path: &Path) -> Result<(), BootError> {
    let Some(path) = plain(root, path) else {
        return Ok(());
    };
    match fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
        true => fs::remove_dir_all(&path).at(&path),
        false => fs::remove_file(&path).at(&path),
    }
}

fn empty(root: &Path, dir: &Path) -> Result<(), BootError> {
    let Some(dir) = plain(root, dir).filter(|d| !d.is_symlink()) else {
        return Ok(());
    };
    for entry in fs::read_dir(&dir).at(&dir)? {
        let path = entry.at(&dir)?.path();
        let below = path.strip_prefix(root).unwrap_or(&path).to_owned();
        remove(root, &below)?;
    }
    Ok(())
}

fn damaged(archive: &Path, e: std::io::Error) -> BootError {
    match e.kind() {
        std::io::ErrorKind::StorageFull => BootError::Full(archive.to_owned()),
        // The words of the reader have bytes of the file in them.
        _ => BootError::refused(
            format!("{} is no tar archive, or it is cut off", archive.display()),
            "give a directory, an archive of a root (tar, also gzip or zstd), or that of an OCI image",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of these files; contents of a directory are `None`.
    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut head = tar::Header::new_gnu();
            head.set_size(bytes.len() as u64);
            head.set_mode(0o644);
            head.set_uid(0);
            head.set_gid(0);
            head.set_cksum();
            tar.append_data(&mut head, path, *bytes).expect("entry");
        }
        tar.into_inner().expect("tar")
    }

    #[test]
    fn layers_lie_over_each_other_and_whiteouts_remove() {
        let dir = std::env::temp_dir().join(format!("armento-oci-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("root")).expect("directory");
        let low = tar_of(&[("etc/a", b"1"), ("etc/b", b"1"), ("var/x/y", b"1")]);
        let high = tar_of(&[
            ("etc/.wh.a", b""),
            ("etc/b", b"2"),
            ("var/x/.wh..wh..opq", b""),
            ("var/x/z", b"2"),
        ]);
        let zipped = {
            use std::io::Write as _;
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gz.write_all(&high).expect("gzip");
            gz.finish().expect("gzip")
        };
        let manifest = br#"{"layers":[{"digest":"sha256:low"},{"digest":"sha256:high"}]}"#;
        let index = br#"{"manifests":[{"digest":"sha256:no","platform":{"architecture":"s390x"}},
            {"digest":"sha256:m","platform":{"architecture":"amd64"}}]}"#;
        let image = tar_of(&[
            ("oci-layout", b"{}"),
            ("blobs/sha256/low", &low),
            ("blobs/sha256/high", &zipped),
            ("blobs/sha256/m", manifest),
            ("index.json", index),
        ]);
        let archive = dir.join("image.tar");
        fs::write(&archive, image).expect("archive");
        let root = dir.join("root");
        unpack(&archive, &root, &dir.join("layers")).expect("unpacked");
        assert!(!root.join("etc/a").exists());
        assert_eq!(fs::read(root.join("etc/b")).expect("b"), b"2");
        assert!(!root.join("var/x/y").exists());
        assert!(root.join("var/x/z").exists());
        assert!(!dir.join("layers").exists());
        // A whole file that is none.
        fs::write(&archive, b"hello").expect("archive");
        let e = unpack(&archive, &root, &dir.join("layers"));
        assert!(e.is_err() || fs::read_dir(&root).is_ok());
        fs::remove_dir_all(&dir).expect("removed");
    }
}
