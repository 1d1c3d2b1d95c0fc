//! A result as one self-contained HTML file.

use super::picture::escape;
use super::{Answer, Picture, Shown};
use crate::text::Style;

/// Columns of the text.
const COLUMNS: usize = 110;

/// The page: the picture, if there is one of this answer, and the text.
pub(super) fn page(shown: &Shown<'_>) -> String {
    let title = shown.experiment.settings.first().map_or(String::new(), |setting| setting.command.join(" "));
    let picture = match shown.answer {
        Answer::Scale(scaling) => Picture::speedup(scaling, &title).svg(),
        _ => String::new(),
    };
    let text = shown.render(&Style { width: COLUMNS, ..Style::default() });
    let text: Vec<String> = text.lines().map(escape).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>holdup: {}</title>\n<style>\n\
         body {{ margin: 2em; background: #fff; color: #222 }}\npre {{ font: 13px/1.4 monospace; white-space: pre }}\n\
         </style>\n{picture}<pre>{}</pre>\n</html>\n",
        escape(&title),
        text.join("\n")
    )
}
