// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of settings, and their precedence.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pmix_mca::{Environment, Params, Source};
use tempfile::TempDir;

/// A simulated machine: a working directory, a home directory and `/etc`.
struct Machine {
    root: TempDir,
    vars: Vec<(OsString, OsString)>,
}

impl Machine {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        for directory in ["cwd", "home/.pmix", "etc/pmix"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        Self {
            root,
            vars: Vec::new(),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    fn file(self, file: &str, text: &str) -> Self {
        fs::write(self.path(file), text).unwrap();
        self
    }

    fn var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.vars.push((name.into(), value.into()));
        self
    }

    fn environment(&self) -> Environment {
        Environment {
            vars: self.vars.clone(),
            cwd: self.path("cwd"),
            home: Some(self.path("home")),
            system: self.path("etc"),
        }
    }

    fn params(&self) -> Params {
        self.environment().params(None).unwrap().build().unwrap()
    }

    /// Returns the value of `preg` and its source. Paths are relative to the root of the simulated
    /// machine.
    fn preg(&self) -> (String, String) {
        let params = self.params();
        let setting = params.get("preg").unwrap();
        let root = format!("{}/", self.root.path().display());
        (
            setting.value.clone(),
            setting.source.to_string().replace(&root, ""),
        )
    }
}

fn toml(value: &str) -> String {
    format!("# one line above\n[preg]\nselect = \"{value}\"\n")
}

#[test]
fn each_layer_overrides_lower_ones_and_keeps_them() {
    let machine = Machine::new()
        .file("cwd/plugins.toml", &toml("toml"))
        .file("etc/pmix-mca-params.conf", "preg = system\n")
        .file("home/.pmix/mca-params.conf", "\n\npreg = home\n")
        .var("PMIX_MCA_preg", "variable");
    let params = machine
        .environment()
        .params(None)
        .unwrap()
        .set("preg", "argument", Source::CommandLine)
        .build()
        .unwrap();
    let values: Vec<_> = params.settings("preg").map(|s| s.value.as_str()).collect();
    assert_eq!(values, ["toml", "system", "home", "variable", "argument"]);
    assert_eq!(params.get("preg").unwrap().source, Source::CommandLine);
    assert_eq!(params.files().len(), 3);
}

#[test]
fn precedence_is_independent_of_the_order_of_calls() {
    let params = Params::builder()
        .set("preg", "api", Source::Api)
        .environment([("PMIX_MCA_preg".to_owned(), "variable".to_owned())])
        .plugins_toml(Path::new("plugins.toml"), &toml("toml"))
        .unwrap()
        .build()
        .unwrap();
    assert_eq!(params.get("preg").unwrap().value, "api");
}

#[test]
fn sources_name_the_file_and_the_line() {
    let machine = Machine::new().file("cwd/plugins.toml", &toml("a"));
    assert_eq!(machine.preg(), ("a".into(), "cwd/plugins.toml:3".into()));
    let machine = machine.file("home/.pmix/mca-params.conf", "# c\npreg = b\n");
    assert_eq!(
        machine.preg(),
        ("b".into(), "home/.pmix/mca-params.conf:2".into())
    );
    let machine = machine.var("PMIX_MCA_preg", "c");
    assert_eq!(
        machine.preg(),
        ("c".into(), "environment variable PMIX_MCA_preg".into())
    );
}

#[test]
fn every_plugins_toml_is_a_layer_and_the_nearest_wins() {
    let named = "[preg]\nbase_max_nodes = 4\n";
    let machine = Machine::new()
        .file("etc/pmix/plugins.toml", &toml("system"))
        .file("home/.pmix/plugins.toml", &toml("user"))
        .file("cwd/plugins.toml", &toml("here"))
        .file("named.toml", named)
        .file("given.toml", &toml("given"));
    let variable = machine.path("named.toml");
    let machine = machine.var("PMIX_PLUGINS", variable);
    assert_eq!(machine.preg(), ("here".into(), "cwd/plugins.toml:3".into()));
    let config = machine.path("given.toml");
    let builder = machine.environment().params(Some(&config)).unwrap();
    let params = builder.build().unwrap();
    let values: Vec<_> = params.settings("preg").map(|s| s.value.as_str()).collect();
    assert_eq!(values, ["system", "user", "here", "given"]);
    let nodes = params.get("preg_base_max_nodes").unwrap();
    assert_eq!(nodes.value, "4");
    assert!(nodes.source.to_string().ends_with("named.toml:2"));
    assert_eq!(params.files().len(), 5);
}

#[test]
fn a_nearer_file_enables_components_that_others_exclude() {
    let machine = Machine::new()
        .file("etc/pmix/plugins.toml", "[preg]\nselect = \"^fold\"\n")
        .file("cwd/plugins.toml", "[preg.fold]\nenabled = true\n");
    let header = |name| pmix_mca::Header {
        name,
        priority: 1,
        enabled: false,
    };
    let selection = pmix_mca::select("preg", &[header("fold")], &machine.params());
    assert_eq!(selection.unwrap().active, [0]);
}

#[test]
fn a_file_that_is_found_and_named_is_read_once() {
    let machine = Machine::new().file("cwd/plugins.toml", &toml("here"));
    let given = Some(Path::new("./plugins.toml"));
    let params = machine.environment().params(given).unwrap();
    assert_eq!(params.build().unwrap().settings("preg").count(), 1);
}

#[test]
fn none_means_no_file() {
    let machine = Machine::new()
        .file("home/.pmix/plugins.toml", &toml("user"))
        .file("cwd/plugins.toml", &toml("here"))
        .file("given.toml", &toml("given"));
    let none = machine.environment().params(Some(Path::new("none")));
    assert!(none.unwrap().build().unwrap().files().is_empty());
    let machine = machine.var("PMIX_PLUGINS", "none");
    assert!(machine.params().files().is_empty());
    let config = machine.path("given.toml");
    let given = machine.environment().params(Some(&config)).unwrap();
    assert_eq!(given.build().unwrap().files(), [config]);
}

#[test]
fn plugins_of_the_nearest_file_come_first() {
    let plugin = |name: &str| format!("[[plugin]]\npath = \"/{name}.so\"\n");
    let machine = Machine::new()
        .file("etc/pmix/plugins.toml", &plugin("system"))
        .file("cwd/plugins.toml", &(plugin("a") + &plugin("b")));
    let files = machine.params().plugin_files("preg");
    let paths: Vec<_> = files.iter().map(|f| f.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["/a.so", "/b.so", "/system.so"]);
}

#[test]
fn untrusted_files_are_ignored_if_found_and_errors_if_named() {
    for file in [
        "cwd/plugins.toml",
        "home/.pmix/plugins.toml",
        "etc/pmix/plugins.toml",
        "home/.pmix/mca-params.conf",
        "etc/pmix-mca-params.conf",
    ] {
        let text = if file.ends_with("toml") {
            toml("evil")
        } else {
            "preg = evil\n".into()
        };
        let machine = Machine::new().file(file, &text);
        let path = machine.path(file);
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        assert!(machine.params().get("preg").is_none(), "{file}");
        let says = |machine: &Machine, config| {
            let error = machine
                .environment()
                .params(config)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("mode 0664") && error.contains("chmod go-w"),
                "{error}"
            );
        };
        if file.ends_with("toml") {
            says(&machine, Some(path.as_path()));
            let variable = machine.path(file);
            says(&machine.var("PMIX_PLUGINS", variable), None);
        } else {
            let list = machine.path(file);
            says(&machine.var("PMIX_MCA_mca_base_param_files", list), None);
        }
    }
}

#[test]
fn without_a_current_directory_it_is_not_searched() {
    let machine = Machine::new().file("home/.pmix/plugins.toml", &toml("user"));
    let environment = Environment {
        cwd: PathBuf::new(),
        ..machine.environment()
    };
    // In a checkout, the current directory may have a `plugins.toml`.
    let params = environment.params(None).unwrap().build().unwrap();
    assert_eq!(params.files(), [machine.path("home/.pmix/plugins.toml")]);
}

#[test]
fn a_missing_named_file_is_an_error_with_its_source() {
    let machine = Machine::new().var("PMIX_PLUGINS", "absent.toml");
    let error = machine.environment().params(None).unwrap_err().to_string();
    assert!(
        error.contains("PMIX_PLUGINS") && error.contains("absent.toml"),
        "{error}"
    );
    let config = Some(Path::new("other.toml"));
    let error = machine
        .environment()
        .params(config)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("configuration file given") && error.contains("other.toml"),
        "{error}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_an_end_is_an_error() {
    let machine = Machine::new().var("PMIX_PLUGINS", "/dev/zero");
    let error = machine.environment().params(None).unwrap_err().to_string();
    assert!(
        error.contains("/dev/zero: it is a device of user 0")
            && error.contains("not a regular file"),
        "{error}"
    );
}

#[test]
fn the_variable_replaces_the_list_of_parameter_files_and_the_first_wins() {
    let machine = Machine::new()
        .file("home/.pmix/mca-params.conf", "preg = home\n")
        .file("cwd/a.conf", "preg = a\n")
        .file("cwd/b.conf", "preg = b\nother = b\n")
        .var("PMIX_MCA_mca_base_param_files", "a.conf,b.conf,absent.conf");
    assert_eq!(machine.preg(), ("a".into(), "cwd/a.conf:1".into()));
    assert_eq!(machine.params().get("other").unwrap().value, "b");
    let none = Machine::new()
        .file("home/.pmix/mca-params.conf", "preg = home\n")
        .var("PMIX_MCA_mca_base_param_files", "none");
    assert!(none.params().get("preg").is_none());
}

#[test]
fn a_malformed_line_does_not_affect_others() {
    let machine = Machine::new().file("home/.pmix/mca-params.conf", "nonsense\npreg = raw\n");
    assert_eq!(machine.preg().1, "home/.pmix/mca-params.conf:2");
}

#[test]
fn without_a_home_the_system_file_remains() {
    let machine = Machine::new().file("etc/pmix-mca-params.conf", "preg = system\n");
    let environment = Environment {
        home: None,
        ..machine.environment()
    };
    let params = environment.params(None).unwrap().build().unwrap();
    assert_eq!(params.get("preg").unwrap().value, "system");
}

#[cfg(unix)]
#[test]
fn invalid_utf8_is_an_error_only_in_known_parameters() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = || OsString::from_vec(vec![0xff, 0xfe]);
    let foreign = Machine::new()
        .var("PMIX_MCA_pnet", bytes())
        .var("LANG", bytes());
    assert_eq!(foreign.params().names().count(), 0);
    let ours = Machine::new().var("PMIX_MCA_preg", bytes());
    let error = ours
        .environment()
        .params(None)
        .unwrap()
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("PMIX_MCA_preg"), "{error}");
}

#[test]
fn plugin_files_are_resolved_against_the_file_that_names_them() {
    let machine = Machine::new()
        .file(
            "etc/pmix/plugins.toml",
            "[[plugin]]\npath = \"lib/a.so\"\n[[plugin]]\npath = \"/abs/b.so\"\n",
        )
        .var("PMIX_MCA_preg_base_plugins", "c.so:/d.so:");
    let files = machine.params().plugin_files("preg");
    let paths: Vec<_> = files.iter().map(|f| f.path.clone()).collect();
    assert_eq!(
        paths,
        [
            machine.path("etc/pmix/lib/a.so"),
            "/abs/b.so".into(),
            "c.so".into(),
            "/d.so".into()
        ]
    );
    assert!(files[1].source.to_string().ends_with("plugins.toml:4"));
    assert!(
        files[2]
            .source
            .to_string()
            .contains("PMIX_MCA_preg_base_plugins")
    );
}
