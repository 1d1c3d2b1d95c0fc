//! The screen's thread: draws moments and reads keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use holdup_report::live::{Ask, Key, Moment, Screen};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Request;
use super::terminal::{self, HeldBack, Terminal};

/// Keys are looked for so often.
const KEYS_EVERY: Duration = Duration::from_millis(50);

/// Requests that keys can make.
#[derive(Clone)]
pub struct Wishes {
    /// To end.
    pub stop: Arc<AtomicBool>,
    /// To save.
    pub save: Request,
    /// The program that was started for it: Ctrl-C is meant for it, too.
    pub program: Option<u32>,
}

/// Shows moments until it is dropped: then the terminal is as it was.
pub struct Watcher {
    sender: Option<Sender<Moment>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Takes the terminal. `words`: holdup's own messages, which are shown in one line.
    pub fn start(screen: Screen, wishes: Wishes, words: Arc<Mutex<Option<HeldBack>>>) -> Result<Watcher> {
        let terminal = Terminal::take()?;
        let (sender, moments) = channel();
        let work = move || {
            holdup_capture::privileges::restore_priority();
            // The thread starts before the recorder drops its privileges. It drops all of its own, because it
            // only handles names of other processes.
            if let Err(error) = holdup_capture::privileges::drop_all() {
                say!("holdup: {error}");
                return;
            }
            show((terminal, screen), &wishes, &moments, &words);
        };
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(work);
        Ok(Watcher { sender: Some(sender), thread: Some(thread.context("starting a thread")?) })
    }

    /// A screen needs a terminal.
    ///
    /// # Errors
    /// If there is none.
    pub fn possible() -> Result<()> {
        if !terminal::is_there() {
            bail!("standard input and output are no terminal: --batch prints lines");
        }
        Ok(())
    }

    /// Shows one.
    pub fn take(&self, moment: &Moment) {
        if let Some(sender) = &self.sender {
            // The thread ends at the user's request. Moments after that are dropped.
            let _ = sender.send(moment.clone());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.sender = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn show(
    (mut terminal, mut screen): (Terminal, Screen),
    wishes: &Wishes,
    moments: &Receiver<Moment>,
    words: &Mutex<Option<HeldBack>>,
) {
    let mut is_new = true;
    loop {
        if is_new && terminal.0.draw(|frame| screen.draw(frame)).is_err() {
            wishes.stop.store(true, Ordering::Relaxed);
        }
        is_new = false;
        match moments.recv_timeout(KEYS_EVERY) {
            Ok(moment) => {
                screen.show(moment);
                is_new = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if terminal::is_closed() {
            wishes.stop.store(true, Ordering::Relaxed);
            return;
        }
        while event::poll(Duration::ZERO).unwrap_or(false) {
            match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => obey(&mut screen, key, wishes),
                Ok(_) => {}
                Err(_) => wishes.stop.store(true, Ordering::Relaxed),
            }
            is_new = true;
        }
        if let Some(words) = words.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
            && let Some(last) = words.fresh().lines().last()
        {
            screen.show_message(last);
            is_new = true;
        }
    }
}

fn obey(screen: &mut Screen, key: KeyEvent, wishes: &Wishes) {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        if key.code == KeyCode::Char('c') {
            wishes.stop.store(true, Ordering::Relaxed);
            if let Some(pid) = wishes.program {
                // SAFETY: sends a signal to a process of ours.
                unsafe { libc::kill(pid as libc::pid_t, libc::SIGINT) };
            }
        }
        return;
    }
    screen.show_message("");
    let Some(key) = meaning(key.code) else { return };
    match screen.key(key) {
        Some(Ask::Quit) => wishes.stop.store(true, Ordering::Relaxed),
        Some(Ask::Save) => wishes.save.ask(),
        None => {}
    }
}

fn meaning(code: KeyCode) -> Option<Key> {
    Some(match code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
