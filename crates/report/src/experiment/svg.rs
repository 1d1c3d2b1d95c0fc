//! Speed-up against the number of workers as a picture: runs' means with intervals, the ideal, and the fitted law.

use std::fmt::Write;

use holdup_findings::experiment::scaling::Scaling;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 50.0;

/// The picture.
pub fn speedup(scaling: &Scaling, title: &str) -> String {
    let most_workers = scaling.points.iter().map(|point| f64::from(point.workers)).fold(1.0, f64::max);
    let most = scaling.points.iter().map(|point| finite(point.speedup.high, point.speedup.relative) + 1.0);
    let top = most.fold(1.0, f64::max).max(most_workers.min(f64::from(scaling.cpus))) * 1.05;
    let x = |workers: f64| MARGIN + (workers / (most_workers * 1.05)) * (WIDTH - 2.0 * MARGIN);
    let y = |speedup: f64| HEIGHT - MARGIN - speedup / top * (HEIGHT - 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">{}</text>", escape(title));
    let (left, right, bottom) = (x(0.0), WIDTH - MARGIN, y(0.0));
    let _ = writeln!(out, "<path d=\"M{left} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"#444\"/>");
    let _ = writeln!(out, "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">workers</text>", HEIGHT - 12.0);
    let _ = writeln!(out, "<text x=\"12\" y=\"{}\">speed-up</text>", MARGIN - 8.0);
    let ideal = most_workers.min(top);
    let _ = writeln!(
        out,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#bbb\" stroke-dasharray=\"4 4\"/>",
        x(0.0),
        y(0.0),
        x(ideal),
        y(ideal)
    );
    if let Some(law) = &scaling.usl {
        let at = |step: u32| 1.0 + (most_workers - 1.0) * f64::from(step) / 60.0;
        let points: Vec<String> = (0..=60)
            .map(|step| format!("{:.1},{:.1}", x(at(step)), y(law.at(at(step)) / law.at(1.0))))
            .collect();
        let _ = writeln!(out, "<polyline points=\"{}\" fill=\"none\" stroke=\"#c60\"/>", points.join(" "));
    }
    for point in &scaling.points {
        let found = &point.speedup;
        let (at, value) = (x(f64::from(point.workers)), 1.0 + found.relative);
        let ends = (1.0 + finite(found.low, found.relative), 1.0 + finite(found.high, found.relative));
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"#06c\"/><circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#06c\">\
             <title>{} workers: {value:.2}</title></circle>",
            y(ends.0),
            y(ends.1),
            y(value),
            point.workers
        );
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            point.workers
        );
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{value:.2}</text>", at + 7.0, y(value) - 5.0);
    }
    out.push_str("</svg>\n");
    out
}

fn finite(value: f64, otherwise: f64) -> f64 {
    if value.is_finite() { value } else { otherwise }
}

pub(super) fn escape(text: &str) -> String {
    let text = crate::text::clean(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
