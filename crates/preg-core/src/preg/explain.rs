// SPDX-License-Identifier: MIT OR Apache-2.0
//! The explanation of values for users.

use crate::{Explanation, Preg, Regex2Ref, Scheme, ValueForm};

impl Preg {
    /// Returns the form and the fields of a value in the string form. For a damaged value the
    /// explanation contains the fields up to the error, and the error.
    ///
    /// If the scheme cannot explain its values, the fields are its tag and the remaining bytes.
    /// There are no fields for a plain list, and for a scheme that is disabled for parsing.
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

    /// Returns the form and the fields of a value with a type. There are no fields if no scheme
    /// parses the type, or if its scheme cannot explain its values.
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

/// Returns the explanation for a scheme that cannot explain its values.
fn tag_only(scheme: &dyn Scheme, value: &[u8]) -> Explanation {
    let mut explanation = Explanation::default();
    let tag = scheme.tag().len();
    explanation.field(0..tag, "tag", format!("scheme {}", scheme.name()));
    explanation.field(tag..value.len(), "body", "known only to the scheme");
    explanation
}
