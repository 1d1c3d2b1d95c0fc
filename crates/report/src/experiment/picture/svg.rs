//! Shapes as SVG.

use std::fmt::Write;

use super::{Anchor, Colour, HEIGHT, Shape, WIDTH};

pub(super) fn write(shapes: &[Shape]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for shape in shapes {
        one(&mut out, shape);
    }
    out.push_str("</svg>\n");
    out
}

fn one(out: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Line { points, colour, dashed } => {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let dashes = if *dashed { " stroke-dasharray=\"4 4\"" } else { "" };
            let stroke = hex(*colour);
            writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\"{dashes}/>",
                points.join(" ")
            )
        }
        Shape::Dot { at: (x, y), radius, colour, title } => writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"><title>{}</title></circle>",
            hex(*colour),
            escape(title)
        ),
        Shape::Text { at: (x, y), size, anchor, text } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let text = escape(text);
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{text}</text>"
            )
        }
    };
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

pub(in crate::experiment) fn escape(text: &str) -> String {
    let text = crate::text::clean(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
