//! Reports of the papers: files below one directory, as the server's own user may read them.

use crate::reply::{REPORTS, Reply, bytes, escaped, page};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path};

/// Largest report, bytes.
const FILE_MAX: u64 = 16 << 20;
/// Entries of a directory that are listed.
const ENTRIES_MAX: usize = 1_000;
/// What is shown; other files are not.
const KINDS: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("json", "application/json"),
    ("md", "text/plain; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("csv", "text/plain; charset=utf-8"),
];

/// `path`: as in the request, `/reports/…`. Blocks.
pub fn read(dir: Option<&Path>, path: &str) -> Reply {
    let Some(dir) = dir else {
        let text = "No directory of reports is set: `reports` in the section [web] of this node's settings.";
        return page(StatusCode::NOT_FOUND, "No reports", text);
    };
    let none = || {
        let text = "There is no such report, or the dashboard's user may not read it.";
        page(StatusCode::NOT_FOUND, "No such report", text)
    };
    let below = path.strip_prefix("/reports").unwrap_or_default();
    let below = Path::new(below.trim_start_matches('/'));
    let plain =
        |c: Component| matches!(c, Component::Normal(n) if !n.to_string_lossy().starts_with('.'));
    if !below.components().all(plain) {
        return none();
    }
    // No link leads out of it.
    let found = fs::canonicalize(dir).and_then(|d| Ok((fs::canonicalize(d.join(below))?, d)));
    match found {
        Ok((full, dir)) if full.starts_with(&dir) && full.is_dir() => {
            list(&full, below).unwrap_or_else(none)
        }
        Ok((full, dir)) if full.starts_with(&dir) => file(&full).unwrap_or_else(none),
        _ => none(),
    }
}

fn file(path: &Path) -> Option<Reply> {
    let extension = path.extension()?.to_str()?;
    let (_, kind) = KINDS.iter().find(|(e, _)| *e == extension)?;
    let mut text = Vec::new();
    File::open(path)
        .ok()?
        .take(FILE_MAX)
        .read_to_end(&mut text)
        .ok()?;
    Some(guarded(bytes(StatusCode::OK, kind, text)))
}

fn list(path: &Path, below: &Path) -> Option<Reply> {
    let shown = |e: fs::DirEntry| {
        let name = e.file_name().into_string().ok()?;
        let dir = e.file_type().ok()?.is_dir();
        let known = KINDS
            .iter()
            .any(|(end, _)| name.ends_with(&format!(".{end}")));
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let dash = if dir { "/" } else { "" };
        (plain && !name.starts_with('.') && (dir || known)).then(|| format!("{name}{dash}"))
    };
    let entries = fs::read_dir(path).ok()?.take(ENTRIES_MAX);
    let mut names: Vec<String> = entries.filter_map(|e| shown(e.ok()?)).collect();
    names.sort();
    let base = match below.to_str()? {
        "" => "/reports/".to_owned(),
        path => format!("/reports/{}/", path.trim_end_matches('/')),
    };
    let base = escaped(&base);
    let lines: String = names
        .iter()
        .map(|n| format!("<li><a href=\"{base}{n}\">{n}</a></li>"))
        .collect();
    let what = if names.is_empty() {
        "<p>There is none yet.</p>"
    } else {
        ""
    };
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Reports</title><link rel=\"stylesheet\" href=\"/app.css\"><main class=\"alone\"><h1>Reports</h1>{what}\
         <ul>{lines}</ul><p><a href=\"/\">Back to the farm</a></p></main></html>"
    );
    Some(bytes(StatusCode::OK, "text/html; charset=utf-8", text))
}

fn guarded(mut reply: Reply) -> Reply {
    let policy = HeaderValue::from_static(REPORTS);
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_the_directory_is_read() {
        let root = std::env::temp_dir().join(format!("armento-reports-{}", std::process::id()));
        let dir = root.join("out");
        fs::create_dir_all(dir.join("sub")).expect("a directory");
        fs::write(root.join("secret.html"), "secret").expect("a file");
        fs::write(dir.join("a.html"), "report").expect("a file");
        fs::write(dir.join("b.key"), "secret").expect("a file");
        fs::write(dir.join(".c.html"), "secret").expect("a file");
        symlink(root.join("secret.html"), dir.join("link.html")).expect("a link");
        let status = |path: &str| read(Some(&dir), path).status();
        for good in ["/reports", "/reports/", "/reports/a.html", "/reports/sub/"] {
            assert_eq!(status(good), StatusCode::OK, "{good}");
        }
        for bad in [
            "/reports/../secret.html",
            "/reports/sub/../../secret.html",
            "/reports/link.html",
            "/reports/b.key",
            "/reports/.c.html",
            "/reports/none.html",
            "/reports//etc/passwd",
        ] {
            assert_eq!(status(bad), StatusCode::NOT_FOUND, "{bad}");
        }
        assert_eq!(read(None, "/reports/").status(), StatusCode::NOT_FOUND);
        let policy = read(Some(&dir), "/reports/a.html");
        let policy = policy
            .headers()
            .get(CONTENT_SECURITY_POLICY)
            .expect("a policy");
        assert!(policy.to_str().is_ok_and(|p| p.contains("sandbox")));
        let _ = fs::remove_dir_all(&root);
    }
}
