//! Barriers, joins and pauses by place and one by one: the last thread to arrive, and its delay.

use std::cmp::Reverse;

use holdup_findings::derive::rendezvous::{Meeting, SiteUse};
use serde_json::Value;

use super::{Place, ROWS_MAX, Row, Rows, Table, no_note, place};
use crate::viewer::Viewer;

pub(super) const SITES: Table = Table {
    name: "barriers",
    label: "Barriers and joins",
    columns: &[
        ("name", "barrier, join or pause", "text"),
        ("barriers", "times", "count"),
        ("harm_ns", "waited for the last thread", "ns"),
        ("late_p50_ns", "late: median", "ns"),
        ("late_p99_ns", "99 %", "ns"),
        ("late_max_ns", "longest", "ns"),
        ("last", "costliest last thread", "thread"),
        ("last_times", "… times", "count"),
        ("running_ns", "last thread ran", "ns"),
        ("others_ns", "other programs on its CPU", "ns"),
        ("own_ns", "the program on its CPU", "ns"),
        ("woken_late_ns", "it was woken late", "ns"),
        ("late_at", "it was in", "function"),
    ],
    note: no_note,
    rows: |viewer| sites(viewer).into(),
};

pub(super) const EACH: Table = Table {
    name: "pauses",
    label: "Each barrier or join",
    columns: &[
        ("name", "barrier, join or pause", "text"),
        ("asked", "first arrived", "time"),
        ("late_ns", "last arrived after", "ns"),
        ("last", "last", "thread"),
        ("members", "members", "count"),
    ],
    note: no_note,
    rows: each,
};

fn sites(viewer: &Viewer) -> Vec<Row> {
    let rendezvous = &viewer.analysis().derived.rendezvous;
    let row = |used: &SiteUse| {
        let [p50, p99, longest] = used.lateness_ns;
        let worst = used.worst.first().and_then(|(row, _)| rendezvous.meetings.get(*row));
        let cells: Vec<Value> = vec![
            used.name.clone().into(),
            used.meetings.into(),
            used.harm_ns.into(),
            p50.into(),
            p99.into(),
            longest.into(),
            used.by_last.first().map(|(thread, ..)| thread.0).into(),
            used.by_last.first().map(|(_, times, _)| *times).into(),
            used.causes.running_ns.into(),
            used.causes.others_ns.into(),
            used.causes.own_ns.into(),
            used.causes.woken_late_ns.into(),
            used.late_at.first().map(|(name, _)| name.clone()).into(),
        ];
        (cells, worst.and_then(|meeting| late(viewer, meeting)))
    };
    rendezvous.uses.iter().map(row).collect()
}

/// Place at which the last thread's delay is visible.
fn late(viewer: &Viewer, meeting: &Meeting) -> Option<Place> {
    let members = viewer.analysis().derived.rendezvous.members(meeting);
    let first = members.first()?;
    let who = meeting.last.unwrap_or(members.last()?.thread);
    place(viewer, who, (first.at, meeting.release))
}

fn each(viewer: &Viewer) -> Rows {
    let rendezvous = &viewer.analysis().derived.rendezvous;
    let lateness = |meeting: &Meeting| {
        rendezvous.members(meeting).first().map_or(0, |first| meeting.release.since(first.at).0)
    };
    let mut ranked: Vec<&Meeting> = rendezvous.meetings.iter().collect();
    ranked.sort_by_key(|meeting| (Reverse(lateness(meeting)), meeting.release, meeting.site));
    let row = |meeting: &&Meeting| {
        let used = rendezvous.uses.iter().find(|used| used.site == meeting.site);
        let cells: Vec<Value> = vec![
            used.map(|used| used.name.clone()).into(),
            viewer.since(meeting.asked).into(),
            lateness(meeting).into(),
            meeting.last.map(|thread| thread.0).into(),
            rendezvous.members(meeting).len().into(),
        ];
        (cells, late(viewer, meeting))
    };
    Rows::first(&ranked, ROWS_MAX, row)
}
