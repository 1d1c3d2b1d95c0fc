//! Layout for a terminal of any size. Parts without space are left out, the threads last.

use holdup_findings::derive::class::Class;
use holdup_findings::glance::{CpuGlance, Glance, ThreadGlance};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::bars::{self, Part};
use super::super::{Moment, now, order, panels, waiting_for};
use super::Screen;
use crate::numbers::{count, duration, percent, share};
use crate::text::{clean, cut, left, right};

/// From this number of columns, the lists of waits are to the right of the threads, not below them.
const WIDE: u16 = 140;
/// Minimum number of columns of a CPU if several share a line.
const CPU_COLUMNS: usize = 38;
/// Minimum number of columns and rows for any output.
const SMALLEST: (u16, u16) = (20, 4);
/// Columns for the text next to a thread's bar: TID, name, shares.
const THREAD_COLUMNS: usize = 48;

const HELP: [&str; 9] = [
    "q, Ctrl-C   exit. A program that top started continues after q, and receives Ctrl-C",
    "w           save the last seconds as a recording (--keep), to report or view",
    "f, space    freeze, and go on",
    "s           sort threads by the next: CPU, run queue, lock wait, switches, tid",
    "/           show only threads with that in their name or process, or that number",
    "up, down    select a thread, also PgUp, PgDn, j, k",
    "enter       all classes of the selected thread, esc goes back",
    "?           this help. docs/top.md explains the figures",
    "o of CPUs: other programs. Shares are of the interval, of each thread's life in it.",
];

pub(super) fn draw(screen: &Screen, frame: &mut Frame) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = cut("too small", usize::from(area.width));
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let rows = Rows { area };
    rows.put(frame, 0, vec![Line::styled(head(screen), bold)]);
    rows.put(frame, area.height - 1, vec![foot(screen)]);
    let body = Rect { y: area.y + 1, height: area.height - 2, ..area };
    match &screen.moment {
        _ if screen.shows_help => {
            let lines = HELP.map(|line| Line::raw(format!("  {line}"))).to_vec();
            frame.render_widget(Paragraph::new(lines), body);
        }
        None => frame.render_widget(Paragraph::new("  the first interval is not over yet"), body),
        Some(moment) => self::body(screen, moment, (frame, body)),
    }
}

/// Rows of an area.
struct Rows {
    area: Rect,
}

impl Rows {
    /// Puts lines from row `from` on, as far as there is room.
    fn put(&self, frame: &mut Frame, from: u16, lines: Vec<Line>) {
        let height = (lines.len() as u16).min(self.area.height.saturating_sub(from));
        let area = Rect { y: self.area.y + from, height, ..self.area };
        frame.render_widget(Paragraph::new(lines), area);
    }
}

fn head(screen: &Screen) -> String {
    let frozen = if screen.is_frozen { "  FROZEN" } else { "" };
    let what = match &screen.moment {
        None => String::new(),
        Some(moment) => format!(
            "  {} threads, {}  own cost {}{}",
            count(moment.glance.threads.len() as u64),
            duration(moment.glance.length_ns()),
            percent(moment.own_share()),
            if moment.glance.lost > 0 {
                format!("  lost {}", count(moment.glance.lost))
            } else {
                String::new()
            },
        ),
    };
    format!("holdup top  {}{what}{frozen}", clean(&screen.title))
}

fn foot(screen: &Screen) -> Line<'static> {
    if screen.is_typing {
        return Line::raw(format!("/{}_", clean(&screen.filter)));
    }
    if !screen.said.is_empty() {
        return Line::raw(screen.said.clone());
    }
    let filter =
        if screen.filter.is_empty() { String::new() } else { format!("  /{}", clean(&screen.filter)) };
    let keys =
        format!("by {}{filter}  q end  s sort  / filter  f freeze  w save  ? help", screen.order.name());
    Line::styled(keys, Style::new().add_modifier(Modifier::DIM))
}

fn body(screen: &Screen, moment: &Moment, (frame, area): (&mut Frame, Rect)) {
    let glance = &moment.glance;
    let (height, width) = (usize::from(area.height), usize::from(area.width));
    let cpus = cpus(screen, glance, (width, (height / 4).max(1)));
    let legend = screen.palette.legend(&seen(glance));
    let top = cpus.len() as u16;
    let rows = Rows { area };
    rows.put(frame, 0, cpus);
    let with_legend = area.height > top + 6;
    if with_legend {
        rows.put(frame, top, vec![legend]);
    }
    let from = top + u16::from(with_legend);
    let rest = Rect { y: area.y + from.min(area.height), height: area.height.saturating_sub(from), ..area };
    if area.width >= WIDE {
        let side = area.width * 2 / 5;
        let threads_area = Rect { width: rest.width - side - 2, ..rest };
        let side_area = Rect { x: rest.x + rest.width - side, width: side, ..rest };
        let lines = threads(screen, glance, (usize::from(threads_area.width), usize::from(rest.height)));
        frame.render_widget(Paragraph::new(lines), threads_area);
        let lines = lists(screen, moment, (usize::from(side), usize::from(rest.height)));
        frame.render_widget(Paragraph::new(lines), side_area);
        return;
    }
    let below = if rest.height < 10 { 0 } else { (rest.height / 2).min(24) };
    let lists = lists(screen, moment, (width, usize::from(below)));
    let above = rest.height - lists.len() as u16;
    let rows = Rows { area: rest };
    rows.put(frame, 0, threads(screen, glance, (width, usize::from(above))));
    rows.put(frame, above, lists);
}

/// Parts shown in bars, in order.
fn seen(glance: &Glance) -> Vec<Part> {
    let mut parts: Vec<Part> = bars::parts(&glance.classes).into_iter().map(|(part, _)| part).collect();
    if glance.cpus.iter().any(|cpu| cpu.others_ns > 0) {
        parts.push(Part::Others);
    }
    parts
}

/// CPUs, several per line if there are many. CPUs without space are counted.
fn cpus(screen: &Screen, glance: &Glance, (width, lines_max): (usize, usize)) -> Vec<Line<'static>> {
    let mut abreast = 1;
    while glance.cpus.len().div_ceil(abreast) > lines_max && width / (abreast + 1) >= CPU_COLUMNS {
        abreast += 1;
    }
    let columns = width / abreast;
    let mut lines: Vec<Line<'static>> = Vec::new();
    for group in glance.cpus.chunks(abreast).take(lines_max) {
        lines.push(Line::from(
            group.iter().flat_map(|cpu| self::cpu(screen, glance, (cpu, columns))).collect::<Vec<_>>(),
        ));
    }
    let shown = (lines_max * abreast).min(glance.cpus.len());
    if shown < glance.cpus.len()
        && let Some(last) = lines.last_mut()
    {
        *last = Line::raw(format!("  and {} more CPUs", glance.cpus.len() - shown + abreast));
    }
    lines
}

fn cpu(screen: &Screen, glance: &Glance, (cpu, columns): (&CpuGlance, usize)) -> Vec<Span<'static>> {
    let length = glance.length_ns();
    let own: u64 = cpu.classes.iter().sum();
    let text = format!(
        " {} own {} oth {}",
        right(&percent(share(own + cpu.others_ns, length)), 8),
        right(&percent(share(own, length)), 7),
        right(&percent(share(cpu.others_ns, length)), 7),
    );
    let who = if columns >= 100 && cpu.most.ran_ns > 0 {
        format!("  {}", left(&panels::named(&cpu.most.name, cpu.most.pid), 22))
    } else {
        String::new()
    };
    let head = format!("cpu{:>3} ", cpu.cpu.0);
    let room = columns.saturating_sub(head.len() + text.chars().count() + who.chars().count() + 1);
    let mut parts = bars::parts(&cpu.classes);
    parts.push((Part::Others, cpu.others_ns));
    let mut spans = vec![Span::raw(head)];
    spans.extend(screen.palette.bar(&parts, length, room));
    spans.push(Span::raw(format!("{text}{who} ")));
    spans
}

fn heading(screen: &Screen, text: &str, columns: usize) -> Line<'static> {
    let style = screen.palette.style(Color::Cyan).add_modifier(Modifier::BOLD);
    Line::styled(left(text, columns), style)
}

fn threads(screen: &Screen, glance: &Glance, (columns, height): (usize, usize)) -> Vec<Line<'static>> {
    let rows = order::threads(glance, screen.order, &screen.filter);
    let bar = columns.saturating_sub(THREAD_COLUMNS + 16).clamp(0, 60);
    let head = format!(
        "{} {} {}{} {} {}  now",
        right("tid", 7),
        left("thread", 15),
        if bar > 0 { format!("{} ", left("the interval", bar)) } else { String::new() },
        right("running", 7),
        right("queue", 7),
        right("lock", 7),
    );
    let mut lines = vec![heading(screen, &cut(&head, columns), columns)];
    let room = height.saturating_sub(1);
    let place = screen.place(&rows);
    // The selected one is always seen.
    let first = place.map_or(0, |place| place.saturating_sub(room.saturating_sub(1)));
    for thread in rows.iter().skip(first).take(room) {
        let mut line = thread_line(screen, thread, (bar, columns));
        if screen.selected == Some(thread.tid) {
            line = line.style(Style::new().add_modifier(Modifier::REVERSED));
        }
        lines.push(line);
    }
    if rows.is_empty() && room > 0 {
        lines.push(Line::raw(cut("        no thread of the program", columns)));
    }
    lines
}

fn thread_line(screen: &Screen, thread: &ThreadGlance, (bar, columns): (usize, usize)) -> Line<'static> {
    let part = |ns: u64| right(&percent(share(ns, thread.life_ns)), 7);
    let of = |class: Class| thread.classes[class as usize];
    let mut spans = vec![Span::raw(format!("{:>7} {} ", thread.tid, left(&clean(&thread.name), 15)))];
    if bar > 0 {
        spans.extend(screen.palette.bar(&bars::parts(&thread.classes), thread.life_ns, bar));
        spans.push(Span::raw(" "));
    }
    let shares = format!(
        "{} {} {}  ",
        part(thread.running_ns()),
        part(of(Class::RunQueue)),
        part(of(Class::LockWait))
    );
    let used = THREAD_COLUMNS + 2 + if bar > 0 { bar + 1 } else { 0 };
    spans.push(Span::raw(shares));
    spans.push(Span::raw(cut(&now(thread), columns.saturating_sub(used))));
    Line::from(spans)
}

/// All classes of one thread, or the worst waits and locks. Also other programs, collections, and the cost of
/// the recording.
fn lists(screen: &Screen, moment: &Moment, (columns, height): (usize, usize)) -> Vec<Line<'static>> {
    if height == 0 {
        return Vec::new();
    }
    let glance = &moment.glance;
    let mut last: Vec<String> = Vec::new();
    last.extend(panels::other_processes(glance, 4).map(|text| format!("others: {text}")));
    last.extend(panels::collections(glance).map(|text| format!("gc: {text}")));
    last.push(panels::own(moment));
    last.truncate(height);
    let room = height - last.len();
    let chosen =
        glance.threads.iter().find(|thread| screen.shows_thread && Some(thread.tid) == screen.selected);
    let mut lines = match chosen {
        Some(thread) => one_thread(screen, thread, columns),
        None => worst(screen, glance, (columns, room)),
    };
    lines.truncate(room);
    lines.extend(last.into_iter().map(|text| Line::raw(cut(&text, columns))));
    lines
}

fn one_thread(screen: &Screen, thread: &ThreadGlance, columns: usize) -> Vec<Line<'static>> {
    let title =
        format!("{} ({}) of {}", clean(&thread.name), thread.tid, panels::named(&thread.process, thread.pid));
    let mut lines = vec![heading(screen, &cut(&title, columns), columns)];
    for (part, ns) in bars::parts(&thread.classes) {
        let Part::Class(class) = part else { continue };
        let text = format!(
            "{} {} {} ",
            left(class.name(), 11),
            right(&duration(ns), 9),
            right(&percent(share(ns, thread.life_ns)), 7)
        );
        let room = columns.saturating_sub(text.chars().count()).min(60);
        let mut spans = vec![Span::raw(text)];
        spans.extend(screen.palette.bar(&[(part, ns)], thread.life_ns, room));
        lines.push(Line::from(spans));
    }
    let switches = format!(
        "blocked {}, preempted {}, migrated {} times, now {}",
        count(thread.blocked),
        count(thread.preempted),
        count(thread.migrations),
        now(thread)
    );
    lines.push(Line::raw(cut(&switches, columns)));
    lines
}

fn worst(screen: &Screen, glance: &Glance, (columns, room): (usize, usize)) -> Vec<Line<'static>> {
    let name = columns.saturating_sub(40).max(8);
    let row = |what: &str, figures: [String; 4]| {
        let [times, threads, all, longest] = figures;
        let figures = format!("{times:>8} {threads:>7} {all:>9} {longest:>9}");
        Line::raw(cut(&format!("{} {figures}", left(what, name)), columns))
    };
    let titled = |title: &str| {
        let [times, threads, all, longest] = ["times", "threads", "time", "longest"];
        let text = format!("{} {times:>8} {threads:>7} {all:>9} {longest:>9}", left(title, name));
        heading(screen, &cut(&text, columns), columns)
    };
    let locks = if glance.locks.is_empty() { 0 } else { (room / 2).min(glance.locks.len() + 1) };
    let mut lines = Vec::new();
    if locks > 1 {
        lines.push(titled("locks"));
        lines.extend(glance.locks.iter().take(locks - 1).map(|lock| {
            let at = if lock.at.is_empty() { String::new() } else { format!(" at {}", clean(&lock.at)) };
            let figures =
                [count(lock.waits), lock.waiters.to_string(), duration(lock.wait_ns), duration(lock.max_ns)];
            row(&format!("{}{at}", clean(&lock.name)), figures)
        }));
    }
    if !glance.waits.is_empty() {
        lines.push(titled("waits"));
        lines.extend(glance.waits.iter().map(|wait| {
            let figures =
                [count(wait.count), count(wait.threads), duration(wait.wait_ns), duration(wait.max_ns)];
            row(&waiting_for(&wait.key), figures)
        }));
    }
    lines.truncate(room);
    lines
}
