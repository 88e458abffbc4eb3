// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of the library for the user who runs a C program.

use std::path::Path;
use std::process::Command;

use crate::build::is_under_tool;
use crate::programs::each;

/// Runs the host with variables of the environment, and returns its standard error.
fn reported(program: &Path, folder: &Path, vars: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder);
    for name in ["PMIX_MCA_pmix_log_level", "PMIX_MCA_pmix_log_file"] {
        command.env_remove(name);
    }
    command.envs(vars.iter().copied());
    let ended = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    said
}

#[test]
fn why_a_call_of_a_host_was_refused_is_reported_where_the_environment_asks_for_it() {
    // The tool itself writes to standard error.
    if is_under_tool() {
        return;
    }
    each("reported.c", |program, folder| {
        let of = |vars: &[(&str, &str)]| reported(program, folder, vars);
        let is_why = |line: &str| {
            line.starts_with("libpmix ") && line.contains(" warn: ") && line.contains("pmix.nmap")
        };

        assert_eq!(of(&[]), "");
        assert_eq!(of(&[("PMIX_MCA_pmix_log_level", "error")]), "");
        let unknown = of(&[("PMIX_MCA_pmix_log_level", "loud")]);
        let names = "`loud`, expected one of off, error, warn, info, debug, trace\n";
        assert!(
            unknown.ends_with(names) && unknown.lines().count() == 1,
            "{unknown}"
        );
        let warned = of(&[("PMIX_MCA_pmix_log_level", "warn")]);
        assert!(warned.lines().count() == 1 && is_why(&warned), "{warned}");

        let told = of(&[("PMIX_MCA_pmix_server_base_verbose", "5")]);
        assert!(told.lines().any(is_why), "{told}");
        let answer = "debug: PMIx_server_register_nspace returns PMIX_ERR_BAD_PARAM";
        assert!(told.contains(answer), "{told}");

        let at = folder.join("log");
        let file = [
            ("PMIX_MCA_pmix_log_level", "warn"),
            ("PMIX_MCA_pmix_log_file", at.to_str().expect("text")),
        ];
        for times in 1..=2 {
            assert_eq!(of(&file), "");
            let written = std::fs::read_to_string(&at).expect("the log");
            assert_eq!(written.lines().filter(|line| is_why(line)).count(), times);
        }
        std::fs::remove_file(&at).expect("the log");

        // A file that cannot be appended to safely, such as a link of another user, is left alone.
        std::os::unix::fs::symlink("elsewhere", &at).expect("a link");
        assert!(is_why(&of(&file)));
        assert!(!folder.join("elsewhere").exists());
        std::fs::remove_file(&at).expect("the link");
    });
}
