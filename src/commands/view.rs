//! `holdup view`: the socket, the browser and the files. The report crate creates the responses.

use std::io::{IsTerminal, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use holdup_events::recording::{self, SliceStarts};
use holdup_findings::derive::zoom::first_look::{self, Stretch};
use holdup_findings::descriptors::Descriptors;
use holdup_report::viewer::gate::Gate;
use holdup_report::viewer::page::Asset;
use holdup_report::viewer::{Opening, Viewer, bundle, respond};

use super::kept_answers::KeptAnswers;
use super::{locate, socket};
use crate::cli::ViewArgs;

/// The files of the page at build time. Empty if the build had no page.
static ASSETS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/viewer_assets.rs"));

/// How often it is looked whether there are new answers to keep.
const KEEPING: Duration = Duration::from_secs(5);

/// Shorter recordings are read within a second.
const FIRST_LOOK_FROM_SWITCHES: u64 = 1_000_000;

/// Serves a recording, or writes it as one page.
pub fn execute(args: &ViewArgs) -> Result<ExitCode> {
    let before = args.changed.as_ref().and(args.recording.as_deref());
    let (recording, place) = split(args.changed.as_deref().or(args.recording.as_deref()));
    let assets = assets(args.page.as_deref())?;
    let descriptors = super::descriptors::read(&args.descriptors)?;
    let Some(file) = &args.html else {
        let path = locate::find(recording.as_deref())?;
        return serve((&path, before), &descriptors, assets, (args, &place));
    };
    super::outputs::check([&args.html], args.force)?;
    if assets.is_empty() {
        bail!("{}", holdup_report::viewer::page::NOT_BUILT.trim_end());
    }
    let (path, trace) = locate::open(recording.as_deref())?;
    if std::io::stderr().is_terminal() {
        say!("holdup: reading {}", path.display());
    }
    let analysis = holdup_findings::analyse_with(&trace, &descriptors);
    let mut viewer = Viewer::new(trace, analysis);
    if let Some(before) = before {
        let (_, other) = locate::open(Some(before))?;
        viewer = viewer.with_against(other.manifest.clone());
        viewer.compare(other);
    }
    write_page(&viewer, &assets, file, args)
}

/// A recording as reports print it, with a place in it: `t.holdup#t=4.213`.
fn split(recording: Option<&Path>) -> (Option<PathBuf>, String) {
    let Some(path) = recording else { return (None, String::new()) };
    let text = path.to_string_lossy();
    match text.rsplit_once('#') {
        Some((name, place)) if !path.exists() => {
            (Some(PathBuf::from(name)).filter(|name| !name.as_os_str().is_empty()), format!("#{place}"))
        }
        _ => (Some(path.to_owned()), String::new()),
    }
}

fn assets(folder: Option<&Path>) -> Result<Vec<Asset>> {
    let Some(folder) = folder else {
        let own = |(path, bytes): &(&str, &[u8])| Asset { path: (*path).to_owned(), bytes: bytes.to_vec() };
        return Ok(ASSETS.iter().map(own).collect());
    };
    let mut assets = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let path = entry.file_name().to_string_lossy().into_owned();
            assets.push(Asset { path, bytes: std::fs::read(entry.path())? });
        }
    }
    Ok(assets)
}

fn write_page(viewer: &Viewer, assets: &[Asset], file: &Path, args: &ViewArgs) -> Result<ExitCode> {
    let page = bundle::page(viewer, assets, u64::from(args.size) << 20)?;
    super::outputs::write(file, page.html.as_bytes(), args.force)?;
    say!("holdup: wrote {} ({})", file.display(), holdup_report::numbers::bytes(page.html.len() as u64));
    for sentence in &page.thinned {
        say!("holdup: {sentence}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Responds from the start, while the recording is still being read. Until then the page shows the progress.
fn serve(
    (path, before): (&Path, Option<&Path>),
    descriptors: &Descriptors,
    assets: Vec<Asset>,
    (args, place): (&ViewArgs, &str),
) -> Result<ExitCode> {
    // A path that is no recording is reported here, not in the browser.
    let switches = match recording::manifest(path) {
        Ok(manifest) => manifest.cost.switches,
        Err(_) if recording::has_only_journal(path) => 0,
        Err(_) => locate::open(Some(path))?.1.manifest.cost.switches,
    };
    let other = before.map(recording::manifest).transpose()?;
    let kept = KeptAnswers::for_recording((path, before), &args.descriptors);
    let known = kept.as_ref().and_then(KeptAnswers::read);
    let opening = Arc::new(Opening::new(switches, known.as_deref()));
    let is_built = !assets.is_empty();
    let address = format!("{}{place}", listen(args.port, opening.clone(), assets)?);
    super::print(&format!("{address}\n"))?;
    say!("holdup: open this address in a browser of this machine, Ctrl-C exits");
    if !is_built {
        say!("holdup: {}", holdup_report::viewer::page::NOT_BUILT.trim_end());
    } else if !args.no_open {
        open_browser(&address);
    }
    opening.show_first(known.is_none().then(|| first_look(path, switches)).flatten());
    let (_, trace) = locate::open(Some(path))?;
    opening.has_read();
    let begun = holdup_findings::analysis::begin(&trace, descriptors);
    let mut viewer = Viewer::begin(trace, begun).with_annotator(Box::new(|trace, function| {
        super::annotate::as_json(trace, function).map_err(|error| format!("{error:#}"))
    }));
    if let Some(manifest) = other {
        viewer = viewer.with_against(manifest);
    }
    let viewer = opening.put(viewer);
    viewer.complete();
    if let Some(before) = before {
        viewer.compare(locate::open(Some(before))?.1);
    }
    loop {
        std::thread::sleep(KEEPING);
        if let (Some(kept), Some(answers)) = (&kept, opening.to_keep()) {
            kept.write(&answers);
        }
    }
}

/// The summary shown while a long recording is read. `None` for a short recording, which is read fast enough.
fn first_look(path: &Path, switches: u64) -> Option<String> {
    if switches < FIRST_LOOK_FROM_SWITCHES {
        return None;
    }
    let starts = SliceStarts::open(path).ok()?;
    let visit = |group, to: &mut Stretch<'_>| {
        starts.visit(group, |slice| to.push(slice.thread, slice.at, slice.state))
    };
    let look = first_look::derive(&starts.trace, starts.groups(), visit)?;
    Some(holdup_report::viewer::first_look::answer(&starts.trace, &look))
}

/// Starts to serve in a thread of its own, until the process exits. Returns the address.
fn listen(port: u16, opening: Arc<Opening>, assets: Vec<Asset>) -> Result<String> {
    let listener =
        TcpListener::bind(("127.0.0.1", port)).with_context(|| format!("listening on 127.0.0.1:{port}"))?;
    let port = listener.local_addr().context("the port that is listened on")?.port();
    let gate = Gate { port, token: token()? };
    let address = gate.address();
    if std::env::var_os("SSH_CONNECTION").is_some() {
        say!(
            "holdup: from another machine: `ssh -L {port}:127.0.0.1:{port} THIS_HOST` there, then the same address"
        );
    }
    std::thread::Builder::new()
        .name("holdup-view".to_owned())
        .spawn(move || socket::serve(&listener, |request| respond(&opening, &gate, &assets, request)))
        .context("starting the server")?;
    Ok(address)
}

/// 128 random bits.
fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("reading /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens the user's browser, if there is a screen and a way to.
fn open_browser(address: &str) {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        let quiet = Stdio::null;
        let mut command = Command::new("xdg-open");
        let _ = command.arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    }
}
