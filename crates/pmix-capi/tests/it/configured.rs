// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps that a C host encodes, with the encoders configured by the environment and files.

use std::path::Path;
use std::process::Command;

use crate::build::{is_under_tool, must, root, run};
use crate::programs::each;

/// The encoded lists: nodes, and the ranks of each node.
const NODES: &str = "n1,n1,n1,n2";
const RANKS: &str = "0,1,2,3;4,5,6,7";

/// Returns the command of the host in a directory of its own, with only the given settings.
fn host(program: &Path, folder: &Path, vars: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.args([NODES, RANKS]).current_dir(folder);
    command.env("LD_LIBRARY_PATH", folder).env("HOME", folder);
    for name in ["PMIX_MCA_preg", "PMIX_MCA_pmix_log_level", "PMIX_PLUGINS"] {
        command.env_remove(name);
    }
    command.envs(vars.iter().copied());
    command
}

/// Returns the node map and the process map that the host prints. The host must generate the same maps twice, and then
/// initialize its server successfully.
fn maps(program: &Path, folder: &Path, vars: &[(&str, &str)]) -> [String; 2] {
    let said = must(&mut host(program, folder, vars));
    let lines: Vec<_> = said.lines().collect();
    let [nodes, ranks, again @ .., init] = &lines[..] else {
        panic!("{said}");
    };
    assert_eq!((again, *init), (&[*nodes, *ranks][..], "0"), "{said}");
    [nodes, ranks].map(|line| line.strip_prefix("0 ").expect("a map").to_owned())
}

#[test]
fn maps_of_text_obey_the_settings_that_the_command_obeys() {
    let plugin = tempfile::tempdir().expect("a folder");
    let source = root().join("examples/plugins/c/preg_rle.c");
    let plugin = shared_object(&source, plugin.path());
    each("configured.c", |program, folder| {
        let of = |vars: &[(&str, &str)]| maps(program, folder, vars);
        let raw = ["raw:n1,n1,n1,n2", "raw:0,1,2,3;4,5,6,7"];
        let native = of(&[("PMIX_MCA_preg", "native")]);
        assert!(
            native.iter().all(|map| map.starts_with("pmix[")),
            "{native:?}"
        );
        assert_eq!(of(&[]), raw);
        assert_eq!(of(&[("PMIX_MCA_preg", "^native")]), raw);
        assert_eq!(of(&[("PMIX_MCA_preg_native_priority", "60")]), native);
        // An encoding that contains a NUL is not a text: if no other encoder is allowed, the list itself is returned.
        assert_eq!(
            of(&[
                ("PMIX_MCA_preg", "compress"),
                ("PMIX_MCA_pcompress_base_limit", "1")
            ]),
            [NODES, RANKS]
        );
        // A component of a plugin, configured by the environment and by a file in the directory of the host.
        let path = plugin.to_str().expect("text");
        let loaded = ["rle:n1*3,n2", raw[1]];
        let least = ("PMIX_MCA_preg_rle_priority", "200");
        assert_eq!(of(&[("PMIX_MCA_preg_base_plugins", path), least]), loaded);
        let file = folder.join("plugins.toml");
        let text = format!("[[plugin]]\npath = {path:?}\n[preg.rle]\npriority = 200\n");
        std::fs::write(&file, text).expect("a file");
        assert_eq!(of(&[]), loaded);
        std::fs::write(&file, "[preg]\nselect = \"native\"\n").expect("a file");
        assert_eq!(of(&[]), native);
        assert_eq!(of(&[("PMIX_PLUGINS", "none")]), raw);
        std::fs::remove_file(&file).expect("the file");
    });
}

/// Builds a plugin.
fn shared_object(source: &Path, folder: &Path) -> std::path::PathBuf {
    let to = folder.join("libpreg_rle.so");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-I"])
        .arg(root().join("include"));
    must(command.arg("-o").arg(&to).arg(source));
    to
}

#[test]
fn a_setting_that_leaves_no_encoder_is_reported_once() {
    // The tool itself writes to standard error.
    if is_under_tool() {
        return;
    }
    each("configured.c", |program, folder| {
        let none = ("PMIX_MCA_preg", "^compress,fold,native,raw");
        let of = |vars: &[(&str, &str)]| {
            let ended = run(&mut host(program, folder, vars));
            assert!(ended.status.success());
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            (said, String::from_utf8_lossy(&ended.stderr).into_owned())
        };
        let silent = "-2 -\n-2 -\n-2 -\n-2 -\n-2\n";
        for level in [None, Some("warn")] {
            let vars: Vec<_> = { [none].into_iter() }
                .chain(level.map(|level| ("PMIX_MCA_pmix_log_level", level)))
                .collect();
            let (said, errors) = of(&vars);
            assert_eq!(said, silent);
            let first = "no component of the preg framework is left";
            assert_eq!(errors.matches(first).count(), 1, "{errors}");
            assert!(errors.contains("native: "), "{errors}");
            let is_line = |line: &str| line.starts_with("libpmix ") && line.contains(" error: ");
            assert!(errors.lines().all(is_line), "{errors}");
        }
        let off = ("PMIX_MCA_pmix_log_level", "off");
        assert_eq!(of(&[none, off]), (silent.to_owned(), String::new()));
    });
}
