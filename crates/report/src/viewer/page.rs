//! The page's own files: what the build put into the binary, or a folder while the page is worked on.

/// A file of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Path below the page, with slashes: `index.html`, `assets/index.js`.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The content type by file name. Unknown files are not displayed.
pub fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

/// Returns the file at `path`. The empty path is the page itself.
pub fn find<'a>(assets: &'a [Asset], path: &str) -> Option<&'a Asset> {
    let path = if path.is_empty() { "index.html" } else { path };
    assets.iter().find(|asset| asset.path == path)
}

/// Shown if the binary was built without the page.
pub const NOT_BUILT: &str = "This holdup was built without its viewer: the page in viewer/ needs Node.js to be built.\n\
    \n\
    Build it again after `./dev setup`, which installs Node.js where it can and builds the page (or run\n\
    `npm ci && npm run build` in viewer/). Until then: `holdup report`, or `holdup export --to perfetto` for ui.perfetto.dev.\n\
    \n\
    The answers are served all the same: see docs/viewer-api.md, e.g. api/summary below this address.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_nothing_asks_for() {
        let assets = [Asset { path: "index.html".into(), bytes: vec![1] }];
        assert_eq!(find(&assets, "").map(|asset| asset.bytes.as_slice()), Some([1].as_slice()));
        assert_eq!(find(&assets, "other.js"), None);
        assert!(content_type("a/b.js").starts_with("text/javascript"));
        assert_eq!(content_type("x"), "application/octet-stream");
    }
}
