// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a value is and which fields it has, for a reader.

use crate::{Explanation, Preg, Regex2Ref, Scheme, ValueForm};

impl Preg {
    /// Says what a value in the string form is, and what its fields are. The fault at which reading of a
    /// damaged value stops is in the explanation, not an error: what stands in front of it is explained.
    ///
    /// A scheme that has no account of its own is told by its tag and the rest. Nothing is known of the
    /// fields of a plain list, or of a value whose scheme may not read.
    #[must_use]
    pub fn explain(&self, value: &[u8]) -> (ValueForm, Explanation) {
        let mut schemes = self.modules().iter().map(|module| &*module.scheme);
        let owner = schemes.find(|scheme| value.starts_with(scheme.tag()));
        match (owner, self.tag_owner(value)) {
            (Some(scheme), _) => {
                let form = ValueForm::String {
                    scheme: scheme.name().to_owned(),
                };
                let explained = scheme.explain(value);
                (form, explained.unwrap_or_else(|| tag_only(scheme, value)))
            }
            (None, Some(name)) => {
                let scheme = name.to_owned();
                (ValueForm::Unread { scheme }, Explanation::default())
            }
            (None, None) => (ValueForm::List, Explanation::default()),
        }
    }

    /// Says the same of a value that names its type. Nothing is known of the fields of a type that no
    /// scheme reads, or whose scheme has no account of its own.
    #[must_use]
    pub fn explain_regex(&self, regex: Regex2Ref<'_>) -> (ValueForm, Explanation) {
        let mut schemes = self.modules().iter().map(|module| &*module.scheme);
        let owner = schemes.find(|scheme| scheme.kind() == Some(regex.kind));
        let form = ValueForm::Regex2 {
            kind: regex.kind.to_owned(),
            scheme: owner.map(|scheme| scheme.name().to_owned()),
        };
        let explained = owner.and_then(|scheme| scheme.explain_regex(regex));
        (form, explained.unwrap_or_default())
    }
}

/// What can be said where a scheme has no account of its own.
fn tag_only(scheme: &dyn Scheme, value: &[u8]) -> Explanation {
    let mut explanation = Explanation::default();
    let tag = scheme.tag().len();
    explanation.field(0..tag, "tag", format!("scheme {}", scheme.name()));
    explanation.field(tag..value.len(), "body", "known to the scheme alone");
    explanation
}
