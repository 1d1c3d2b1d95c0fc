//! A request: the last part of an address, and its parameters. Only parses, without interpreting them.

use std::collections::BTreeMap;

use super::Refusal;

/// More items than this in a list are refused.
const ITEMS_MAX: usize = 256;

/// A question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    parameters: BTreeMap<String, String>,
}

impl Ask {
    /// Reads `a=1&b=x%20y`.
    ///
    /// # Errors
    /// A parameter that is not among `known`, or twice, or not decodable.
    pub fn parse(query: &str, known: &[&str]) -> Result<Ask, Refusal> {
        let mut ask = Ask::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(value) = decode(value) else {
                return Err(Refusal::bad("a parameter is not valid percent-encoded UTF-8"));
            };
            if !known.contains(&name) {
                return Err(Refusal::Bad(format!("no such parameter here: there are {}", known.join(", "))));
            }
            if ask.parameters.insert(name.to_owned(), value).is_some() {
                return Err(Refusal::Bad(format!("{name} is there twice")));
            }
        }
        Ok(ask)
    }

    /// A text, if it is there.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// A whole number, if it is there.
    ///
    /// # Errors
    /// It is no number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(Refusal::Bad(format!("{name} wants a whole number"))),
            },
        }
    }

    /// A whole number that must be there.
    ///
    /// # Errors
    /// It is not, or is no number.
    pub fn needed(&self, name: &str) -> Result<u64, Refusal> {
        self.number(name)?.ok_or_else(|| Refusal::Bad(format!("{name} is missing")))
    }

    /// A list of numbers, if it is there.
    ///
    /// # Errors
    /// One is no number, or there are too many.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<u32>>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let items = text.split(',').filter(|item| !item.is_empty());
        let numbers: Result<Vec<u32>, _> = items.map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.len() > ITEMS_MAX => {
                Err(Refusal::Bad(format!("{name}: at most {ITEMS_MAX} at once")))
            }
            Ok(numbers) => Ok(Some(numbers)),
            Err(_) => Err(Refusal::Bad(format!("{name} wants whole numbers with commas between"))),
        }
    }

    /// `1` is yes, `0` and nothing no.
    ///
    /// # Errors
    /// It is neither.
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.text(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(_) => Err(Refusal::Bad(format!("{name} wants 0 or 1"))),
        }
    }
}

/// `%20` and `+` as in a form.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_come_out_as_they_went_in() {
        let ask = Ask::parse("q=a%20b+%C3%A9%26&threads=1,2,&reverse=1", &["q", "threads", "reverse"]);
        let ask = ask.expect("a question");
        assert_eq!(ask.text("q"), Some("a b é&"));
        assert_eq!(ask.numbers("threads").expect("numbers"), Some(vec![1, 2]));
        assert!(ask.flag("reverse").expect("a flag") && !ask.flag("other").expect("none"));
        assert!(ask.needed("level").is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for query in ["x=1", "a=1&a=2", "a=%zz", "a=%ff", "a=%4"] {
            assert!(Ask::parse(query, &["a"]).is_err(), "{query}");
        }
        let long = format!("a={}", "1,".repeat(257));
        let ask = |query: &str| Ask::parse(query, &["a"]).expect("a question");
        assert!(ask("a=-1").number("a").is_err() && ask("a=1e3").number("a").is_err());
        assert!(ask("a=1,x").numbers("a").is_err() && ask("a=2").flag("a").is_err());
        assert!(ask(&long).numbers("a").is_err());
        assert!(ask("a=99999999999999999999").number("a").is_err());
    }
}
