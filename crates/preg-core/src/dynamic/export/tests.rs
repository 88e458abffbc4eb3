// SPDX-License-Identifier: MIT OR Apache-2.0

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::dynamic::{self, Dynamic};
use crate::{NodeList, Regex2};

static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// A scheme whose value is `echo:` and the list. It panics for lists that contain a request to
/// panic.
struct Echo {
    shout: bool,
}

impl Drop for Echo {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

static COMPONENT: Component = Component {
    name: "echo",
    priority: 7,
    enabled: false,
    tag: b"echo:",
    about: "lists after a tag",
    params: &[ParamSpec {
        name: "preg_echo_shout",
        default: "false",
        help: "upper case",
    }],
    query: |params| {
        let shout = params.flag("preg_echo_shout", false)?;
        Ok(Some(Box::new(Echo { shout })))
    },
};

impl Scheme for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn tag(&self) -> &[u8] {
        b"echo:"
    }

    fn framing(&self) -> &str {
        "echo"
    }

    fn kind(&self) -> Option<&str> {
        Some("echo")
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        let list = if self.shout {
            list.to_ascii_uppercase()
        } else {
            list.to_vec()
        };
        Ok(Some(Regex2::new("echo", list)))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, _: &Limits) -> Result<Option<Vec<u8>>, Error> {
        Ok(Some(regex.bytes.to_vec()))
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        assert!(list != b"panic", "asked for");
        Ok(Some([b"echo:", list].concat()))
    }

    fn generate_ppn(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.generate_node_regex(list)
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        let text = regex.strip_prefix(b"echo:").unwrap_or_default();
        if text == b"damaged" {
            return Err(Error::damaged(5, "expected a list"));
        }
        Ok(Some(NodeList::parse_text(text, limits)?))
    }

    fn parse_procs(&self, regex: &[u8], limits: &Limits) -> Result<Option<ProcMap>, Error> {
        let text = regex.strip_prefix(b"echo:").unwrap_or_default();
        Ok(Some(ProcMap::parse_text(text, limits)?))
    }
}

struct Exports;

impl Exported for Exports {
    fn component() -> &'static Component {
        &COMPONENT
    }
}

/// Returns the loader's view of the exported header.
fn loaded() -> pmix_mca::Loaded {
    let header = header::<Exports>();
    // SAFETY: the texts and the table of a header are static.
    let text = |t: abi::Text| unsafe { input(t.ptr, t.len) }.to_vec();
    pmix_mca::Loaded {
        path: PathBuf::from("libecho.so"),
        name: String::from_utf8(text(header.name)).unwrap(),
        about: String::from_utf8(text(header.about)).unwrap(),
        tag: text(header.tag),
        kind: Some(String::from_utf8(text(header.kind)).unwrap()),
        abi: (header.abi_major, header.abi_minor),
        interface: header.interface,
        priority: header.priority,
        enabled: header.flags & abi::OFF_BY_DEFAULT == 0,
        params: None,
        query: header.query,
        // SAFETY: an exported header points to operations that live as long as the program.
        operations: unsafe { *header.operations },
    }
}

fn open(settings: &[(&str, &str)]) -> Dynamic {
    let builder = settings.iter().fold(Params::builder(), |b, (name, value)| {
        b.set(name, *value, Source::Api)
    });
    let params = builder.build().unwrap();
    dynamic::scheme(&loaded(), &params, &Limits::default())
        .unwrap()
        .unwrap()
}

#[test]
fn a_header_describes_the_component() {
    let loaded = loaded();
    assert_eq!(
        (loaded.name.as_str(), loaded.about.as_str()),
        ("echo", COMPONENT.about)
    );
    assert_eq!(
        (&*loaded.tag, loaded.kind.as_deref()),
        (&b"echo:"[..], Some("echo"))
    );
    assert_eq!((loaded.priority, loaded.enabled), (7, false));
}

#[test]
fn both_directions_pass_through_the_table() {
    let scheme = open(&[]);
    let value = scheme.generate_node_regex(b"n1,,n2").unwrap();
    assert_eq!(value.as_deref(), Some(&b"echo:n1,,n2"[..]));
    let list = scheme
        .parse_nodes(b"echo:n1,,n2", &Limits::default())
        .unwrap();
    assert_eq!(list.unwrap().len(), 3);
    let regex = scheme.generate_regex(b"a,b").unwrap().unwrap();
    assert_eq!((regex.kind.as_str(), &*regex.bytes), ("echo", &b"a,b"[..]));
}

#[test]
fn values_are_text_without_legacy_len() {
    let scheme = open(&[]);
    let extent = scheme.legacy_len(b"echo:a\0b").unwrap().unwrap();
    assert_eq!((extent.len, extent.terminator), (6, Terminator::Nul));
    assert_eq!(scheme.legacy_len(b"ohce:a").unwrap(), None);
}

#[test]
fn process_maps_keep_their_nodes_and_ranks() {
    let scheme = open(&[]);
    for text in ["", ";", "0-3;4-7", "0,2,4;;1", "5;3-4;0", " ", "3,2,1;0"] {
        let value = scheme.generate_ppn(text.as_bytes()).unwrap().unwrap();
        let map = scheme
            .parse_procs(&value, &Limits::default())
            .unwrap()
            .unwrap();
        let expected = ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(map, expected, "{text:?}");
    }
}

#[test]
fn a_panic_does_not_cross_and_counts_as_declined() {
    let scheme = open(&[]);
    assert_eq!(scheme.generate_node_regex(b"panic").unwrap(), None);
    assert!(scheme.generate_node_regex(b"n1").unwrap().is_some());
}

#[test]
fn errors_cross_with_message_and_offset() {
    let error = open(&[])
        .parse_nodes(b"echo:damaged", &Limits::default())
        .unwrap_err();
    assert_eq!(
        (error.message(), error.offset()),
        ("expected a list", Some(5))
    );
}

#[test]
fn limits_cross() {
    let limits = Limits {
        max_nodes: 2,
        ..Limits::default()
    };
    let error = open(&[]).parse_nodes(b"echo:a,b,c", &limits).unwrap_err();
    assert_eq!(error.status(), crate::Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(error.offset(), None);
}

#[test]
fn declared_parameters_cross_and_invalid_ones_are_rejected() {
    // With `shout` the value decodes to another list, which verification detects.
    let loud = open(&[("preg_echo_shout", "true")]);
    assert_eq!(loud.generate_regex(b"n1").unwrap(), None);
    assert!(loud.generate_regex(b"N1").unwrap().is_some());
    let builder = Params::builder().set("preg_echo_shout", "loud", Source::Api);
    let made = dynamic::scheme(&loaded(), &builder.build().unwrap(), &Limits::default());
    assert!(made.unwrap().is_none());
}

#[test]
fn a_module_is_dropped_once() {
    // Other tests drop modules concurrently, so the count may be higher.
    let before = DROPPED.load(Ordering::SeqCst);
    drop(open(&[]));
    assert!(DROPPED.load(Ordering::SeqCst) > before);
}
