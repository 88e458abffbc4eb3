// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of an encoder: its component, its scheme, and the results of its functions.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

use std::fmt;
use std::ops::Range;

use pmix_map::{Limits, NodeList, ProcMap};
use pmix_mca::{ParamSpec, Params};
use pmix_types::{Regex2, Regex2Ref};

use crate::Error;

/// An encoder and decoder of node and process maps in one encoding.
///
/// All methods but the first three have a default: [`legacy_len`](Self::legacy_len) treats values
/// as text, the others decline. `Ok(None)` declines, and the next scheme is tried. `Err` means that
/// the value has this scheme's tag but is damaged. No other scheme is tried. Lists are bytes: names
/// separated by commas, or nodes of a process map separated by semicolons; any byte but the
/// separator is allowed. A generator that cannot encode a list exactly must decline.
pub trait Scheme: Send + Sync {
    /// Returns the name of the component.
    fn name(&self) -> &str;

    /// Returns the prefix of every value in string form.
    fn tag(&self) -> &[u8];

    /// Returns the name of the string form for reports: the tag without punctuation.
    fn framing(&self) -> &str;

    /// Returns the regex2 type, or `None` if the scheme neither reads nor writes [`Regex2`] values.
    fn kind(&self) -> Option<&str> {
        None
    }

    /// Encodes a list into the [`Regex2`] form.
    ///
    /// # Errors
    /// The scheme failed, and the next scheme must not be tried.
    fn generate_regex(&self, _list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok(None)
    }

    /// Decodes a [`Regex2`] to list text.
    ///
    /// # Errors
    /// The value has this scheme's type and is damaged, or it exceeds the limits.
    fn parse_regex(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Decodes a [`Regex2`] of a node map to a folded list, without list text in between. Only
    /// schemes with folded encodings need to implement it.
    ///
    /// # Errors
    /// As for [`Scheme::parse_regex`].
    fn regex_nodes(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<NodeList>, Error> {
        Ok(None)
    }

    /// Decodes a [`Regex2`] of a process map to a folded map, without list text in between.
    ///
    /// # Errors
    /// As for [`Scheme::parse_regex`].
    fn regex_procs(
        &self,
        _regex: Regex2Ref<'_>,
        _limits: &Limits,
    ) -> Result<Option<ProcMap>, Error> {
        Ok(None)
    }

    /// Returns `true` for range notation: another scheme may have encoded text in this scheme's
    /// string form as a [`Regex2`]. The datastore then expands the decoded text in a second step.
    fn expands_text(&self) -> bool {
        false
    }

    /// Returns `false` if every value in string form contains a NUL byte. Callers that need text
    /// skip such a scheme.
    fn writes_text(&self) -> bool {
        true
    }

    /// Encodes a node list into the string form (without a terminating NUL).
    ///
    /// # Errors
    /// As for [`Scheme::generate_regex`].
    fn generate_node_regex(&self, _list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Encodes a process map into the string form (without a terminating NUL).
    ///
    /// # Errors
    /// As for [`Scheme::generate_regex`].
    fn generate_ppn(&self, _list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Decodes a node map in string form. `regex` is the value without a NUL after it.
    ///
    /// # Errors
    /// The value has this scheme's tag and is damaged, or it exceeds the limits.
    fn parse_nodes(&self, _regex: &[u8], _limits: &Limits) -> Result<Option<NodeList>, Error> {
        Ok(None)
    }

    /// Decodes a process map in string form. `regex` is the value without a NUL after it.
    ///
    /// # Errors
    /// As for [`Scheme::parse_nodes`].
    fn parse_procs(&self, _regex: &[u8], _limits: &Limits) -> Result<Option<ProcMap>, Error> {
        Ok(None)
    }

    /// Returns the extent of a value of this scheme at the start of `bytes`.
    /// [`Preg::copy`](crate::Preg::copy), `pack`, `unpack` and `release` call it.
    ///
    /// By default a value is text: it begins with the tag and ends before the first NUL. Only a
    /// scheme whose values may contain a NUL overrides this.
    ///
    /// # Errors
    /// The bytes have this scheme's tag, but their length cannot be determined.
    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        let is_own = !self.tag().is_empty() && bytes.starts_with(self.tag());
        Ok(is_own.then(|| Extent::of_text(bytes)))
    }

    /// Explains a value in string form byte by byte.
    fn explain(&self, _value: &[u8]) -> Option<Explanation> {
        None
    }

    /// Explains a [`Regex2`] byte by byte.
    fn explain_regex(&self, _regex: Regex2Ref<'_>) -> Option<Explanation> {
        None
    }
}

// The description of a component for the framework.
//
// Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

/// Creates a scheme from the parameters. Returns `None` if it cannot work on this machine.
pub type Query = fn(&Params) -> Result<Option<Box<dyn Scheme>>, Error>;

/// A statically linked component: the properties of a scheme and the function that creates it.
///
/// Each component crate has one `pub static COMPONENT` and registers it with `inventory::submit! {
/// Registration(&COMPONENT) }`. `pmix-builtin` refers to it as well: the linker drops a crate
/// without references, and its registration with it.
pub struct Component {
    /// The name, as used in `PMIX_MCA_preg` and `plugins.toml`.
    pub name: &'static str,
    /// The built-in priority. The component with the highest priority comes first.
    pub priority: i32,
    /// `true` if the component is active unless a parameter disables it.
    pub enabled: bool,
    /// The prefix of every value in the component's string form. Text with this tag is never
    /// treated as a plain list, even if the component cannot run.
    pub tag: &'static [u8],
    /// A description for users, in one line.
    pub about: &'static str,
    /// The component's own parameters. Every component also has `preg_<name>_priority`, `_enabled`
    /// and `_parse`.
    pub params: &'static [ParamSpec],
    /// Creates the scheme. Returns `None` if it cannot work on this machine.
    pub query: Query,
}

/// The registration of a component with `inventory`, which collects this type.
pub struct Registration(pub &'static Component);

inventory::collect!(Registration);

// The string form: a value without a length, whose extent only its scheme can determine.
//
// Source: OpenPMIx `regex.rst`, "Wire Format", the deprecated string form.

/// A value in string form (`char *` in C, data type `PMIX_REGEX`).
///
/// The bytes do not include a terminating NUL. Some schemes have NULs inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyRegex {
    /// The name of the value's format: the [`crate::Scheme::framing`] of its scheme, or `plain`.
    pub framing: String,
    /// The value.
    pub bytes: Vec<u8>,
}

impl LegacyRegex {
    /// The `framing` of plain lists.
    pub const PLAIN: &'static str = "plain";
}

/// The terminator after the last byte of a value, in memory and in packed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// One NUL: the value is text.
    Nul,
    /// No terminator: the value contains its length.
    None,
}

/// The length of a value and its terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length in bytes, without a terminator.
    pub len: usize,
    /// The terminator of the value.
    pub terminator: Terminator,
}

impl Extent {
    /// Returns the extent of a value that is text: up to the first NUL, or all bytes.
    #[must_use]
    pub fn of_text(bytes: &[u8]) -> Self {
        let len = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        Self {
            len,
            terminator: Terminator::Nul,
        }
    }

    /// Returns the length of the value including its terminator.
    #[must_use]
    pub fn wire_len(self) -> usize {
        self.len + usize::from(self.terminator == Terminator::Nul)
    }
}

/// The data to pack for a value of data type `PMIX_REGEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packed {
    /// The value of a scheme. The caller copies the bytes unchanged.
    Framed(Vec<u8>),
    /// A value that no scheme recognizes. The caller packs it as a `PMIX_STRING`.
    Text(Vec<u8>),
}

/// The result of [`crate::Preg::unpack`] for the value at the start of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// The value of a scheme, and the number of bytes that it takes in the buffer.
    Framed(LegacyRegex, usize),
    /// A value that no scheme recognizes. The caller unpacks a `PMIX_STRING`.
    Text,
}

// The explanation of a value for users, field by field.
//
// Source: this project; offsets are in bytes of the value.

/// A field of an encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The bytes of the field in the value.
    pub range: Range<usize>,
    /// The name of the field in the grammar of its format, for example `width`.
    pub name: &'static str,
    /// The meaning of the bytes, as text.
    pub meaning: String,
}

/// The fields of a value. For a damaged value, the fields before the damage and the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The fields, in the order of their bytes.
    pub fields: Vec<Field>,
    /// The error that ended decoding, if the value is damaged.
    pub fault: Option<Error>,
}

impl Explanation {
    /// Adds a field.
    pub fn field(&mut self, range: Range<usize>, name: &'static str, meaning: impl Into<String>) {
        self.fields.push(Field {
            range,
            name,
            meaning: meaning.into(),
        });
    }
}

/// The form of a value, determined by its tag or type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueForm {
    /// The string form of a scheme.
    String {
        /// The name of the scheme.
        scheme: String,
    },
    /// The string form of a scheme that is disabled for parsing.
    Unread {
        /// The name of the scheme.
        scheme: String,
    },
    /// A plain list: it does not begin with the tag of a scheme.
    List,
    /// A regex2: a value with a type.
    Regex2 {
        /// The type of the regex2.
        kind: String,
        /// The name of the scheme that parses this type; `None` if there is none.
        scheme: Option<String>,
    },
}

impl fmt::Display for ValueForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String { scheme } => write!(f, "string form of scheme {scheme}"),
            Self::Unread { scheme } => {
                write!(
                    f,
                    "string form of scheme {scheme}, which is disabled for parsing"
                )
            }
            Self::List => f.write_str("plain list: it does not begin with the tag of a scheme"),
            Self::Regex2 {
                kind,
                scheme: Some(scheme),
            } => write!(f, "type {kind:?} of scheme {scheme}"),
            Self::Regex2 { kind, scheme: None } => {
                write!(f, "type {kind:?}, which no scheme parses")
            }
        }
    }
}
