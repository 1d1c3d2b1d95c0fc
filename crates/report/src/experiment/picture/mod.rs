//! Chart of the speedup against the number of workers: means of runs with intervals, the ideal, and the
//! fitted law. Written as SVG or PNG from the same shapes.

mod letters;
mod png;
mod svg;

use holdup_findings::experiment::scaling::{ScalePoint, Scaling};

pub(super) use svg::escape;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 50.0;
/// Points of a curve.
const STEPS: u32 = 60;

/// The shapes, back to front. Lengths are in units of a line's width, from the upper left corner.
pub struct Picture {
    shapes: Vec<Shape>,
}

enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        colour: Colour,
        dashed: bool,
    },
    Dot {
        at: (f64, f64),
        radius: f64,
        colour: Colour,
        title: String,
    },
    /// From the left end of its base line, or its middle or right end.
    Text {
        at: (f64, f64),
        size: f64,
        anchor: Anchor,
        text: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// Red, green, blue.
type Colour = [u8; 3];

const AXIS: Colour = [0x44, 0x44, 0x44];
const IDEAL: Colour = [0xbb, 0xbb, 0xbb];
const LAW: Colour = [0xcc, 0x66, 0x00];
const RUNS: Colour = [0x00, 0x66, 0xcc];
const TEXT: Colour = [0x00, 0x00, 0x00];

impl Picture {
    /// The chart of a result of `holdup scale`.
    pub fn speedup(scaling: &Scaling, title: &str) -> Picture {
        let frame = Frame::new(scaling);
        let mut picture = Picture { shapes: Vec::new() };
        picture.text((MARGIN, 24.0), 14.0, Anchor::Start, title);
        picture.axes(&frame);
        if let Some(law) = &scaling.usl {
            let at = |step: u32| 1.0 + (frame.workers - 1.0) * f64::from(step) / f64::from(STEPS);
            let points = (0..=STEPS).map(|step| frame.place(at(step), law.at(at(step)) / law.at(1.0)));
            picture.shapes.push(Shape::Line { points: points.collect(), colour: LAW, dashed: false });
        }
        for point in &scaling.points {
            let found = &point.speedup;
            let (workers, value) = (f64::from(point.workers), 1.0 + found.relative);
            let ends = [found.low, found.high].map(|end| 1.0 + finite(end, found.relative));
            let points = ends.map(|end| frame.place(workers, end)).to_vec();
            picture.shapes.push(Shape::Line { points, colour: RUNS, dashed: false });
            let (x, y) = frame.place(workers, value);
            let title = format!("{workers} workers: {value:.2}");
            picture.shapes.push(Shape::Dot { at: (x, y), radius: 4.0, colour: RUNS, title });
            let below = frame.place(workers, 0.0).1 + 16.0;
            picture.text((x, below), 12.0, Anchor::Middle, &workers.to_string());
            picture.text((x + 7.0, y - 5.0), 12.0, Anchor::Start, &format!("{value:.2}"));
        }
        picture
    }

    /// As SVG, for browsers and documents.
    pub fn svg(&self) -> String {
        svg::write(&self.shapes)
    }

    /// For what reads no SVG: two dots a unit.
    pub fn png(&self) -> Vec<u8> {
        png::write(&self.shapes)
    }

    fn axes(&mut self, frame: &Frame) {
        let (left, bottom) = frame.place(0.0, 0.0);
        let points = vec![(left, MARGIN), (left, bottom), (WIDTH - MARGIN, bottom)];
        self.shapes.push(Shape::Line { points, colour: AXIS, dashed: false });
        self.text((WIDTH - MARGIN, HEIGHT - 12.0), 12.0, Anchor::End, "workers");
        self.text((12.0, MARGIN - 8.0), 12.0, Anchor::Start, "speed-up");
        let ideal = frame.workers.min(frame.top);
        let points = vec![(left, bottom), frame.place(ideal, ideal)];
        self.shapes.push(Shape::Line { points, colour: IDEAL, dashed: true });
    }

    fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, text: &str) {
        self.shapes.push(Shape::Text { at, size, anchor, text: crate::text::clean(text) });
    }
}

/// Which speed-ups and workers the picture reaches to.
struct Frame {
    workers: f64,
    top: f64,
}

impl Frame {
    fn new(scaling: &Scaling) -> Frame {
        let workers = scaling.points.iter().map(|point| f64::from(point.workers)).fold(1.0, f64::max);
        // The interval of two runs can be huge, so the chart ends at twice the greatest mean.
        let mean = scaling.points.iter().map(|point| point.speedup.relative + 1.0).fold(1.0, f64::max);
        let high = |point: &ScalePoint| finite(point.speedup.high, point.speedup.relative) + 1.0;
        let most = scaling.points.iter().map(|point| high(point).min(2.0 * mean));
        let top = most.fold(1.0, f64::max).max(workers.min(f64::from(scaling.cpus))) * 1.05;
        Frame { workers, top }
    }

    fn place(&self, workers: f64, speedup: f64) -> (f64, f64) {
        let x = MARGIN + (workers / (self.workers * 1.05)) * (WIDTH - 2.0 * MARGIN);
        (x, HEIGHT - MARGIN - speedup.min(self.top) / self.top * (HEIGHT - 2.0 * MARGIN))
    }
}

fn finite(value: f64, otherwise: f64) -> f64 {
    if value.is_finite() { value } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use holdup_findings::experiment::compare::{Change, Verdict};
    use std::io::Read;

    fn picture() -> Picture {
        let point = |(workers, relative): (u32, f64)| ScalePoint {
            workers,
            has_cpus: true,
            value: 1.0,
            speedup: Change {
                runs: 2,
                a: 1.0,
                b: 1.0,
                relative,
                low: relative - 0.1,
                high: f64::INFINITY,
                p: 1.0,
                verdict: Verdict::Unclear,
                runs_wanted: None,
                finds: None,
            },
            stack: None,
        };
        let points = [(1, 0.0), (2, 0.8)].map(point).to_vec();
        let (carrying, missing, growing) = (vec![1, 2], Vec::new(), Vec::new());
        let scaling =
            Scaling { points, usl: None, carrying, missing, forecast: None, at: 24, cpus: 2, growing };
        Picture::speedup(&scaling, "a <title> é")
    }

    /// Returns length, type and data of each chunk. Checks the checksums.
    fn chunks(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        let (mut rest, mut found) = (&bytes[8..], Vec::new());
        while !rest.is_empty() {
            let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            let length = number(0) as usize;
            let mut sum = flate2::Crc::new();
            sum.update(&rest[4..8 + length]);
            assert_eq!(number(8 + length), sum.sum());
            let name = String::from_utf8(rest[4..8].to_vec()).unwrap();
            found.push((name, rest[8..8 + length].to_vec()));
            rest = &rest[12 + length..];
        }
        found
    }

    #[test]
    fn a_png_has_the_lines_and_letters() {
        let chunks = chunks(&picture().png());
        let names: Vec<&str> = chunks.iter().map(|chunk| chunk.0.as_str()).collect();
        assert_eq!(names, ["IHDR", "IDAT", "IEND"]);
        let mut dots = Vec::new();
        ZlibDecoder::new(&chunks[1].1[..]).read_to_end(&mut dots).unwrap();
        let (width, height) = (2 * WIDTH as usize, 2 * HEIGHT as usize);
        assert_eq!(dots.len(), height * (1 + 3 * width));
        let at = |(x, y): (f64, f64)| {
            let first = (2.0 * y) as usize * (1 + 3 * width) + 1 + 3 * (2.0 * x) as usize;
            [dots[first], dots[first + 1], dots[first + 2]]
        };
        let frame = Frame { workers: 2.0, top: 2.1 };
        assert_eq!(at(frame.place(2.0, 1.8)), RUNS);
        assert_eq!(at(frame.place(0.0, 1.0)), AXIS);
        assert_eq!(at((WIDTH - 1.0, HEIGHT - 1.0)), [255; 3]);
        // The title's letters, and nothing to the side of them.
        let black = |x: std::ops::Range<u32>, y: std::ops::Range<u32>| {
            y.flat_map(|y| x.clone().map(move |x| (f64::from(x), f64::from(y))))
                .filter(|dot| at(*dot) == TEXT)
                .count()
        };
        assert!(black(50..116, 14..26) > 50 && black(130..600, 14..26) == 0);
    }

    #[test]
    fn an_svg_is_escaped_and_whole() {
        let text = picture().svg();
        assert!(text.contains("a &lt;title&gt; é") && text.ends_with("</svg>\n"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    }
}
