//! Shapes as PNG: lines and dots with soft edges, letters of dots.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::{Anchor, Colour, HEIGHT, Shape, TEXT, WIDTH, letters};

/// Dots of the PNG for a unit of the picture.
const SCALE: f64 = 2.0;
/// … and for a dot of a letter.
const LETTER_DOT: i64 = 2;
/// From one letter to the next, in dots of a letter.
const ADVANCE: i64 = letters::COLUMNS as i64 + 1;
/// Length of a dash and of the gap after it, in units.
const DASH: f64 = 4.0;

pub(super) fn write(shapes: &[Shape]) -> Vec<u8> {
    let mut canvas = Canvas::new((WIDTH * SCALE) as usize, (HEIGHT * SCALE) as usize);
    for shape in shapes {
        match shape {
            Shape::Line { points, colour, dashed } => {
                for ends in points.windows(2) {
                    canvas.line((ends[0], ends[1]), *colour, *dashed);
                }
            }
            Shape::Dot { at, radius, colour, .. } => canvas.stroke((*at, *at), *radius, *colour),
            Shape::Text { at, anchor, text, .. } => canvas.text(*at, *anchor, text),
        }
    }
    encode(&canvas)
}

/// Rows of dots, three bytes each.
struct Canvas {
    width: usize,
    height: usize,
    dots: Vec<Colour>,
}

type Ends = ((f64, f64), (f64, f64));

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, height, dots: vec![[255; 3]; width * height] }
    }

    /// Blends a colour into a pixel. Ignores pixels outside of the picture.
    fn paint(&mut self, (x, y): (i64, i64), colour: Colour, share: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x < self.width && y < self.height {
            let dot = &mut self.dots[y * self.width + x];
            for (old, new) in dot.iter_mut().zip(colour) {
                *old = (f64::from(*old) * (1.0 - share) + f64::from(new) * share).round() as u8;
            }
        }
    }

    fn line(&mut self, ends: Ends, colour: Colour, dashed: bool) {
        let ((ax, ay), (bx, by)) = ends;
        let length = (bx - ax).hypot(by - ay);
        if !dashed {
            return self.stroke(ends, 0.5, colour);
        }
        let at = |along: f64| (ax + (bx - ax) * along / length, ay + (by - ay) * along / length);
        let mut along = 0.0;
        while along < length {
            self.stroke((at(along), at((along + DASH).min(length))), 0.5, colour);
            along += 2.0 * DASH;
        }
    }

    /// Paints all pixels within a distance (in units) of a line. The edge is blended over half a pixel.
    fn stroke(&mut self, ((ax, ay), (bx, by)): Ends, distance: f64, colour: Colour) {
        let [ax, ay, bx, by, distance] = [ax, ay, bx, by, distance].map(|length| length * SCALE);
        let (dx, dy) = (bx - ax, by - ay);
        let squares = dx * dx + dy * dy;
        let range = |a: f64, b: f64| {
            let (low, high) = (a.min(b) - distance - 1.0, a.max(b) + distance + 1.0);
            low.floor() as i64..=high.ceil() as i64
        };
        for y in range(ay, by) {
            for x in range(ax, bx) {
                let (px, py) = (x as f64 + 0.5 - ax, y as f64 + 0.5 - ay);
                let along = if squares > 0.0 { ((px * dx + py * dy) / squares).clamp(0.0, 1.0) } else { 0.0 };
                let off = (px - along * dx).hypot(py - along * dy);
                let share = (distance + 0.5 - off).clamp(0.0, 1.0);
                if share > 0.0 {
                    self.paint((x, y), colour, share);
                }
            }
        }
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let room = (self.width as i64 / (ADVANCE * LETTER_DOT)) as usize;
        let text: Vec<char> = text.chars().take(room).collect();
        let width = text.len() as i64 * ADVANCE * LETTER_DOT;
        let left = (x * SCALE) as i64
            - match anchor {
                Anchor::Start => 0,
                Anchor::Middle => width / 2,
                Anchor::End => width,
            };
        let top = (y * SCALE) as i64 - letters::ROWS as i64 * LETTER_DOT;
        for (number, letter) in text.into_iter().enumerate() {
            self.letter((left + number as i64 * ADVANCE * LETTER_DOT, top), letter);
        }
    }

    fn letter(&mut self, (left, top): (i64, i64), letter: char) {
        for (column, bits) in letters::columns(letter).into_iter().enumerate() {
            for row in (0..letters::ROWS).filter(|row| bits >> row & 1 == 1) {
                for dot in 0..LETTER_DOT * LETTER_DOT {
                    let x = left + column as i64 * LETTER_DOT + dot % LETTER_DOT;
                    let y = top + row as i64 * LETTER_DOT + dot / LETTER_DOT;
                    self.paint((x, y), TEXT, 1.0);
                }
            }
        }
    }
}

fn encode(canvas: &Canvas) -> Vec<u8> {
    let mut header = Vec::new();
    for size in [canvas.width, canvas.height] {
        header.extend((size as u32).to_be_bytes());
    }
    // Eight bits of each colour, no palette, the usual compression and filter, rows in their order.
    header.extend([8, 2, 0, 0, 0]);
    let mut rows = Vec::with_capacity(canvas.height * (1 + 3 * canvas.width));
    for row in canvas.dots.chunks(canvas.width) {
        // No filter.
        rows.push(0);
        rows.extend(row.iter().flatten());
    }
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, *b"IHDR", &header);
    chunk(&mut out, *b"IDAT", &compressed(&rows));
    chunk(&mut out, *b"IEND", &[]);
    out
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn chunk(out: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let mut sum = Crc::new();
    sum.update(&name);
    sum.update(data);
    out.extend(name);
    out.extend(data);
    out.extend(sum.sum().to_be_bytes());
}
