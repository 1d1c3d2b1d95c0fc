//! `--html`: the page and the responses in one file that opens from disk and loads nothing.
//!
//! Summary, tables and flame graphs are complete. The timeline begins with the coarsest level of the
//! whole run. Next are the surroundings of the findings' evidence at every zoom, then the levels in order, up to
//! the size limit. The summary lists the omissions.

mod packer;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::Viewer;
use super::page::{Asset, find};
use packer::Packer;

/// Why no page can be made.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The page's own files are incomplete.
    #[error("the viewer's page has no {0}: build it again (npm run build in viewer/)")]
    Incomplete(&'static str),
    /// The packing failed.
    #[error("packing the answers")]
    Packing(#[from] std::io::Error),
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The file.
    pub html: String,
    /// The omissions, as sentences.
    pub thinned: Vec<String>,
}

/// The page with the answers, at most about `bytes_max` long.
///
/// # Errors
/// [`PageError`]
pub fn page(viewer: &Viewer, assets: &[Asset], bytes_max: u64) -> Result<Page, PageError> {
    // Base64 makes four bytes of three.
    let own: usize = assets.iter().map(|asset| asset.bytes.len()).sum();
    let room = (bytes_max.saturating_sub(own as u64) / 4 * 3) as usize;
    let mut packer = Packer::new(viewer, room)?;
    packer.whole()?;
    packer.coarsest()?;
    packer.around_findings()?;
    packer.levels()?;
    packer.waits()?;
    let (packed, thinned) = packer.finish()?;
    Ok(Page { html: assemble(assets, &STANDARD.encode(packed))?, thinned })
}

/// The page with its script and style inside, allowed by hash, and the answers.
fn assemble(assets: &[Asset], answers: &str) -> Result<String, PageError> {
    let text = |path: &'static str| match find(assets, path) {
        Some(asset) => Ok(String::from_utf8_lossy(&asset.bytes).into_owned()),
        None => Err(PageError::Incomplete(path)),
    };
    // What ends the element would end it inside a string too.
    let script = text("viewer.js")?.replace("</script", "<\\/script").replace("<!--", "<\\!--");
    let style = text("viewer.css")?.replace("</style", "<\\/style");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>holdup</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n\
         <div id=\"app\">Loading the recording …</div>\n\
         <noscript>The viewer needs JavaScript. `holdup report` says the same in words.</noscript>\n\
         <script type=\"application/octet-stream\" id=\"holdup-bundle\">{answers}</script>\n\
         <script>{script}</script>\n</body>\n</html>\n"
    ))
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
