// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsed JSON whose type is not known yet.
//!
//! Members are in alphabetical order, so `data` precedes the `type` that determines its form. A
//! text is therefore parsed into nodes first and interpreted by its type afterwards.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::path::{At, Fault};

/// The maximum depth of nested lists and objects.
const MAX_DEPTH: u32 = 128;

/// The maximum number of characters of a string that an error quotes.
const SHOWN: usize = 40;

/// A JSON value.
pub(crate) enum Node<'de> {
    Null,
    Bool(bool),
    /// An integer. Every signed and unsigned 64-bit number fits.
    Whole(i128),
    Number(f64),
    Text(Cow<'de, str>),
    List(Vec<Self>),
    Object(Vec<(Cow<'de, str>, Self)>),
}

impl Node<'_> {
    /// Returns the node as an integer.
    pub(crate) fn whole(&self, at: &At<'_>) -> Result<i128, Fault> {
        match self {
            Self::Whole(number) => Ok(*number),
            Self::Number(number) if number.fract() == 0.0 && number.abs() >= 1e18 => {
                Err(at.misfit(number, "no type is wider than 64 bits"))
            }
            _ => Err(at.expected("a whole number", self)),
        }
    }
}

impl fmt::Display for Node<'_> {
    /// Prints a description for errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Whole(number) => write!(f, "the number {number}"),
            Self::Number(number) => write!(f, "the number {number}"),
            Self::Text(text) if text.chars().count() > SHOWN => {
                let shown: String = text.chars().take(SHOWN).collect();
                write!(f, "a string that begins with {shown:?}")
            }
            Self::Text(text) => write!(f, "the string {text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level(0).deserialize(deserializer)
    }
}

/// A reader of a node at this depth.
#[derive(Clone, Copy)]
struct Level(u32);

impl Level {
    fn inside<E: Error>(self) -> Result<Self, E> {
        if self.0 >= MAX_DEPTH {
            return Err(E::custom(format_args!("nested deeper than {MAX_DEPTH}")));
        }
        Ok(Self(self.0 + 1))
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Node<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node<'de>, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node<'de>, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Node<'de>, E> {
        Ok(Node::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node<'de>, E> {
        Ok(Node::Whole(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node<'de>, E> {
        Ok(Node::Whole(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node<'de>, E> {
        Ok(Node::Number(number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node<'de>, E> {
        Ok(Node::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Node<'de>, E> {
        Ok(Node::Text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node<'de>, A::Error> {
        let inside = self.inside()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inside)? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node<'de>, A::Error> {
        let inside = self.inside()?;
        let mut members = Vec::new();
        while let Some(name) = access.next_key_seed(inside)? {
            let Node::Text(name) = name else {
                return Err(A::Error::custom("the name of a member is not a string"));
            };
            members.push((name, access.next_value_seed(inside)?));
        }
        Ok(Node::Object(members))
    }
}
