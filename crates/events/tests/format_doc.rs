//! docs/format.md names every column and every code that a recording can hold.

use holdup_events::event::WakeContext;
use holdup_events::recording::TABLES;
use holdup_events::tables::{CallPartKind, CountKind, FrameKind, FrameSpin, SpanKind, ThreadState};
use holdup_events::{ObjectKind, WaitReason};

const PAGE: &str = include_str!("../../../docs/format.md");

#[test]
fn every_column_is_documented() {
    for table in TABLES {
        let section = PAGE.split(&format!("### {}\n", table.name)).nth(1);
        let section = section.unwrap_or_else(|| panic!("no section {}", table.name));
        let section = section.split("\n##").next().unwrap_or(section);
        for column in table.columns {
            assert!(section.contains(&format!("| `{}` |", column.name)), "{}.{}", table.name, column.name);
        }
        let rows = section.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, table.columns.len(), "{}: columns that are no more", table.name);
    }
}

#[test]
fn every_code_is_documented() {
    let codes: Vec<(&str, Vec<(u8, &str)>)> = vec![
        ("ThreadState", ThreadState::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("WaitReason", WaitReason::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("ObjectKind", ObjectKind::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("WakeContext", WakeContext::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("FrameSpin", FrameSpin::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("CallPartKind", CallPartKind::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("CountKind", CountKind::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("SpanKind", SpanKind::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
        ("FrameKind", FrameKind::ALL.iter().map(|value| (*value as u8, value.name())).collect()),
    ];
    for (name, values) in codes {
        let list = PAGE.split(&format!("- **{name}**: ")).nth(1).unwrap_or_else(|| panic!("no list {name}"));
        let list = list.split("\n- ").next().unwrap_or(list).replace("\n  ", " ");
        for (code, value) in values {
            assert!(list.contains(&format!("{code} {value}")), "{name} {code} {value}");
        }
    }
}
