//! Values of a chunk: numbers, texts, and the structures that the chunk's metadata describe.

use std::collections::HashMap;
use std::sync::Arc;

use crate::imported::Bytes;

/// Deeper values are a broken file's.
const DEPTH_MAX: u32 = 16;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Text(String),
    /// A constant, by its class and number.
    Constant(u64, u64),
    /// Fields of a class that is written in place, or elements of a list.
    Many(Vec<Value>),
    None,
}

impl Value {
    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// A field of a class. Many have the same name, which the file has once.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    pub name: Arc<str>,
    pub class: u64,
    pub is_constant: bool,
    pub is_list: bool,
}

/// A class: an event's, a constant's, or a part's.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub name: Arc<str>,
    pub fields: Vec<Field>,
}

impl Class {
    /// The value of a field, by its name.
    pub fn get<'a>(&self, values: &'a [Value], name: &str) -> Option<&'a Value> {
        values.get(self.fields.iter().position(|field| &*field.name == name)?)
    }
}

/// Classes by their number.
pub(super) type Classes = HashMap<u64, Class>;

/// A number of 1 to 9 bytes, the least significant seven bits first.
pub(super) fn number(bytes: &mut Bytes<'_>) -> Option<u64> {
    let mut value = 0;
    for place in 0..8 {
        let byte = u64::from(bytes.u8()?);
        value |= (byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    Some(value | u64::from(bytes.u8()?) << 56)
}

/// A text in any encoding. `Number` if it refers to a constant.
pub(super) fn text(bytes: &mut Bytes<'_>) -> Option<Value> {
    Some(match bytes.u8()? {
        0 => Value::None,
        1 => Value::Text(String::new()),
        2 => Value::Number(number(bytes)?),
        3 => {
            let length = number(bytes)?;
            Value::Text(String::from_utf8_lossy(bytes.take(length)?).into_owned())
        }
        4 => {
            let length = number(bytes)?;
            // Each takes a byte at least.
            if length > bytes.0.len() as u64 {
                return None;
            }
            let units = (0..length).map(|_| number(bytes).map(|unit| unit as u16));
            Value::Text(String::from_utf16_lossy(&units.collect::<Option<Vec<u16>>>()?))
        }
        5 => {
            let length = number(bytes)?;
            Value::Text(bytes.take(length)?.iter().map(|byte| char::from(*byte)).collect())
        }
        _ => return None,
    })
}

/// The fields of a class.
pub(super) fn fields(classes: &Classes, class: &Class, bytes: &mut Bytes<'_>) -> Option<Vec<Value>> {
    all_fields(classes, class, bytes, 0)
}

/// A constant of a class: its fields. One of a class without fields is a single value, such as a text, or takes no bytes.
pub(super) fn constant(
    classes: &Classes,
    (number, class): (u64, &Class),
    bytes: &mut Bytes<'_>,
) -> Option<Vec<Value>> {
    if !class.fields.is_empty() {
        return fields(classes, class, bytes);
    }
    if !is_simple(&class.name) {
        return Some(Vec::new());
    }
    value(classes, &Field { class: number, ..Field::default() }, bytes, 0).map(|value| vec![value])
}

/// Whether values of this class are written as they are, not by their fields.
fn is_simple(name: &str) -> bool {
    let simple = ["boolean", "byte", "char", "short", "int", "long", "float", "double", "java.lang.String"];
    simple.contains(&name)
}

fn all_fields(classes: &Classes, class: &Class, bytes: &mut Bytes<'_>, depth: u32) -> Option<Vec<Value>> {
    class.fields.iter().map(|field| one_field(classes, field, bytes, depth)).collect()
}

fn one_field(classes: &Classes, field: &Field, bytes: &mut Bytes<'_>, depth: u32) -> Option<Value> {
    if !field.is_list {
        return value(classes, field, bytes, depth);
    }
    let count = number(bytes)?;
    // Each takes a byte at least.
    if count > bytes.0.len() as u64 {
        return None;
    }
    (0..count).map(|_| value(classes, field, bytes, depth)).collect::<Option<Vec<_>>>().map(Value::Many)
}

fn value(classes: &Classes, field: &Field, bytes: &mut Bytes<'_>, depth: u32) -> Option<Value> {
    if field.is_constant {
        return Some(Value::Constant(field.class, number(bytes)?));
    }
    let class = classes.get(&field.class).filter(|_| depth < DEPTH_MAX)?;
    Some(match &*class.name {
        "boolean" | "byte" => Value::Number(bytes.u8()?.into()),
        "char" | "short" | "int" | "long" => Value::Number(number(bytes)?),
        "float" => Value::Number(bytes.u32()?.into()),
        "double" => Value::Number(bytes.u64()?),
        "java.lang.String" => match text(bytes)? {
            Value::Number(constant) => Value::Constant(field.class, constant),
            other => other,
        },
        // A class without fields takes no byte, so a list of them has no bound.
        _ if class.fields.is_empty() => return None,
        _ => Value::Many(all_fields(classes, class, bytes, depth + 1)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_up_to_nine_bytes() {
        let of = |bytes: &[u8]| number(&mut Bytes(bytes));
        assert_eq!(of(&[5]), Some(5));
        assert_eq!(of(&[0x80, 1]), Some(128));
        assert_eq!(of(&[0xff; 9]), Some(u64::MAX));
        assert_eq!(of(&[0x80, 0x80]), None, "cut");
    }

    #[test]
    fn texts_have_five_encodings() {
        let of = |bytes: &[u8]| text(&mut Bytes(bytes));
        assert_eq!(of(&[0]), Some(Value::None));
        assert_eq!(of(&[1]), Some(Value::Text(String::new())));
        assert_eq!(of(&[2, 7]), Some(Value::Number(7)));
        assert_eq!(of(&[3, 2, b'a', b'b']), Some(Value::Text("ab".into())));
        assert_eq!(of(&[4, 1, 0xac, 0x41]), Some(Value::Text("€".into())));
        assert_eq!(of(&[5, 1, 0xe9]), Some(Value::Text("é".into())));
        assert_eq!(of(&[3, 9, b'a']), None, "cut");
        assert_eq!(of(&[4, 9, b'a']), None, "more than there is");
        assert_eq!(of(&[9]), None);
    }

    #[test]
    fn constants_may_be_texts() {
        let text = Class { name: "java.lang.String".into(), ..Class::default() };
        let classes = Classes::from([(3, text), (4, Class::default())]);
        let mut bytes = Bytes(&[3, 2, b'a', b'b', 9]);
        let of = |number: u64, bytes: &mut Bytes<'_>| constant(&classes, (number, &classes[&number]), bytes);
        assert_eq!(of(3, &mut bytes), Some(vec![Value::Text("ab".into())]));
        assert_eq!((of(4, &mut bytes), bytes.0), (Some(Vec::new()), &[9][..]));
    }

    #[test]
    fn classes_that_hold_themselves_end() {
        let own = Field { name: "own".into(), class: 1, ..Field::default() };
        let classes = Classes::from([(1, Class { name: "loop".into(), fields: vec![own] })]);
        assert_eq!(fields(&classes, &classes[&1], &mut Bytes(&[1; 64])), None);
        let many = Field { name: "many".into(), class: 2, is_list: true, ..Field::default() };
        let classes =
            Classes::from([(1, Class { name: "list".into(), fields: vec![many] }), (2, Class::default())]);
        assert_eq!(fields(&classes, &classes[&1], &mut Bytes(&[60; 64])), None, "elements of no bytes");
    }
}
