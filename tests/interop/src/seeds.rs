// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeds of the fuzz targets: the test vectors in the input format of each target.

mod proto;

use std::path::{Path, PathBuf};
use std::{fs, io};

use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::Value;
use xtask::process::root;

/// Writes the seeds of a target into a folder with its name, one per file, and returns the folder.
///
/// # Errors
/// Returns the error if the vectors cannot be read or the files cannot be written.
pub fn write(target: &str, folder: &Path) -> io::Result<PathBuf> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    for (index, seed) in of(target)?.iter().enumerate() {
        fs::write(folder.join(format!("{index:04}")), seed)?;
    }
    Ok(folder)
}

/// The longest seed; longer ones slow the fuzzer down without more coverage.
const LONGEST: usize = 2048;

fn of(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut seeds = match target {
        "config_plugins_toml" => vec![fs::read(root().join("plugins.toml"))?],
        "config_mca_file" => vec![b"# a comment\npreg = ^raw\npcompress_base_limit = 64\n".into()],
        "config_environment" => vec![
            b"preg=raw,native\npreg_raw_priority=70\npcompress_base_limit=-1\n".into(),
            b"preg=^compress\npcompress=zlib\npreg_fold_enabled=1\n".into(),
        ],
        "node_lists" | "proc_maps" => records("preg", |r| r["input"].as_str().map(prefixed))?,
        "topology_xml" => machines()?,
        "pmi_commands" => {
            let second = |body: &&str| format!("{:6}{body}", body.len()).into_bytes();
            let second = PMI_2
                .iter()
                .map(second)
                .map(|text| [b"\x84", &text[..]].concat());
            let first = PMI.iter().map(|commands| commands.as_bytes().to_vec());
            first.chain(second).collect()
        }
        "topology_sets" => SETS.iter().map(|set| set.as_bytes().to_vec()).collect(),
        target if target.starts_with("bfrops") => of_wire(target)?,
        target if target.starts_with("proto") || target.starts_with("engine") => proto::of(target)?,
        _ => records("preg", |r| value_for(target, &encoded(r)?))?,
    };
    // The smallest machine that hwloc describes takes 1,500 bytes.
    let longest = if target == "topology_xml" { 4 } else { 1 } * LONGEST;
    seeds.retain(|seed| seed.len() <= longest);
    seeds.sort_unstable();
    seeds.dedup();
    Ok(seeds)
}

/// Captured commands of PMI-1 and PMI-2, after a byte that selects the size of the pieces and the protocol.
const PMI: [&str; 5] = [
    "\x40cmd=initack pmiid=0\ncmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_appnum\ncmd=barrier_in\n",
    "\x07cmd=put kvsname=j key=k value=a b\ncmd=get kvsname=j key=k\ncmd=barrier_in group=0,2:7\ncmd=finalize\n",
    "\x10cmd=publish_name service=s x port=p y\ncmd=lookup_name service=s x\ncmd=abort exitcode=7 message=m\n",
    "\x20mcmd=spawn\nnprocs=2\nexecname=/bin/a\ntotspawns=1\nspawnssofar=1\nargcnt=1\narg1=a b\npreput_num=1\n\
     preput_key_0=P\npreput_val_0=p=1\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/\nendcmd\n",
    "\x05cmd=get_universe_size\ncmd=get_my_kvsname\ncmd=unpublish_name service=s\n",
];

/// Commands of PMI-2 without their lengths.
const PMI_2: [&str; 4] = [
    "cmd=fullinit;srcid=3;threaded=FALSE;",
    "cmd=kvs-put;thrid=7;key=a;value=x;;y;",
    "cmd=info-getnodeattr;thrid=0x9;key=n;wait=TRUE;",
    "cmd=spawn;ncmds=1;preputcount=1;ppkey0=P;ppval0=p;subcmd=/bin/a;maxprocs=2;argc=1;argv0=x;infokeycount=0;",
];

/// Processor sets in each of their forms, and localities.
const SETS: [&str; 8] = [
    "0-3,8",
    "4-",
    "hwloc:0,2-5",
    "0x1,,0xff000000",
    "0xf...f,0xfffffff0",
    "SK0:L30:L20-1:L10-1:CR0-1:HT0-3:NM0",
    "SK0:L30:CR0:HT0-1:NM0|SK0:L30:CR1:HT2-3:NM0",
    "hwloc:SK0-1:CR0-7|hwloc:SK1:CR4",
];

/// Returns the descriptions of machines from the tests of topologies.
fn machines() -> io::Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(root().join("testdata/topology"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>()?;
    let is_xml = |path: &&PathBuf| path.extension().is_some_and(|end| end == "xml");
    paths.iter().filter(is_xml).map(fs::read).collect()
}

/// Returns a plain list with the prefix byte that marks it: its high bit.
fn prefixed(list: &str) -> Vec<u8> {
    [b"\x80", list.as_bytes()].concat()
}

/// Returns the encoded value of a record.
fn encoded(record: &Value) -> Option<Vec<u8>> {
    let keys = ["encoded_hex", "bytes_hex", "input_hex", "output_hex"];
    let text = keys.iter().find_map(|key| record[*key].as_str())?;
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// Returns the part of a value that a target takes: most targets add the tag themselves.
fn value_for(target: &str, value: &[u8]) -> Option<Vec<u8>> {
    let rest = |tag: &[u8]| value.strip_prefix(tag).map(<[u8]>::to_vec);
    match target {
        "native_nodes" | "native_procs" => rest(b"pmix["),
        "raw" => rest(b"raw:"),
        "compress_blob" => Some([b"\0", &rest(b"blob:\0")?[..]].concat()),
        "compress_regex2" => (value.get(4) == Some(&0x78)).then(|| value.to_vec()),
        "dispatch" | "plugin" => Some(value.to_vec()),
        target if target.starts_with("fold") => rest(b"fold:"),
        _ => None,
    }
}

/// Applies `take` to every record of the vectors of a framework, and returns the results.
fn records(framework: &str, take: impl Fn(&Value) -> Option<Vec<u8>>) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("testdata").join(framework))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "jsonl") {
            let text = fs::read_to_string(&path)?;
            let records = text.lines().flat_map(serde_json::from_str::<Value>);
            found.extend(records.filter_map(|record| take(&record)));
        }
    }
    Ok(found)
}

// Seeds of the packed-data targets: two bytes that select the layout and the type, as in `fuzz/targets/wire`, and the
// bytes of a record.

/// The modules, oldest first.
const MODULES: [&str; 8] = ["v12", "v20", "v21", "v3", "v4", "v41", "v51", "v61"];

/// The types that contain others, in the order of the target of nested data.
const NESTED: [u64; 8] = [21, 24, 39, 28, 25, 41, 23, 64];

/// Returns the seeds of a target.
fn of_wire(target: &str) -> io::Result<Vec<Vec<u8>>> {
    match target {
        "bfrops_model" | "bfrops_peer" => Ok((0..76).map(made).collect()),
        "bfrops_nested" => records("bfrops", nested),
        _ => records("bfrops", |record| {
            let (family, choice) = layout(record)?;
            let number = u8::try_from(record["type_id"].as_u64()?).ok()?;
            (target == family).then(|| seed(choice, number, record))?
        }),
    }
}

/// Returns the target of a record's layout, and the byte that selects the layout there.
fn layout(record: &Value) -> Option<(&'static str, u8)> {
    let variant = record["variant"].as_str().unwrap_or_default();
    let module = match variant.strip_prefix("bfrops=") {
        Some(name) => MODULES.iter().position(|module| *module == name)?,
        None if record["producer"] == "seed" => MODULES.len() - 1,
        None => 5,
    };
    let described = u8::from(record["buffer"] == "described");
    let choice = u8::try_from(module % 4 * 2).ok()? | described;
    let family = match (module, variant) {
        (0..4, _) => "bfrops_legacy",
        (_, "psquash=native") => "bfrops_native",
        _ => "bfrops_flex",
    };
    Some((family, choice))
}

fn nested(record: &Value) -> Option<Vec<u8>> {
    let (family, choice) = layout(record)?;
    let family = match family {
        "bfrops_legacy" => 0,
        "bfrops_flex" => 1,
        _ => 2,
    };
    let data_type = record["type_id"].as_u64()?;
    let number = NESTED.iter().position(|nested| *nested == data_type)?;
    seed(family << 3 | choice, u8::try_from(number).ok()?, record)
}

fn seed(choice: u8, number: u8, record: &Value) -> Option<Vec<u8>> {
    Some([&[choice, number], &encoded(record)?[..]].concat())
}

/// Returns bytes from which a target generates data of a type.
fn made(number: u8) -> Vec<u8> {
    let noise = (0..160_u8).map(|at| at.wrapping_mul(number | 1) ^ (at >> 3));
    [number].into_iter().chain(noise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_give_seeds_without_their_tags() {
        let seeds = of("native_nodes").expect("the vectors are there");
        assert!(seeds.len() > 100, "{}", seeds.len());
        assert!(seeds.contains(&b"n[2:1-3,7]]".to_vec()));
        assert!(
            !of("compress_regex2")
                .expect("the vectors are there")
                .is_empty()
        );
    }

    #[test]
    fn every_target_has_seeds_of_its_layouts() {
        for (target, least) in [
            ("bfrops_flex", 400),
            ("bfrops_native", 200),
            ("bfrops_legacy", 500),
            ("bfrops_nested", 100),
            ("bfrops_model", 76),
        ] {
            let seeds = of_wire(target).expect("the vectors are there");
            assert!(seeds.len() >= least, "{target}: {}", seeds.len());
        }
        // A single uint32 of 1 as v20 packs it.
        let seed = [2, 14, 0, 0, 0, 1, 0, 0, 0, 1];
        let seeds = of_wire("bfrops_legacy").expect("the vectors are there");
        assert!(seeds.contains(&seed.to_vec()));
    }
}
