//! The boxes as one SVG file that needs nothing else: titles on hovering, zoom on a click, search.
//! Without scripts it is still the whole picture.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::layout::{Frame, Graph};
use crate::numbers::{duration, percent, share};

/// Width of the picture (pixels).
const WIDTH: f64 = 1200.0;
/// Room left and right of it.
const MARGIN: f64 = 10.0;
/// Height of a row.
const ROW: f64 = 17.0;
/// Room above the rows: title, legend, the frame below the pointer.
const HEAD: f64 = 92.0;
/// Room below.
const FOOT: f64 = 10.0;
/// Width of a character of the labels' font (12 px, monospace).
const CHARACTER: f64 = 7.25;

const SCRIPT: &str = include_str!("flame.js");

/// Texts around the boxes.
pub(crate) struct Words {
    /// Above all.
    pub title: String,
    /// Below the title.
    pub subtitle: String,
    /// Each kind of time with its colour (hue in degrees, saturation in percent).
    pub legend: Vec<(&'static str, u16, u8)>,
    /// Colours show the change against another recording.
    pub compares: bool,
}

/// Writes the picture.
pub(crate) fn write(graph: &Graph, words: &Words, out: &mut dyn Write) -> io::Result<()> {
    let height = HEAD + graph.rows() as f64 * ROW + FOOT;
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        // As wide as a narrow window, and at most its natural height. A browser opens it at its top, where
        // the roots are.
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="xMidYMin meet" font-family="monospace" font-size="12">"#
    )?;
    writeln!(out, "<title>{}</title>", escape(&words.title))?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(out, r#"<rect width="100%" height="100%" fill="hsl(40 30% 97%)"/>"#)?;
    writeln!(
        out,
        r#"<text x="{MARGIN}" y="24" font-size="16" font-weight="bold">{}</text>"#,
        escape(&fitted(&words.title, WIDTH - 2.0 * MARGIN - 160.0, 9.7))
    )?;
    writeln!(out, r#"<text x="{MARGIN}" y="43" fill="hsl(0 0% 35%)">{}</text>"#, escape(&words.subtitle))?;
    write_legend(graph, words, out)?;
    let right = WIDTH - MARGIN;
    writeln!(out, r#"<text id="search" x="{right}" y="24" text-anchor="end">Search</text>"#)?;
    writeln!(out, r#"<text id="reset" x="{}" y="24" text-anchor="end">Reset zoom</text>"#, right - 70.0)?;
    let below = HEAD - 10.0;
    writeln!(out, r#"<text id="found" x="{right}" y="{below}" text-anchor="end"></text>"#)?;
    writeln!(out, r#"<text id="hover" x="{MARGIN}" y="{below}"></text>"#)?;
    writeln!(
        out,
        r#"<g id="frames" data-left="{MARGIN}" data-width="{}" data-character="{CHARACTER}">"#,
        WIDTH - 2.0 * MARGIN
    )?;
    let scale = change_scale(graph);
    for frame in &graph.frames {
        write_frame(graph, frame, (words, scale), out)?;
    }
    writeln!(out, "</g>\n<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>")
}

const STYLE: &str = "#frames g{cursor:pointer}#frames g:hover rect{stroke:#000;stroke-width:.6}\
    #frames text{pointer-events:none}#search,#reset{cursor:pointer;fill:#555}#reset{visibility:hidden}\
    #hover{white-space:pre}.found rect{fill:hsl(295 85% 60%)}.dim{opacity:.35}";

fn write_legend(graph: &Graph, words: &Words, out: &mut dyn Write) -> io::Result<()> {
    let mut x = MARGIN;
    if words.compares {
        for (text, fill) in [("more than before", "hsl(5 75% 65%)"), ("less", "hsl(215 75% 70%)")] {
            write_key(text, fill, &mut x, out)?;
        }
        return Ok(());
    }
    for (kind, (name, hue, saturation)) in words.legend.iter().enumerate() {
        if !graph.frames.iter().any(|frame| frame.kind == kind) {
            continue;
        }
        write_key(name, &format!("hsl({hue} {saturation}% 66%)"), &mut x, out)?;
    }
    Ok(())
}

fn write_key(text: &str, fill: &str, x: &mut f64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, r#"<rect x="{x:.1}" y="53" width="10" height="10" fill="{fill}"/>"#)?;
    writeln!(out, r#"<text x="{:.1}" y="62" fill="hsl(0 0% 35%)">{text}</text>"#, *x + 14.0)?;
    *x += 14.0 + CHARACTER * (text.chars().count() + 2) as f64;
    Ok(())
}

fn write_frame(
    graph: &Graph,
    frame: &Frame,
    (words, scale): (&Words, f64),
    out: &mut dyn Write,
) -> io::Result<()> {
    let inner = WIDTH - 2.0 * MARGIN;
    let (x, width) = (MARGIN + frame.from * inner, frame.width * inner);
    let y = HEAD + frame.depth as f64 * ROW;
    let mut title = format!("{} {}", frame.name, duration(frame.ns));
    let _ = write!(title, " ({})", percent(share(frame.ns, graph.total_ns)));
    if words.compares {
        let _ = write!(title, ", before {}", duration(frame.before_ns));
    }
    if !frame.module.is_empty() {
        let _ = write!(title, " · {}", frame.module);
    }
    let fill = if words.compares { change_colour(frame, scale) } else { colour(frame, words) };
    write!(
        out,
        r#"<g data-f="{:.6}" data-w="{:.6}" data-d="{}" data-n="{}"><title>{}</title>"#,
        frame.from,
        frame.width,
        frame.depth,
        escape(&frame.name),
        escape(&title)
    )?;
    write!(
        out,
        r#"<rect x="{x:.2}" y="{y}" width="{:.2}" height="{}" fill="{fill}" rx="1"/>"#,
        (width - 0.4).max(0.2),
        ROW - 1.0
    )?;
    let label = fitted(&frame.name, width - 6.0, CHARACTER);
    writeln!(out, r#"<text x="{:.2}" y="{}">{}</text></g>"#, x + 3.0, y + 12.5, escape(&label))
}

/// As much of a text as fits. Empty if too little would be left.
fn fitted(text: &str, room: f64, character: f64) -> String {
    let columns = (room / character).floor().max(0.0) as usize;
    if columns < 3 { String::new() } else { crate::text::cut(text, columns) }
}

/// The hue is the kind of time. The shade distinguishes neighbours, and is the same for equal names.
fn colour(frame: &Frame, words: &Words) -> String {
    let (_, hue, saturation) = words.legend.get(frame.kind).copied().unwrap_or(("", 0, 0));
    let hash = frame
        .name
        .bytes()
        .fold(0xcbf2_9ce4u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (turn, light) = ((hash % 17) as i32 - 8, 58 + hash / 17 % 17);
    format!("hsl({} {saturation}% {light}%)", (i32::from(hue) + turn).rem_euclid(360))
}

/// The greatest change of a box (ns), which gets the strongest colour.
fn change_scale(graph: &Graph) -> f64 {
    let change = |frame: &Frame| frame.ns.abs_diff(frame.before_ns);
    graph.frames.iter().map(change).max().unwrap_or(0).max(1) as f64
}

fn change_colour(frame: &Frame, scale: f64) -> String {
    let strength = frame.ns.abs_diff(frame.before_ns) as f64 / scale;
    let light = 96.0 - 36.0 * strength.sqrt();
    let hue = if frame.ns >= frame.before_ns { 5 } else { 215 };
    format!("hsl({hue} 75% {light:.0}%)")
}

/// Escapes text for XML. Characters that XML forbids have already been removed from names.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an attribute in a line.
    fn attribute<'a>(line: &'a str, name: &str) -> &'a str {
        let rest = line.split(&format!(" {name}=\"")).nth(1).expect(name);
        rest.split('"').next().expect(name)
    }

    #[test]
    fn the_picture_opens_at_its_roots_and_fits_the_window() {
        let step = |name: &str| super::super::Step { name: name.into(), module: String::new() };
        let steps = (0..200).map(|depth| step(&format!("f{depth}"))).collect();
        let path = super::super::Path { steps, kind: 0, ns: 1000, before_ns: 0 };
        let graph = Graph::lay_out(vec![path], 0.0);
        let words = Words {
            title: "t".into(),
            subtitle: "s".into(),
            legend: vec![("useful", 130, 45)],
            compares: false,
        };
        let mut out = Vec::new();
        write(&graph, &words, &mut out).unwrap();
        let svg = String::from_utf8(out).unwrap();
        let boxes: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<g data-f"))
            .map(|line| attribute(line, "y").parse().unwrap())
            .collect();
        assert!(boxes.windows(2).all(|pair| pair[0] < pair[1]), "callees lie below their callers");
        assert_eq!(boxes[0], HEAD, "the root comes first");
        let head = svg.lines().nth(1).unwrap();
        let height: f64 = attribute(head, "height").parse().unwrap();
        assert!(boxes.iter().all(|y| y + ROW <= height));
        assert_eq!(
            (attribute(head, "width"), attribute(head, "preserveAspectRatio")),
            ("100%", "xMidYMin meet")
        );
        assert_eq!(attribute(head, "viewBox"), format!("0 0 {WIDTH} {height}"));
    }

    #[test]
    fn text_is_escaped_and_fits() {
        assert_eq!(escape("Vec<T>::a & \"b\"\u{1}"), "Vec&lt;T&gt;::a &amp; &quot;b&quot;?");
        assert_eq!(
            (fitted("abcdefgh", 30.0, 7.0), fitted("abcdefgh", 10.0, 7.0)),
            ("abc…".into(), String::new())
        );
    }
}
