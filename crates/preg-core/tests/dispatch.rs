// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dispatch rules of the ten entry points, tested with toy schemes.

use pmix_mca::{Params, Source};
use preg_core::{
    Component, Error, Explanation, Extent, LegacyRegex, Limits, NodeList, Packed, Preg, ProcMap,
    Regex2, Regex2Ref, Scheme, Status, Terminator, Unpacked, ValueForm,
};

/// A scheme whose value is its tag and the list, with `pad` extra bytes in the regex2 form.
///
/// It accepts lists that contain its name, and every list if its name is `any`. Its values end with
/// `!`. A value without `!` is damaged.
struct Toy {
    name: &'static str,
    tag: &'static [u8],
    pad: usize,
    ranges: bool,
}

impl Toy {
    fn takes(&self, list: &[u8]) -> bool {
        let name = self.name.as_bytes();
        self.name == "any" || list.windows(name.len()).any(|w| w == name)
    }

    fn body<'a>(&self, value: &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        let Some(body) = value.strip_prefix(self.tag) else {
            return Ok(None);
        };
        let damaged = || Error::damaged(value.len(), "expected `!`");
        body.strip_suffix(b"!").map(Some).ok_or_else(damaged)
    }
}

impl Scheme for Toy {
    fn name(&self) -> &str {
        self.name
    }
    fn tag(&self) -> &[u8] {
        self.tag
    }
    fn framing(&self) -> &str {
        self.name
    }
    fn kind(&self) -> Option<&str> {
        Some(self.name)
    }
    fn expands_text(&self) -> bool {
        self.ranges
    }
    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        let bytes = [list, &vec![b'.'; self.pad]].concat();
        Ok(self.takes(list).then(|| Regex2::new(self.name, bytes)))
    }
    fn parse_regex(&self, regex: Regex2Ref<'_>, _: &Limits) -> Result<Option<Vec<u8>>, Error> {
        let text = || regex.bytes[..regex.bytes.len() - self.pad].to_vec();
        Ok((regex.kind == self.name).then(text))
    }
    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.takes(list).then(|| [self.tag, list, b"!"].concat()))
    }
    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.generate_node_regex(list)
    }
    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        let Some(body) = self.body(regex)? else {
            return Ok(None);
        };
        Ok(Some(NodeList::parse_text(body, limits)?))
    }
    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let Some(body) = self.body(regex)? else {
            return Ok(None);
        };
        Ok(Some(ProcMap::parse_text(body, limits)?))
    }
    fn legacy_len(&self, bytes: &[u8]) -> Result<Option<Extent>, Error> {
        if !bytes.starts_with(self.tag) {
            return Ok(None);
        }
        // Values of `any` contain their length; those of the other schemes are text.
        match bytes.iter().position(|b| *b == b'!') {
            Some(end) if self.name == "any" => Ok(Some(Extent {
                len: end + 1,
                terminator: Terminator::None,
            })),
            _ => Ok(Some(Extent::of_text(bytes))),
        }
    }
}

macro_rules! component {
    ($static:ident, $name:literal, $priority:literal, $pad:literal, $ranges:literal) => {
        static $static: Component = Component {
            name: $name,
            priority: $priority,
            enabled: true,
            tag: concat!($name, "=").as_bytes(),
            about: "a toy",
            params: &[],
            query: |_| {
                let tag = concat!($name, "=").as_bytes();
                Ok(Some(Box::new(Toy {
                    name: $name,
                    tag,
                    pad: $pad,
                    ranges: $ranges,
                })))
            },
        };
    };
}

component!(HIGH, "high", 90, 4, false);
component!(MID, "mid", 50, 2, true);
component!(ANY, "any", 10, 4, false);

fn open(settings: &[(&str, &str)]) -> Preg {
    let mut params = Params::builder();
    for (name, value) in settings {
        params = params.set(name, *value, Source::Api);
    }
    Preg::open(&params.build().unwrap(), &[&ANY, &HIGH, &MID]).unwrap()
}

fn text(list: &NodeList) -> String {
    let mut out = Vec::new();
    list.write_text(b',', &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_string_form_is_that_of_the_highest_accepting_priority() {
    let preg = open(&[]);
    assert_eq!(
        preg.generate_node_regex(b"high,mid").unwrap().bytes,
        b"high=high,mid!"
    );
    assert_eq!(preg.generate_node_regex(b"mid1").unwrap().framing, "mid");
    assert_eq!(preg.generate_ppn(b"0;1").unwrap().bytes, b"any=0;1!");
}

#[test]
fn regex2_is_the_smallest_value_and_priority_breaks_ties() {
    let preg = open(&[]);
    assert_eq!(preg.generate_regex(b"high,mid").unwrap().kind, "mid");
    assert_eq!(preg.generate_regex(b"high").unwrap().kind, "high");
}

#[test]
fn a_list_that_all_decline_is_its_own_value() {
    let preg = open(&[("preg", "^any")]);
    let plain = preg.generate_node_regex(b"n1,,n2").unwrap();
    assert_eq!(
        (plain.framing.as_str(), &plain.bytes[..]),
        (LegacyRegex::PLAIN, &b"n1,,n2"[..])
    );
    assert_eq!(text(&preg.parse_nodes(b"n1,,n2").unwrap()), "n1,,n2");
    assert_eq!(preg.parse_procs(b"0-3;4").unwrap().num_ranks(), 5);
    let status = preg.generate_regex(b"n1").unwrap_err().status();
    assert_eq!(status, Status::ERR_NOT_SUPPORTED);
}

#[test]
fn a_damaged_value_stops_the_search_with_its_offset() {
    let error = open(&[]).parse_nodes(b"mid=n1,n2").unwrap_err();
    assert_eq!((error.scheme(), error.offset()), (Some("mid"), Some(9)));
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn never_splits_a_value_whose_scheme_may_not_parse() {
    let preg = open(&[("preg", "^mid"), ("preg_mid_parse", "false")]);
    let error = preg.parse_nodes(b"mid=n1,n2!").unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    assert!(preg.parse_nodes(b"n1\0n2").is_err());
    // The receiver would reject the plain list with the same error.
    let preg = open(&[("preg", "^any")]);
    assert!(preg.generate_node_regex(b"any=1,n2").is_err());
}

#[test]
fn the_error_distinguishes_forbidden_and_unknown_values() {
    let excluded = open(&[("preg", "^mid"), ("preg_mid_parse", "false")]);
    let message = excluded.parse_nodes(b"mid=n1!").unwrap_err().to_string();
    assert!(
        message.contains("scheme mid, which is disabled for parsing"),
        "{message}"
    );
    let shipped = open(&[("preg", "^any")]).generate_node_regex(b"any=1,n2");
    let message = shipped.unwrap_err().to_string();
    assert!(
        message.contains("begins like a value of scheme any"),
        "{message}"
    );
}

#[test]
fn a_disabled_encoder_still_parses() {
    let preg = open(&[("preg", "^mid")]);
    assert_eq!(preg.generate_node_regex(b"mid1").unwrap().framing, "any");
    assert_eq!(text(&preg.parse_nodes(b"mid=n1,n2!").unwrap()), "n1,n2");
}

#[test]
fn only_one_nul_may_follow_a_value() {
    let preg = open(&[]);
    assert_eq!(text(&preg.parse_nodes(b"mid=a,b!\0").unwrap()), "a,b");
    assert_eq!(text(&preg.parse_nodes(b"any=a,b!\0").unwrap()), "a,b");
    assert_eq!(
        preg.parse_nodes(b"any=a,b!c").unwrap_err().offset(),
        Some(8)
    );
    assert_eq!(
        preg.parse_nodes(b"mid=a,b!\0c").unwrap_err().offset(),
        Some(8)
    );
}

#[test]
fn copies_include_the_nul_of_text_forms_only() {
    let preg = open(&[]);
    assert_eq!(preg.copy(b"mid=a!").unwrap(), b"mid=a!\0");
    assert_eq!(preg.copy(b"any=a!").unwrap(), b"any=a!");
    assert_eq!(preg.copy(b"a,b").unwrap(), b"a,b\0");
}

#[test]
fn values_survive_packing_and_leave_the_rest_of_the_buffer() {
    let preg = open(&[]);
    for value in [&b"mid=a!"[..], b"any=a!"] {
        let Packed::Framed(mut buffer) = preg.pack(value).unwrap() else {
            panic!("framed")
        };
        let used = buffer.len();
        buffer.extend_from_slice(b"next item");
        let Unpacked::Framed(back, len) = preg.unpack(&buffer).unwrap() else {
            panic!("framed")
        };
        assert_eq!((&back.bytes[..], len), (value, used));
    }
    assert_eq!(preg.pack(b"a,b").unwrap(), Packed::Text(b"a,b".to_vec()));
    assert_eq!(preg.unpack(b"a,b\0").unwrap(), Unpacked::Text);
}

#[test]
fn a_buffer_that_ends_inside_a_value_is_an_error() {
    let status = open(&[]).unpack(b"mid=a!").unwrap_err().status();
    assert_eq!(status, Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
}

#[test]
fn only_the_owner_releases_a_value() {
    let preg = open(&[]);
    let value = preg.generate_node_regex(b"mid1").unwrap();
    assert!(preg.release(value).is_ok());
    let plain = LegacyRegex {
        framing: LegacyRegex::PLAIN.to_owned(),
        bytes: b"n1".to_vec(),
    };
    assert_eq!(
        preg.release(plain).unwrap_err().status(),
        Status::ERR_BAD_PARAM
    );
}

#[test]
fn regex2_is_parsed_by_type_and_unknown_types_are_unsupported() {
    let preg = open(&[]);
    let regex = preg.generate_regex(b"mid1,mid2").unwrap();
    assert_eq!(preg.parse_regex(regex.as_view()).unwrap(), b"mid1,mid2");
    let unknown = Regex2::new("MID", regex.bytes);
    let status = preg.parse_regex(unknown.as_view()).unwrap_err().status();
    assert_eq!(status, Status::ERR_NOT_SUPPORTED);
}

#[test]
fn expands_ranges_in_decoded_text_but_no_other_tags() {
    let preg = open(&[]);
    let ranges = Regex2::new("any", *b"mid=n1,n2!....");
    assert_eq!(
        text(&preg.resolve_nodes(ranges.as_view()).unwrap()),
        "n1,n2"
    );
    let names = Regex2::new("any", *b"high=1,n2....");
    assert_eq!(
        text(&preg.resolve_nodes(names.as_view()).unwrap()),
        "high=1,n2"
    );
    let procs = Regex2::new("any", *b"0-3;;4....");
    assert_eq!(preg.resolve_procs(procs.as_view()).unwrap().num_nodes(), 3);
}

#[test]
fn rejects_lists_that_look_like_damaged_ranges() {
    let preg = open(&[]);
    assert_eq!(
        preg.generate_regex(b"mid=1,n2").unwrap_err().status(),
        Status::ERR_NOT_SUPPORTED
    );
    assert!(preg.generate_regex(b"mid=n1,n2!").is_ok());
}

#[test]
fn many_threads_get_the_same_results() {
    let preg = open(&[]);
    let lists: Vec<String> = (0..64).map(|i| format!("mid{i},high{i},n{i}")).collect();
    let answer = |list: &String| {
        let string = preg.generate_node_regex(list.as_bytes()).unwrap();
        let regex = preg.generate_regex(list.as_bytes()).unwrap();
        (
            text(&preg.parse_nodes(&string.bytes).unwrap()),
            preg.parse_regex(regex.as_view()),
        )
    };
    let expected: Vec<_> = lists.iter().map(answer).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for (list, expected) in lists.iter().zip(&expected) {
                    assert_eq!(&answer(list), expected);
                }
            });
        }
    });
}

#[test]
fn a_value_is_explained_by_the_scheme_of_its_tag_or_type() {
    let preg = open(&[("preg", "^high"), ("preg_high_parse", "false")]);
    let (form, told) = preg.explain(b"mid=a!");
    assert_eq!(form.to_string(), "string form of scheme mid");
    // These schemes cannot explain their values.
    let fields: Vec<_> = told
        .fields
        .iter()
        .map(|f| (f.range.clone(), f.name))
        .collect();
    assert_eq!(fields, [(0..4, "tag"), (4..6, "body")]);
    let scheme = "high".to_owned();
    assert_eq!(preg.explain(b"high=a!").0, ValueForm::Unread { scheme });
    assert_eq!(
        preg.explain(b"a,b"),
        (ValueForm::List, Explanation::default())
    );
    let form = |kind| {
        preg.explain_regex(Regex2Ref { kind, bytes: b"a" })
            .0
            .to_string()
    };
    assert_eq!(form("mid"), "type \"mid\" of scheme mid");
    assert_eq!(form("zip"), "type \"zip\", which no scheme parses");
}
