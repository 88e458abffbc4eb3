// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of a plugin file: loads it, and encodes and decodes sample lists with it.
//!
//! Source: `docs/plugins.md`.

use std::path::{Path, PathBuf};

use pmix_mca::{Loaded, Params, Refusal};

use super::verify::Form;
use super::{Dynamic, fault::Fault};
use crate::{Component, Error, Limits, Regex2Ref, Scheme, Status, preg};

/// Node lists that a component must encode exactly or decline.
const NODE_LISTS: &[(&str, &[u8])] = &[
    ("no names", b""),
    ("one name", b"n1"),
    ("consecutive names", b"node001,node002,node003,node004"),
    ("widths that change", b"n8,n9,n10,n11,n099"),
    ("names out of order", b"login,node3,node1,login,node2"),
    ("names given twice", b"n1,n1,n2,n2,n1"),
    ("empty names", b"n1,,n2,"),
    ("names with signs", b"ip-10-0-0-1.ec2.internal,a_b.c,x[1]:2"),
    ("bytes that are not text", b"n\xff\xfe1,n\xc3\xa9"),
    ("a common prefix", b"rack-a,rack-bb,rack-login,rack-"),
    ("a common suffix", b"n1-ib,n2-ib,n3-ib,n10-ib"),
    (
        "a common domain",
        b"a.hpc.example,b7.hpc.example,login.hpc.example",
    ),
    (
        "products of numbers",
        b"r1c0n1,r1c0n2,r1c1n1,r1c1n2,r2c0n1,r2c0n2,r2c1n1,r2c1n2",
    ),
    ("names in runs", b"n1,n1,n1,n1,n2,n2,n2,n2,n3,n3,n3,n3"),
    ("numbers with a step", b"n0,n4,n8,n12,n16,n20"),
    ("numbers downwards", b"n12,n11,n10,n9,n8"),
    ("numbers alone", b"7,8,9,10,0011"),
];

/// Process maps that a component must encode exactly or decline.
const PROC_MAPS: &[(&str, &[u8])] = &[
    ("no nodes", b""),
    ("ranks in blocks", b"0-3;4-7;8-11"),
    ("ranks in turn", b"0,3,6;1,4,7;2,5,8"),
    ("nodes without ranks", b"0;;1"),
    ("ranks out of order", b"7,0;3,1-2"),
];

/// The operation that is called with damaged values.
const DAMAGED: &str = "parse_nodes";

/// The result of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value decodes to the list. The number is the length of the value in bytes.
    Kept(usize),
    /// The component declined the list, or does not have the operation.
    Declined,
    /// The component rejected a damaged value or decoded it to some list. Both are correct.
    Handled,
    /// The component violated the interface, or its value does not decode to the list.
    Fault(String),
}

/// A sample, and the outcome of checking a plugin with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The operation.
    pub operation: &'static str,
    /// The description of the sample.
    pub what: String,
    /// The outcome.
    pub outcome: Outcome,
    /// `true` if the sample was a list and the component encoded it, correctly or not.
    pub encoded: bool,
}

/// Counts of the sample lists by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of attempts to encode. Each list is tried in several forms.
    pub tried: usize,
    /// The number of values that the component created.
    pub encoded: usize,
    /// The number of values that decoded to the same list.
    pub kept: usize,
    /// The number of lists that the component declined.
    pub declined: usize,
}

/// The report of [`check_plugin`] about a plugin file.
#[derive(Clone, Debug)]
pub struct PluginReport {
    /// The file.
    pub path: PathBuf,
    /// The name of the component.
    pub name: String,
    /// A description for users, in one line.
    pub about: String,
    /// The plugin ABI for which it was built, major and minor.
    pub abi: (u16, u16),
    /// The version of the preg interface for which it was built.
    pub interface: u32,
    /// The built-in priority.
    pub priority: i32,
    /// `true` if the component is active without configuration.
    pub enabled: bool,
    /// The prefix of its string form.
    pub tag: Vec<u8>,
    /// The regex2 type of the component, if it has one.
    pub kind: Option<String>,
    /// The full MCA names and default values of the parameters that the component declares; `None`
    /// if it does not declare any.
    pub params: Option<Vec<(String, String)>>,
    /// The operations that the component has.
    pub operations: Vec<&'static str>,
    /// The outcome of each sample.
    pub samples: Vec<Sample>,
}

impl PluginReport {
    /// Returns the samples whose outcome is a fault.
    pub fn faults(&self) -> impl Iterator<Item = &Sample> {
        let wrong = |s: &&Sample| matches!(s.outcome, Outcome::Fault(_));
        self.samples.iter().filter(wrong)
    }

    /// Returns the counts of the sample lists.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for sample in self.samples.iter().filter(|s| s.operation != DAMAGED) {
            counts.tried += 1;
            counts.encoded += usize::from(sample.encoded);
            counts.kept += usize::from(matches!(sample.outcome, Outcome::Kept(_)));
            counts.declined += usize::from(sample.outcome == Outcome::Declined);
        }
        counts
    }

    /// Returns `true` if no sample has a fault and at least one value decoded to its list. A
    /// component that declines every list has not been checked.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults().next().is_none() && self.counts().kept > 0
    }
}

/// Loads a plugin file, and encodes and decodes sample lists with it, then `lists`: pairs of a name
/// for the report and a list of names. `components` are the linked components. The plugin must not
/// use their names, tags and regex2 types.
///
/// # Errors
/// The file is rejected, the plugin collides with a linked component, or its component cannot work
/// on this machine. The message names the file and the reason.
pub fn check_plugin(
    path: &Path,
    params: &Params,
    components: &[&'static Component],
    lists: &[(String, Vec<u8>)],
) -> Result<PluginReport, Error> {
    let unusable = |why: String| Error::new(Status::ERR_NOT_SUPPORTED, why);
    let refused = |refusal: Refusal| unusable(refusal.to_string());
    let loaded = super::load(path).map_err(refused)?;
    let collides = |fault| refused(Refusal::new(&loaded.path, fault));
    preg::collision_with_linked(&loaded, components, params).map_err(collides)?;
    let scheme = super::scheme(&loaded, params, &Limits::default())
        .map_err(|why| unusable(format!("plugin {}: query: {why}", loaded.path.display())))?
        .ok_or_else(|| {
            unusable(format!(
                "plugin {}: the component says that it cannot work here",
                loaded.path.display()
            ))
        })?;
    let _guard = pmix_mca::ExitGuard::new(&loaded.path);
    let mut samples = Vec::new();
    for (what, list) in NODE_LISTS {
        samples.push(sample(&scheme, Form::Nodes, what, list));
        samples.push(sample(&scheme, Form::Regex, what, list));
    }
    for (what, map) in PROC_MAPS {
        samples.push(sample(&scheme, Form::Procs, what, map));
    }
    let long = numbered(10_000);
    samples.push(sample(&scheme, Form::Nodes, "10,000 names", &long));
    samples.push(sample(&scheme, Form::Regex, "10,000 names", &long));
    for (what, list) in lists {
        samples.push(sample(&scheme, Form::Nodes, what, list));
        samples.push(sample(&scheme, Form::Regex, what, list));
    }
    samples.extend(hostile(&scheme));
    Ok(report(loaded, samples))
}

fn report(loaded: Loaded, samples: Vec<Sample>) -> PluginReport {
    let slots = &loaded.operations;
    let present = [
        ("generate_regex", slots.generate_regex.is_some()),
        ("parse_regex", slots.parse_regex.is_some()),
        ("generate_node_regex", slots.generate_node_regex.is_some()),
        ("generate_ppn", slots.generate_ppn.is_some()),
        ("parse_nodes", slots.parse_nodes.is_some()),
        ("parse_procs", slots.parse_procs.is_some()),
        ("legacy_len", slots.legacy_len.is_some()),
    ];
    PluginReport {
        path: loaded.path,
        name: loaded.name,
        about: loaded.about,
        abi: loaded.abi,
        interface: loaded.interface,
        priority: loaded.priority,
        enabled: loaded.enabled,
        tag: loaded.tag,
        kind: loaded.kind,
        params: loaded.params.map(|params| {
            let params = params.into_iter();
            params.map(|param| (param.name, param.default)).collect()
        }),
        operations: present
            .iter()
            .filter(|(_, has)| *has)
            .map(|(n, _)| *n)
            .collect(),
        samples,
    }
}

fn numbered(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|i| format!("node{i:05}")).collect();
    names.join(",").into_bytes()
}

fn sample(scheme: &Dynamic, form: Form, what: &str, list: &[u8]) -> Sample {
    let (outcome, encoded) = match scheme.try_generate(form, list) {
        Ok(Some(value)) => (Outcome::Kept(value.len()), true),
        Ok(None) => (Outcome::Declined, false),
        Err(fault) => (Outcome::Fault(fault.to_string()), fault.is_of_a_value()),
    };
    Sample {
        operation: form.generator(),
        what: what.to_owned(),
        outcome,
        encoded,
    }
}

/// Calls the component with damaged values. It may return an error or a list, but must not violate
/// the interface.
fn hostile(scheme: &Dynamic) -> Vec<Sample> {
    let values = NODE_LISTS
        .iter()
        .filter_map(|(_, list)| scheme.try_generate(Form::Nodes, list).ok().flatten());
    let valid = values.max_by_key(Vec::len);
    // If the component encoded no list, the damaged values are made from its tag and a list.
    let valid = valid.unwrap_or_else(|| [scheme.tag(), b"n[2:1-3]*4,n9"].concat());
    let mut samples = Vec::new();
    let cut =
        (scheme.tag().len()..valid.len()).map(|len| ("a value cut off", valid[..len].to_vec()));
    let flipped = (scheme.tag().len()..valid.len()).map(|at| {
        let mut value = valid.clone();
        value[at] ^= 0x55;
        ("a value with a wrong byte", value)
    });
    for (what, value) in cut.chain(flipped) {
        let breach = scheme.breach_of(&value);
        let outcome = match breach {
            None => Outcome::Handled,
            Some(fault) => Outcome::Fault(fault.to_string()),
        };
        // The report has one line for each kind of damage. A fault replaces other outcomes.
        match samples.iter_mut().find(|s: &&mut Sample| s.what == what) {
            Some(known) if known.outcome == Outcome::Handled => known.outcome = outcome,
            Some(_) => {}
            None => samples.push(Sample {
                operation: DAMAGED,
                what: what.to_owned(),
                outcome,
                encoded: false,
            }),
        }
    }
    samples
}

impl Dynamic {
    /// Decodes a value that may be invalid, and returns the component's violation of the interface,
    /// if any.
    fn breach_of(&self, value: &[u8]) -> Option<Fault> {
        use super::module::Answer::Broken;
        let limits = &self.limits;
        let operations = self.module.operations();
        let bound = 1 << 20;
        for slot in [operations.parse_nodes, operations.parse_procs] {
            match self.module.transform(slot, value, bound, limits) {
                Broken(Fault::TooMuch(_)) => {}
                Broken(fault) => return Some(fault),
                _ => {}
            }
        }
        if let Some(slot) = operations.legacy_len
            && let Broken(fault) = self.module.measure(slot, value, limits)
        {
            return Some(fault);
        }
        let kind = self.kind()?;
        let bytes = value.get(self.loaded.tag.len()..).unwrap_or_default();
        let regex = Regex2Ref { kind, bytes };
        match self
            .module
            .transform(operations.parse_regex, regex.bytes, bound, limits)
        {
            Broken(Fault::TooMuch(_)) => None,
            Broken(fault) => Some(fault),
            _ => None,
        }
    }
}
