//! `holdup pack --dataset` and `holdup query --dataset`: recordings of many machines in one place.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_events::recording::{self, Manifest, store};
use holdup_query::dataset::{self, Added, Root, Run, part_name};
use holdup_query::{Engine, Options, Runner, views};
use holdup_report::numbers;
use holdup_report::text::clean_lines;

use super::{locate, query};
use crate::build_name;
use crate::cli::pack::{DatasetArgs, PackArgs};

/// Some recordings were added, others could not be.
const EXIT_SOME: u8 = 1;

/// Adds recordings to a dataset. If one recording cannot be added, the others still are.
pub fn pack(args: &PackArgs, root: &Path) -> Result<ExitCode> {
    let place = Root::named(root)?;
    let chosen = chosen_views(&args.dataset)?;
    if let Root::Directory(root) = &place {
        crate::record::place::check_above(root)?;
        if !root.is_dir() {
            std::fs::create_dir(root).with_context(|| format!("making {}", root.display()))?;
        }
    }
    let recordings = match args.recordings.is_empty() {
        true => vec![locate::newest()?],
        false => args.recordings.clone(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut runner, mut failed) = (Runner::new(threads)?, 0);
    for path in &recordings {
        match add((&mut runner, threads), path, (&place, &chosen), &args.dataset.label) {
            Ok(said) => say!("holdup: {said}"),
            Err(error) => {
                if let Some(status) = query::interrupted(&error) {
                    return Ok(status);
                }
                failed += 1;
                say!("holdup: {}: not added: {}", path.display(), clean_lines(&format!("{error:#}")));
            }
        }
    }
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ if failed == recordings.len() => bail!("nothing was added to {}", root.display()),
        _ => Ok(ExitCode::from(EXIT_SOME)),
    }
}

fn chosen_views(args: &DatasetArgs) -> Result<Vec<String>> {
    if let Some(unknown) = args.views.iter().find(|name| views::named(name).is_none()) {
        bail!("there is no view {unknown}: `holdup query --schema` lists them");
    }
    match args.views.is_empty() {
        true => Ok(views::all().iter().map(|view| view.name().to_owned()).collect()),
        false => Ok(args.views.clone()),
    }
}

fn add(
    (runner, threads): (&mut Runner, usize),
    path: &Path,
    (root, chosen): (&Root, &[String]),
    labels: &[(String, String)],
) -> Result<String> {
    let tables = locate::tables(Some(path))?;
    let manifest = recording::manifest(&tables.directory)?;
    let run = run(&manifest, labels)?;
    let engine = Engine::new(vec![query::subject(&tables)], Options { memory_bytes: usize::MAX, threads })?;
    let (root, chosen) = (root.clone(), chosen.to_vec());
    let added = runner.run(async move { dataset::add(&engine, &root, &run, &chosen).await })?;
    Ok(match added {
        Added::New(place, bytes) => format!("added {} ({})", place.display(), numbers::bytes(bytes)),
        Added::Known(place) => format!("{} is there already", place.display()),
    })
}

/// The run's path depends only on the recording's manifest, so a recording that is packed twice is stored
/// once.
fn run(manifest: &Manifest, labels: &[(String, String)]) -> Result<Run> {
    let mut told = serde_json::to_value(manifest)?;
    let sum = crc32fast::hash(&serde_json::to_vec(&told)?);
    let command = manifest.command.first().map_or("", String::as_str);
    let name = store::name(command, manifest.start_unix_ns / 1_000_000_000);
    let name = name.trim_end_matches(store::ENDING).trim_end_matches('.');
    // It ends with `-YYYYMMDD-hhmmss`.
    let day = name.rsplit('-').nth(1).unwrap_or_default();
    let (year, rest) = day.split_at_checked(day.len().saturating_sub(4)).unwrap_or((day, ""));
    let (month, day) = rest.split_at_checked(2).unwrap_or((rest, ""));
    if let Some(told) = told.as_object_mut() {
        told.insert("packed_by".to_owned(), build_name::name().into());
    }
    Ok(Run {
        parts: [
            part_name(&manifest.host.name),
            format!("{year}-{month}-{day}"),
            part_name(&format!("{name}-{sum:08x}")),
        ],
        manifest: told,
        labels: labels.to_vec(),
    })
}

/// Returns an engine that queries the runs of a dataset. Unreadable runs are reported and left out.
pub fn engine(root: &Path, options: Options) -> Result<Engine> {
    let place = Root::named(root)?;
    let mut runner = Runner::new(options.threads)?;
    let members = runner.run(async move { dataset::members(&place).await })?;
    for refused in &members.refused {
        say!("holdup: left out: {}", clean_lines(refused));
    }
    if members.runs.is_empty() {
        bail!("{}: it contains no run (`holdup pack --dataset` adds some)", root.display());
    }
    Ok(Engine::of_dataset(members, options)?)
}
