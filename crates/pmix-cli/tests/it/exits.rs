// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plugins that exit the process: every command must fail.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::command::launcher::{assert_nothing_left, launcher};
use crate::command::{finish, pmix};

const SOURCE: &str = r#"
#include <stdlib.h>
#if INITIALISER
__attribute__((constructor)) static void begin(void) { exit(0); }
#endif
const void *pmixrs_component(void) { exit(0); }
"#;

/// Compiles the library.
fn compile(dir: &Path, name: &str, option: &str) -> String {
    let (source, library) = (dir.join("exit.c"), dir.join(name));
    fs::write(&source, SOURCE).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the compiler is chosen by the environment"
    )]
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", option, "-o"]);
    compile.arg(&library).arg(&source);
    assert!(compile.status().expect("a C compiler").success());
    fs::set_permissions(&library, Permissions::from_mode(0o755)).unwrap();
    library.display().to_string()
}

#[test]
fn a_plugin_that_calls_exit_while_it_is_loaded_is_named_and_fails_the_command() {
    let dir = tempfile::tempdir().unwrap();
    for (name, option) in [
        ("begin.so", "-DINITIALISER=1"),
        ("entry.so", "-DINITIALISER=0"),
    ] {
        let library = compile(dir.path(), name, option);
        let outcome = pmix(&["plugins", "check", &library]);
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.stderr);
        let expected = format!("plugin {library}: it ended the process");
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);

        let config = dir.path().join("plugins.toml");
        fs::write(&config, format!("[[plugin]]\npath = {library:?}\n")).unwrap();
        fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
        let (mut command, tmp) = launcher(&["true"]);
        command.env("PMIX_PLUGINS", &config);
        let outcome = finish(command, b"");
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
        assert_nothing_left(&tmp);
    }
}
