//! A flame graph as one SVG file: on-CPU time, waiting time by class, both, or the change against another
//! recording. The figures come from `derive::stacks`, the picture from `crate::flame`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use holdup_events::Trace;
use holdup_findings::Analysis;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::stacks::{Folding, Profile, Selection, wakers};

use super::{Exporter, FlameTime, Holds, Info, Options};
use crate::flame::{self, Graph, Path, Step, Words};
use crate::numbers::duration;
use crate::text::clean;

pub(super) struct Format;

/// Boxes below this share of the picture are narrower than a third of a pixel.
const SHARE_MIN: f64 = 0.0003;

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "flame",
            summary: "A flame graph (SVG) of on-CPU and waiting time, or of what changed (--against)",
            extension: "svg",
            holds: Holds::Stacks,
            cannot_carry: "threads, when it happened, CPUs, findings, errors of sampled figures",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let folding = options.folding.clone().unwrap_or_else(Folding::built_in);
        let selection = options.selection.only(|class| shows(options.flame, class));
        let mut sums = sums_of(trace, &selection, &folding, options.flame);
        if let Some(before) = options.against {
            // The part is one of the new recording: the other's threads and times are its own.
            let descriptors = selection.descriptors.clone();
            let selection = Selection { classes: selection.classes, descriptors, ..Selection::all() };
            for (key, (ns, _)) in sums_of(before, &selection, &folding, options.flame) {
                sums.entry(key).or_default().1 = ns;
            }
        }
        let path = |((class, steps), (ns, before_ns)): (Key, (u64, u64))| Path {
            kind: Class::ALL.iter().position(|one| *one == class).unwrap_or(0),
            steps,
            ns,
            before_ns,
        };
        let graph = Graph::lay_out(sums.into_iter().map(path).collect(), SHARE_MIN);
        flame::write(&graph, &words(trace, options, &graph), out)
    }
}

fn shows(time: FlameTime, class: Class) -> bool {
    match time {
        FlameTime::OnCpu => class.on_cpu(),
        FlameTime::OffCpu => !class.on_cpu() && class != Class::Stolen,
        FlameTime::Wakers => class.is_wait(),
        FlameTime::All => true,
    }
}

type Key = (Class, Vec<Step>);

/// Time of each stack before and after. The first frame is the class.
fn sums_of(
    trace: &Trace,
    selection: &Selection,
    folding: &Folding,
    time: FlameTime,
) -> BTreeMap<Key, (u64, u64)> {
    let profile = match time {
        FlameTime::Wakers => wakers::derive(trace, selection, folding),
        _ => Profile::derive(trace, selection, folding),
    };
    let mut sums: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
    for used in profile.stacks.iter().filter(|used| used.tally.ns > 0) {
        let mut steps = vec![Step { name: used.class.name().to_owned(), module: String::new() }];
        for id in profile.paths[used.path].iter().filter(|id| !profile.is_bare(**id)) {
            let place = profile.place(*id);
            steps.push(Step { name: clean(&place.name), module: clean(&place.module) });
        }
        sums.entry((used.class, steps)).or_default().0 += used.tally.ns;
    }
    sums
}

fn words(trace: &Trace, options: &Options, graph: &Graph) -> Words {
    let what = match options.flame {
        FlameTime::OnCpu => "on-CPU time",
        FlameTime::OffCpu => "time off the CPUs, by class",
        FlameTime::Wakers => "waiting time by class, below each wait the thread that ended it, leaf first",
        FlameTime::All => "all thread time, by class",
    };
    let mut subtitle =
        format!("{what}: {} of wall time {}", duration(graph.total_ns), duration(trace.wall().0));
    if options.against.is_some() {
        subtitle.push_str(&format!(
            ", before {} (functions that disappeared are not shown)",
            duration(graph.before_total_ns)
        ));
    }
    if graph.hidden > 0 {
        subtitle.push_str(&format!(", {} boxes too small to see", graph.hidden));
    }
    Words {
        title: clean(&trace.manifest.command.join(" ")),
        subtitle,
        legend: Class::ALL.into_iter().map(colour).collect(),
        compares: options.against.is_some(),
    }
}

/// Name, hue (degrees) and saturation (percent) of a class's boxes.
fn colour(class: Class) -> (&'static str, u16, u8) {
    let (hue, saturation) = match class {
        Class::Useful => (130, 45),
        Class::Kernel => (32, 85),
        Class::Spin => (12, 90),
        Class::GcWork => (90, 60),
        Class::GcWait => (75, 50),
        Class::LockWait => (2, 78),
        Class::JoinWait => (320, 55),
        Class::WorkWait => (205, 45),
        Class::IoWait => (270, 45),
        Class::NetWait => (190, 60),
        Class::PipeWait => (175, 45),
        Class::Sleep => (225, 40),
        Class::ChildWait => (245, 45),
        Class::FaultWait => (290, 45),
        Class::KernelWait => (20, 40),
        Class::Stopped => (0, 0),
        Class::RunQueue => (52, 85),
        Class::Stolen => (345, 60),
        Class::Unknown => (0, 0),
    };
    (class.name(), hue, saturation)
}

#[cfg(test)]
mod tests {
    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    const PICTURE: &str = "@samples A 0..4 user main;work<T>\nA  0000mmmm\nB  mmmm1111  holds m 4..8\n";

    fn written(options: &Options) -> String {
        let (_, trace) = trace_of_lanes(PICTURE);
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Titles of the boxes.
    fn titles(svg: &str) -> Vec<String> {
        let boxes = svg.lines().filter(|line| line.starts_with("<g data-f"));
        boxes
            .map(|line| line.split("<title>").nth(1).unwrap().split("</title>").next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn boxes_show_their_time_and_names_are_escaped() {
        let said = titles(&written(&Options::default()));
        let wanted = [
            "useful 8.00 ms (50.0 %)",
            "lock-wait 8.00 ms (50.0 %)",
            "main 4.00 ms (25.0 %) · /bin/lanes",
            "work&lt;T&gt; 4.00 ms (25.0 %) · /bin/lanes",
        ];
        assert_eq!(said, wanted);
        let on_cpu = Options { flame: FlameTime::OnCpu, ..Options::default() };
        assert_eq!(titles(&written(&on_cpu))[0], "useful 8.00 ms (100 %)");
        let wakers = Options { flame: FlameTime::Wakers, ..Options::default() };
        assert_eq!(titles(&written(&wakers)), ["lock-wait 8.00 ms (100 %)"]);
    }

    #[test]
    fn a_comparison_shows_time_before_and_now() {
        let (_, before) =
            trace_of_lanes("@samples A 0..1 user main;work<T>\nA  00mmmmmm\nB  mm111111  holds m 2..8\n");
        let said = titles(&written(&Options { against: Some(&before), ..Options::default() }));
        assert!(
            said.iter().any(|title| title.starts_with("lock-wait 8.00 ms (50.0 %), before 8.00 ms")),
            "{said:?}"
        );
        assert!(said.iter().any(|title| title.starts_with("work")), "{said:?}");
    }
}
