//! A set of runs as comma-separated values: a row a run, a column a knob and a class of the ledger.

use std::fmt::Write;

use holdup_findings::derive::class::Class;
use holdup_findings::experiment::{Experiment, Run, Table};

/// Every run, those that do not count, too.
pub fn table(experiment: &Experiment) -> String {
    let mut knobs: Vec<&str> = experiment
        .settings
        .iter()
        .flat_map(|setting| &setting.knobs)
        .map(|(name, _)| name.as_str())
        .collect();
    knobs.sort_unstable();
    knobs.dedup();
    let mut out = String::from("setting,round,order,wall_ns,progress,value,failure,stolen,others");
    knobs.iter().for_each(|name| out.push_str(&format!(",{}", quoted(name))));
    Class::ALL.iter().for_each(|class| out.push_str(&format!(",{}_ns", class.name().replace('-', "_"))));
    out.push('\n');
    for (order, run) in experiment.runs.iter().enumerate() {
        row(&mut out, experiment, (order, run), &knobs);
    }
    out
}

fn row(out: &mut String, experiment: &Experiment, (order, run): (usize, &Run), knobs: &[&str]) {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let setting = &experiment.settings[run.setting];
    let cells = [
        quoted(&setting.name),
        run.round.to_string(),
        order.to_string(),
        run.wall_ns.to_string(),
        number(run.progress),
        number(run.value(experiment.goal)),
        quoted(&run.failure),
        format!("{:.4}", run.drift.stolen),
        format!("{:.4}", run.drift.others),
    ];
    out.push_str(&cells.join(","));
    for knob in knobs {
        let value = setting.knobs.iter().find(|(name, _)| name == knob).map_or("", |(_, value)| value);
        let _ = write!(out, ",{}", quoted(value));
    }
    for class in Class::ALL {
        let ns = run.ns(Table::Ledger, class.name());
        let _ = write!(out, ",{}", ns.map_or(String::new(), |ns| ns.to_string()));
    }
    out.push('\n');
}

/// As RFC 4180 wants it.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_findings::experiment::Setting;

    #[test]
    fn rows_have_as_many_cells_as_the_heading() {
        let knobs = vec![("cpus".to_owned(), "0,1".to_owned())];
        let experiment = Experiment {
            settings: vec![Setting { name: "cpus=0,1".into(), knobs, command: Vec::new() }],
            runs: vec![Run { failure: "said \"no\"".into(), ..Run::default() }],
            ..Experiment::default()
        };
        let text = table(&experiment);
        let mut lines = text.lines();
        let columns = lines.next().unwrap().split(',').count();
        let row = lines.next().unwrap();
        assert!(row.starts_with("\"cpus=0,1\",0,0,0,,,\"said \"\"no\"\"\","));
        assert_eq!(row.replace("0,1", "01").split(',').count(), columns);
    }
}
