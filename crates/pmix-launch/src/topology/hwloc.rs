// SPDX-License-Identifier: MIT OR Apache-2.0
//! What hwloc knows of the machine, in the XML of its release 2 (hwloc documentation, "Importing and
//! exporting topologies from/to XML files").

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use roxmltree::{Document, ParsingOptions};

use super::{Cpus, Level};
use crate::process::find_program;

/// The commands of hwloc's packages that export a topology.
const COMMANDS: [&str; 2] = ["lstopo-no-graphics", "lstopo"];

/// How long a description may be; that of a machine of 1,000 processors has 2 MB.
const MAX_LEN: u64 = 64 << 20;

/// How long hwloc's command may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How many elements and texts a description may have.
const MAX_NODES: u32 = 1 << 20;

/// The XML of this machine: the file that `HWLOC_XMLFILE` names, as for whatever else uses hwloc,
/// or what its command says; none where hwloc is not installed.
pub(super) fn export(environment: &[(OsString, OsString)]) -> Option<String> {
    let var = |wanted: &str| {
        let mut vars = environment.iter();
        let found = vars.find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| value.as_os_str())
    };
    let (source, text) = match var("HWLOC_XMLFILE") {
        Some(file) => {
            let text = pmix_files::read_regular(file.as_ref(), MAX_LEN);
            (file, text.map_err(io::Error::from))
        }
        None => {
            let find = |name: &&str| find_program(name.as_ref(), var("PATH"), Path::new("")).ok();
            let command = COMMANDS.iter().find_map(find)?;
            (OsStr::new("lstopo"), run(&command, environment))
        }
    };
    let text = text.map_err(|e| tracing::warn!("{}: {e}", source.display()));
    String::from_utf8(text.ok()?).ok()
}

fn run(command: &Path, environment: &[(OsString, OsString)]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(command);
    command.args(["--of", "xml", "--no-io", "-"]);
    command.env_clear().envs(environment.iter().cloned());
    output_within(&mut command, MAX_LEN, PATIENCE)
}

/// What a command writes: so many bytes at most, within so much time, after which it is killed.
fn output_within(command: &mut Command, most: u64, time: Duration) -> io::Result<Vec<u8>> {
    let until = Instant::now() + time;
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (done, written) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        // Whoever has the other end may keep it open, which holds up nobody but this thread.
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut stdout = stdout.take(most.saturating_add(1));
            let read = stdout.read_to_end(&mut bytes).map(|_| bytes);
            // Nobody listens any more if it took too long.
            let _ = done.send(read);
        });
    }
    let read = written.recv_timeout(time);
    let ended = read.is_ok().then(|| wait_until(&mut child, until));
    let status = match ended.transpose()?.flatten() {
        Some(status) => status,
        None => {
            child.kill()?;
            child.wait()?
        }
    };
    let late = || {
        let message = format!("it takes more than {} s", time.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, message)
    };
    let bytes = read.map_err(|_| late())??;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > most) {
        return Err(io::Error::other(format!(
            "it writes more than {most} bytes"
        )));
    }
    match status.success() {
        true => Ok(bytes),
        false => Err(io::Error::other(status.to_string())),
    }
}

/// Waits until a child ends; none if it has not by then.
fn wait_until(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            ended => return Ok(ended),
        }
    }
}

/// The parts of each level, as hwloc numbers them; none if there is no processor in it.
///
/// An object stands in the XML where it stands in the tree, so the order of the elements is that of
/// hwloc's logical indices.
pub(super) fn parse(xml: &str) -> Option<BTreeMap<Level, Vec<Cpus>>> {
    let refused = |why: &dyn Display| tracing::warn!("hwloc's XML is not used: {why}");
    // hwloc declares none, and a few that contain each other stand for any amount of text.
    if xml.contains("<!ENTITY") {
        refused(&"it declares entities");
        return None;
    }
    let options = ParsingOptions {
        // hwloc names its document type.
        allow_dtd: true,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(xml, options);
    let document = document.map_err(|error| refused(&error)).ok()?;
    let mut found: BTreeMap<Level, Vec<Cpus>> = BTreeMap::new();
    let objects = document.descendants().filter(|n| n.has_tag_name("object"));
    for object in objects {
        let level = object.attribute("type").and_then(level_of);
        let (Some(level), Some(cpus)) = (level, object.attribute("cpuset")) else {
            continue;
        };
        let cpus = bitmap(cpus)?;
        // Memory without processors near it is no place to run.
        if !cpus.is_empty() {
            found.entry(level).or_default().push(cpus);
        }
    }
    let is_whole = [Level::Node, Level::HwThread]
        .iter()
        .all(|level| found.contains_key(level));
    is_whole.then_some(found)
}

fn level_of(name: &str) -> Option<Level> {
    Some(match name {
        "Machine" => Level::Node,
        "Package" => Level::Package,
        "NUMANode" => Level::Numa,
        "L3Cache" => Level::L3Cache,
        "L2Cache" => Level::L2Cache,
        "L1Cache" => Level::L1Cache,
        "Core" => Level::Core,
        "PU" => Level::HwThread,
        _ => return None,
    })
}

/// A set like `0x1,,0xff000000`: words of 32 bits, the highest first; an empty one is 0.
fn bitmap(text: &str) -> Option<Cpus> {
    let mut set = Cpus::new();
    for (index, word) in (0u32..).zip(text.rsplit(',')) {
        let bits = match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None if word.is_empty() => 0,
            None => return None,
        };
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            set.try_insert(index.checked_mul(32)? + bit)?;
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_writes_so_much_in_so_much_time_and_no_more() {
        let long = Duration::from_secs(60);
        let run = |script: &str, time| {
            let mut command = Command::new("sh");
            output_within(command.args(["-c", script]), 1000, time)
        };
        assert_eq!(run("echo all", long).unwrap(), b"all\n");
        let error = run("exec yes", long).unwrap_err();
        assert!(
            error.to_string().contains("more than 1000 bytes"),
            "{error}"
        );
        assert!(run("echo all; exit 3", long).is_err());
        let error = run("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_file_that_is_named_is_a_regular_one_of_so_much() {
        let folder = tempfile::tempdir().unwrap();
        let read = |path: &Path| export(&[("HWLOC_XMLFILE".into(), path.into())]);
        let path = folder.path().join("topology.xml");
        std::fs::write(&path, XML).unwrap();
        assert_eq!(read(&path).as_deref(), Some(XML));
        // A file of so many bytes takes no room where nothing is written.
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_LEN + 1).unwrap();
        assert_eq!(read(&path), None);
        for other in [folder.path(), Path::new("/dev/null")] {
            assert_eq!(read(other), None, "{}", other.display());
        }
        assert_eq!(read(&folder.path().join("missing")), None);
    }

    /// Two packages of a core each, the second of two threads, as hwloc 2.9 writes them, and memory
    /// of its own beside them.
    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000001,0x00000005" gp_index="1">
    <info name="OSName" value="Linux"/>
    <object type="NUMANode" os_index="2" cpuset="0x0" nodeset="0x00000004" gp_index="9"/>
    <object type="Package" os_index="0" complete_cpuset="0x3" cpuset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000001" gp_index="3">
        <page_type size="4096" count="6"/>
      </object>
      <object type="L1iCache" cpuset="0x00000001" gp_index="4">
        <object type="Core" os_index="0" cpuset="0x00000001" gp_index="5">
          <object type="PU" os_index="0" cpuset="0x00000001" gp_index="6"/>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x00000001,0x00000004" gp_index="7">
      <object type="Core" os_index="0" cpuset="0x00000001,0x00000004" gp_index="8">
        <object type="PU" os_index="32" cpuset="0x00000001," gp_index="10"/>
        <object type="PU" os_index="2" cpuset="0x00000004" gp_index="11"/>
      </object>
    </object>
  </object>
  <support name="discovery.pu"/>
</topology>
"#;

    fn lists(parts: &BTreeMap<Level, Vec<Cpus>>, level: Level) -> Vec<String> {
        let parts = parts.get(&level).into_iter().flatten();
        parts.map(ToString::to_string).collect()
    }

    #[test]
    fn parts_stand_in_the_order_of_hwloc() {
        let parts = parse(XML).unwrap();
        assert_eq!(lists(&parts, Level::Node), ["0,2,32"]);
        assert_eq!(lists(&parts, Level::Package), ["0", "2,32"]);
        assert_eq!(lists(&parts, Level::Numa), ["0"], "one has no processors");
        assert_eq!(lists(&parts, Level::Core), ["0", "2,32"]);
        assert_eq!(lists(&parts, Level::HwThread), ["0", "32", "2"]);
        assert_eq!(lists(&parts, Level::L1Cache), [""; 0], "for instructions");
    }

    #[test]
    fn what_an_attribute_says_is_no_markup() {
        let named =
            |name: &str| XML.replace("type=\"Package\"", &format!("type=\"Package\" name={name}"));
        for name in [
            "\"a > b\"",
            "\"cpuset=&quot;0x2&quot;\"",
            "'a \"quoted\" word'",
        ] {
            let parts = parse(&named(name)).unwrap();
            assert_eq!(lists(&parts, Level::Package), ["0", "2,32"], "{name}");
        }
        let commented = XML.replace(
            "<support",
            "<!-- <object type=\"PU\" cpuset=\"0x8\"/> --><support",
        );
        let parts = parse(&commented).unwrap();
        assert_eq!(lists(&parts, Level::HwThread), ["0", "32", "2"]);
    }

    #[test]
    fn what_would_grow_beyond_its_length_is_refused() {
        let entity = XML.replace("\"hwloc2.dtd\"", "\"hwloc2.dtd\" [<!ENTITY a \"a\">]");
        assert!(parse(&entity).is_none());
        assert!(parse(&XML.replace("\"hwloc2.dtd\"", "\"hwloc2.dtd\" []")).is_some());
        let many = format!("<topology>{}</topology>", "<object/>".repeat(1 << 20));
        assert!(parse(&many).is_none());
        let deep = format!(
            "{}{}",
            "<object>".repeat(100_000),
            "</object>".repeat(100_000)
        );
        assert!(parse(&deep).is_none());
    }

    #[test]
    fn sets_are_words_of_which_the_highest_stands_first() {
        let list = |text| bitmap(text).map(|set| set.to_string());
        assert_eq!(list("0x80000001").as_deref(), Some("0,31"));
        assert_eq!(list("0x3,,0x0000000f").as_deref(), Some("0-3,64-65"));
        assert_eq!(list("0x0").as_deref(), Some(""));
        for wrong in ["0xf...f,0x1", "3", "0x1ffffffff", "0x1,x"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
        let far = format!("0x1{}", ",".repeat(4096));
        assert_eq!(bitmap(&far), None, "no machine has so many processors");
    }

    #[test]
    fn what_describes_no_processors_is_no_topology() {
        assert!(parse("").is_none());
        assert!(parse("<object type=\"Machine\" cpuset=\"0x1\">").is_none());
        assert!(parse(&XML.replace("0x00000004", "0xf...f")).is_none());
    }
}
