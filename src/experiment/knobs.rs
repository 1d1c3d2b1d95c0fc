//! Knobs: changes to how the program is run. The list is the single source for help and checks.

use anyhow::{Result, bail};
use holdup_findings::experiment::Setting;
use holdup_findings::experiment::scaling::WORKERS;

/// A knob that holdup knows.
struct Knob {
    name: &'static str,
    summary: &'static str,
    turn: fn(&mut Prepared, &str) -> Result<()>,
}

/// How one run is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables of the program's environment.
    pub env: Vec<(String, String)>,
    /// Conditions (`holdup_capture::launch::Conditions`) as texts.
    pub under: Vec<String>,
    /// The library that pads and pins is loaded into the program.
    pub preload: bool,
}

const KNOBS: &[Knob] = &[
    Knob {
        name: "cpus",
        summary: "CPUs that it may use: cpus=0;0,1",
        turn: |run, value| run.condition("cpus", value),
    },
    Knob {
        name: "pin",
        summary: "each thread to a CPU of its own: none, spread, pack (dynamically linked programs)",
        turn: |run, value| match value {
            "none" => Ok(()),
            "spread" | "pack" => run.preloaded("HOLDUP_PIN", value),
            _ => bail!("pin={value}: none, spread or pack is wanted"),
        },
    },
    Knob {
        name: "policy",
        summary: "scheduling policy: other, batch, idle, fifo, rr",
        turn: |run, value| run.condition("policy", value),
    },
    Knob { name: "nice", summary: "priority, -20 to 19", turn: |run, value| run.condition("nice", value) },
    Knob {
        name: "minor-heap",
        summary: "OCaml: words of the minor heap (256k, 8M)",
        turn: |run, value| {
            let before = std::env::var("OCAMLRUNPARAM").unwrap_or_default();
            let kept = before.split(',').filter(|part| !part.is_empty() && !part.starts_with("s="));
            let all: Vec<String> = kept.map(str::to_owned).chain([format!("s={value}")]).collect();
            run.variable("OCAMLRUNPARAM", &all.join(","))
        },
    },
    Knob { name: "gogc", summary: "Go: GOGC", turn: |run, value| run.variable("GOGC", value) },
    Knob {
        name: "gomaxprocs",
        summary: "Go: GOMAXPROCS",
        turn: |run, value| run.variable("GOMAXPROCS", value),
    },
    Knob {
        name: "heap",
        summary: "JVM: greatest heap (512m, 4g)",
        turn: |run, value| {
            // The JVM uses the last `-Xmx`. The user's other options stay.
            let before = std::env::var("JAVA_TOOL_OPTIONS").unwrap_or_default();
            run.variable("JAVA_TOOL_OPTIONS", format!("{before} -Xmx{value}").trim())
        },
    },
    Knob {
        name: "arenas",
        summary: "glibc: arenas of malloc",
        turn: |run, value| run.variable("MALLOC_ARENA_MAX", value),
    },
    Knob {
        name: "malloc-pad",
        summary: "shifts each large allocation by that many more bytes than the previous one (glibc)",
        turn: |run, value| match value.parse::<u32>() {
            Ok(0) => Ok(()),
            Ok(_) => run.preloaded("HOLDUP_MALLOC_PAD", value),
            Err(_) => bail!("malloc-pad={value}: a number of bytes is wanted"),
        },
    },
    Knob {
        name: "env-size",
        summary: "bytes by which the environment is longer, which moves the stack",
        turn: |run, value| match value.parse::<usize>() {
            Ok(0) => Ok(()),
            Ok(bytes) if bytes <= 65_536 => run.variable("HOLDUP_ENV_SIZE", &"x".repeat(bytes)),
            _ => bail!("env-size={value}: a number up to 65536 is wanted"),
        },
    },
    Knob {
        name: "aslr",
        summary: "random addresses: on, off",
        turn: |run, value| run.condition("aslr", value),
    },
    Knob {
        name: "aslr-seed",
        summary: "addresses that are the same in each run, another for each number",
        turn: |run, value| run.condition("aslr-seed", value),
    },
    Knob {
        name: "thp",
        summary: "transparent huge pages: on, off",
        turn: |run, value| run.condition("thp", value),
    },
];

/// The knobs, for `--help`.
pub fn help() -> String {
    let rows: Vec<String> = KNOBS.iter().map(|knob| format!("  {:11} {}", knob.name, knob.summary)).collect();
    format!("Knobs:\n{}\n\nAny other NAME is a variable of the environment.", rows.join("\n"))
}

impl Prepared {
    /// How a setting's runs are started.
    pub fn new(setting: &Setting) -> Result<Prepared> {
        let mut run = Prepared { words: setting.command.clone(), ..Prepared::default() };
        for (name, value) in &setting.knobs {
            let place = format!("{{{name}}}");
            if run.words.iter().any(|word| word.contains(&place)) {
                run.words.iter_mut().for_each(|word| *word = word.replace(&place, value));
            } else if name == WORKERS {
                // A number used by another knob. It needs no action of its own.
            } else if let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) {
                (knob.turn)(&mut run, value)?;
            } else if is_variable(name) {
                run.variable(name, value)?;
            } else {
                let names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
                bail!(
                    "'{name}' is not a knob, not a variable's name, and not in the command as {place}. The knobs are: {}",
                    names.join(", ")
                );
            }
        }
        // An invalid condition is reported before any run starts.
        holdup_capture::launch::Conditions::parse(&run.under).map_err(anyhow::Error::msg)?;
        Ok(run)
    }

    fn condition(&mut self, name: &str, value: &str) -> Result<()> {
        self.under.push(format!("{name}={value}"));
        Ok(())
    }

    fn variable(&mut self, name: &str, value: &str) -> Result<()> {
        self.env.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    fn preloaded(&mut self, name: &str, value: &str) -> Result<()> {
        self.preload = true;
        self.variable(name, value)
    }
}

fn is_variable(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(letter) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `NAME=v1,v2`, or with semicolons where values hold commas.
pub fn parse_values(text: &str) -> Result<(String, Vec<String>)> {
    let Some((name, values)) = text.split_once('=') else {
        bail!("--set wants NAME=V1,V2,..., not '{text}'");
    };
    let separator = if values.contains(';') { ';' } else { ',' };
    let values: Vec<String> = values.split(separator).map(|value| value.trim().to_owned()).collect();
    let mut seen: Vec<&String> = values.iter().collect();
    seen.sort();
    seen.dedup();
    if seen.len() != values.len() {
        bail!("--set {text}: a value is named twice");
    }
    Ok((name.trim().to_owned(), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(command: &[&str], knobs: &[(&str, &str)]) -> Result<Prepared> {
        Prepared::new(&Setting {
            name: String::new(),
            knobs: knobs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        })
    }

    #[test]
    fn a_knob_is_in_the_command_known_or_a_variable() {
        let run = prepared(&["a", "-j{jobs}"], &[("jobs", "4"), ("cpus", "0"), ("FOO", "x")]).unwrap();
        assert_eq!(run.words, ["a", "-j4"]);
        assert_eq!((run.under, run.env), (vec!["cpus=0".into()], vec![("FOO".into(), "x".into())]));
        assert!(prepared(&["a"], &[("malloc-pad", "16")]).unwrap().preload);
        for (name, value) in [("no-such", "1"), ("cpus", "x"), ("pin", "x"), ("malloc-pad", "-1"), ("", "1")]
        {
            assert!(prepared(&["a"], &[(name, value)]).is_err(), "{name}");
        }
    }

    #[test]
    fn values_may_hold_commas() {
        assert_eq!(parse_values("cpus=0;0,1").unwrap().1, ["0", "0,1"]);
        assert_eq!(parse_values("n=1,2").unwrap().1, ["1", "2"]);
        assert!(parse_values("n=1,1").is_err() && parse_values("n").is_err());
    }
}
