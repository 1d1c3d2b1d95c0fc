//! The entries of a trace as they come, one at a time: a file may be larger than what its values would take in memory.
//!
//! Writers take liberties: times are numbers or strings, ids are numbers or strings, the list lacks its end.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

/// One trace event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry<'a> {
    /// Event type.
    #[serde(borrow)]
    pub ph: Cow<'a, str>,
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Categories, separated by commas.
    #[serde(borrow)]
    pub cat: Cow<'a, str>,
    pub ts: Nanoseconds,
    pub dur: Nanoseconds,
    pub pid: Key,
    pub tid: Key,
    pub id: Key,
    pub args: Option<Value>,
}

impl Entry<'_> {
    /// The arguments that are numbers, none below 0.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, u64)> {
        let args = self.args.as_ref().and_then(Value::as_object).into_iter().flatten();
        args.filter_map(|(key, value)| {
            let number = value.as_u64().or_else(|| value.as_f64().map(|number| number.max(0.0) as u64))?;
            Some((key.as_str(), number))
        })
    }

    /// An argument that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.args.as_ref()?.get(key)?.as_str()
    }
}

/// A time, given in microseconds in the file. `None` if it is invalid or negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nanoseconds(pub Option<u64>);

impl Nanoseconds {
    fn of_micros(micros: f64) -> Nanoseconds {
        let ns = (micros * 1000.0).round();
        Nanoseconds((0.0..u64::MAX as f64).contains(&ns).then_some(ns as u64))
    }

    /// Decimal digits are exact where a float would not be: a time since 1970 in ns has 61 bits.
    fn of_text(text: &str) -> Nanoseconds {
        let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
        let exact = || whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(digits.parse::<u64>().ok()?);
        exact()
            .map_or_else(|| text.parse().map(Self::of_micros).unwrap_or_default(), |ns| Nanoseconds(Some(ns)))
    }
}

/// A name that may be written as a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    #[default]
    None,
    Number(u64),
    Text(String),
}

impl Key {
    /// As the number of a process or thread.
    pub fn number(&self) -> u32 {
        match self {
            Key::Number(number) => u32::try_from(*number).unwrap_or(0),
            Key::Text(text) => text.parse().unwrap_or(0),
            Key::None => 0,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::None => Ok(()),
            Key::Number(number) => number.fmt(out),
            Key::Text(text) => text.fmt(out),
        }
    }
}

macro_rules! lenient {
    ($visitor:ident, $type:ident, $number:expr, $float:expr, $text:expr) => {
        struct $visitor;

        impl<'de> Visitor<'de> for $visitor {
            type Value = $type;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number or a text")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<$type, E> {
                Ok($number(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<$type, E> {
                Ok($float(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<$type, E> {
                Ok($float(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                Ok($text(text))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<$type, E> {
                Ok($type::default())
            }

            fn visit_unit<E: de::Error>(self) -> Result<$type, E> {
                Ok($type::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$type, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok($type::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<$type, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok($type::default())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<$type, D::Error> {
                input.deserialize_any($visitor)
            }
        }
    };
}

lenient!(
    TimeVisitor,
    Nanoseconds,
    |micros: u64| Nanoseconds(micros.checked_mul(1000)),
    Nanoseconds::of_micros,
    Nanoseconds::of_text
);
lenient!(KeyVisitor, Key, Key::Number, |number: f64| Key::Text(number.to_string()), |text: &str| Key::Text(
    text.to_owned()
));

/// Passes on each entry.
///
/// # Errors
/// Where the file breaks off or is no JSON: the offset. What came before has been passed on.
pub(super) fn each(bytes: &[u8], sink: &mut dyn FnMut(Entry<'_>)) -> Result<(), u64> {
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let outcome = input.deserialize_any(Whole(sink));
    outcome.map_err(|error| offset_of(bytes, error.line(), error.column()))
}

/// Where a line and column are.
fn offset_of(bytes: &[u8], line: usize, column: usize) -> u64 {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column) as u64
}

/// The list, or an object with the list.
struct Whole<'s>(&'s mut dyn FnMut(Entry<'_>));

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("trace events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(entry) = seq.next_element::<Entry<'de>>()? {
            (self.0)(entry);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "traceEvents" {
                map.next_value_seed(List(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct List<'s>(&'s mut dyn FnMut(Entry<'_>));

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(Whole(self.0))
    }
}
