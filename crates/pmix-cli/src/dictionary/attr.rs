// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix attr`: attributes by name, key or pattern.

use pmix_types::{Attribute, Release};
use serde_json::{Map, Value as Json, json};

use super::{Entry, Found, history, history_json, near_names, nearest, nothing};
use crate::failure::Failure;

/// Finds attributes: a name or a key means just that, anything else is a pattern.
pub(super) fn find(what: Option<&str>) -> Result<Found<&'static Attribute>, Failure> {
    let Some(what) = what else {
        let entries = Attribute::all().iter().collect();
        return Ok(Found {
            entries,
            is_list: true,
        });
    };
    let mut entries: Vec<_> = Attribute::by_name(what).into_iter().collect();
    if entries.is_empty() {
        entries = Attribute::sharing(&what.to_ascii_lowercase()).collect();
    }
    if !entries.is_empty() {
        return Ok(Found {
            entries,
            is_list: false,
        });
    }
    entries = Attribute::search(what).collect();
    match entries.len() {
        0 => Err(unknown(what)),
        len => Ok(Found {
            entries,
            is_list: len > 1,
        }),
    }
}

fn unknown(what: &str) -> Failure {
    nothing(what, "attribute", &near(what))
}

/// Returns the names, or for a key the keys, that are most similar to an unknown one.
pub(crate) fn near(what: &str) -> Vec<String> {
    let all = Attribute::all().iter();
    if what.contains('.') {
        let word = what.to_ascii_lowercase();
        let near = nearest(&word, all.map(Attribute::key)).into_iter();
        return near.map(str::to_owned).collect();
    }
    near_names(what, all.map(Attribute::name))
}

impl Entry for &'static Attribute {
    fn columns(&self) -> Vec<String> {
        [self.full_name(), self.key(), self.c_type()]
            .map(str::to_owned)
            .into()
    }

    fn title(&self) -> String {
        self.full_name().to_owned()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("key", self.key().to_owned())];
        for (release, key) in self.other_keys() {
            facts.push(("key", format!("{key} ({release})")));
        }
        if let Some(key) = self.standard_key() {
            facts.push(("key", format!("{key} (Standard)")));
        }
        let data_type = self.data_type().map(|kind| format!(", {kind}"));
        let c_type = format!("{}{}", self.c_type(), data_type.unwrap_or_default());
        facts.push(("type", c_type));
        for (release, c_type) in self.other_c_types() {
            facts.push(("type", format!("{c_type} ({release})")));
        }
        if let Some(c_type) = self.standard_type() {
            facts.push(("type", format!("{c_type} (Standard)")));
        }
        facts.extend(history(
            self.releases(),
            self.standing(),
            Attribute::is_deprecated(self),
        ));
        for other in same_key(self) {
            let note = if other.is_deprecated() {
                " (deprecated)"
            } else {
                ""
            };
            facts.push(("same key", format!("{}{note}", other.full_name())));
        }
        facts
    }

    fn is_deprecated(&self) -> bool {
        Attribute::is_deprecated(self)
    }

    fn to_json(&self) -> Json {
        let mut entry = json!({
            "name": self.full_name(),
            "key": self.key(),
            "type": self.c_type(),
            "data_type": self.data_type().map(|kind| kind.to_string()),
        });
        let deprecated = Attribute::is_deprecated(self);
        history_json(&mut entry, self.releases(), self.standing(), deprecated);
        entry["other_keys"] = by_release(self.other_keys());
        entry["other_types"] = by_release(self.other_c_types());
        entry["standard_key"] = json!(self.standard_key());
        entry["standard_type"] = json!(self.standard_type());
        let same: Vec<_> = same_key(self).map(Attribute::full_name).collect();
        entry["same_key"] = json!(same);
        entry
    }
}

/// Returns the other attributes with the key that this one has in the described releases.
fn same_key(attribute: &'static Attribute) -> impl Iterator<Item = &'static Attribute> {
    let key = attribute.key();
    Attribute::sharing(key).filter(move |other| *other != attribute && other.key() == key)
}

fn by_release(list: &[(Release, &str)]) -> Json {
    let member = |(release, text): &(Release, &str)| (release.to_string(), json!(text));
    Json::Object(list.iter().map(member).collect::<Map<_, _>>())
}
