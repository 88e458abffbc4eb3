// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of docs/cli.md and of the README are real: each that shows `pmix` is run, and must
//! print what the page shows.
//!
//! `PMIX_DOCS=write cargo test -p pmix-cli --test docs` writes what they print into the pages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The page with the output of every `console` block made anew.
fn rerun(page: &str, run: impl Fn(&str) -> String) -> String {
    let mut made = String::new();
    let mut in_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_console = line == "```console";
        } else if line.starts_with("$ cargo ") {
            // Set-up commands show no output.
            in_console = false;
        } else if in_console && !line.starts_with("$ ") {
            continue;
        }
        made.push_str(line);
        made.push('\n');
        if let (true, Some(command)) = (in_console, line.strip_prefix("$ ")) {
            let output = run(command);
            made.push_str(output.trim_end_matches('\n'));
            made.push_str(if output.trim().is_empty() { "" } else { "\n" });
        }
    }
    made
}

/// A directory with the files that the examples name.
fn files() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs");
    std::fs::create_dir_all(&dir).expect("a directory");
    let hosts = "# rack 1\nn[001-004]   # compute\nlogin, data\n";
    std::fs::write(dir.join("hosts.txt"), hosts).expect("the list");
    let requests = concat!(
        r#"{"id": 1, "op": "encode", "input": "n1,n2"}"#,
        "\n",
        r#"{"id": 2, "op": "encode", "scheme": "compress", "input": "n1"}"#,
        "\n",
        r#"{"id": 3, "op": "decode", "procs": true, "bytes_hex": "7261773a302d333b3b34"}"#,
        "\n",
        r#"{"id": 4, "op": "decode", "type": "raw", "bytes_hex": "6e312c6e3200"}"#,
        "\nno JSON\n",
    );
    std::fs::write(dir.join("requests.jsonl"), requests).expect("the requests");
    let job_info = concat!(
        "# the answer to the first request of a client\n",
        "020a4a4f423100\n",
        "021c706d69782e6a6f622e73697a65000e02\n",
        "0216706d69782e6e6c697374000306766d00\n",
    );
    let get = concat!(
        "# a client asks for a key of rank 1\n",
        "00000000 00000068 00000011 00000000\n",
        "0204 020a4a4f423100 0201 0200 02046b00\n",
    );
    std::fs::write(dir.join("get.hex"), get).expect("the message");
    std::fs::write(dir.join("job-info.hex"), job_info).expect("the bytes");
    let requests = concat!(
        r#"{"id": 1, "type": "PMIX_UINT32", "value": [1, 300]}"#,
        "\n",
        r#"{"id": 2, "type": "PMIX_UINT32", "bytes_hex": "0401ac02"}"#,
        "\n",
        r#"{"id": 3, "type": "PMIX_REGEX2", "value": [{"hex": "6e3100", "type": "raw"}]}"#,
        "\n",
        r#"{"id": 4, "type": "PMIX_UINT8", "value": [1, 300]}"#,
        "\n",
    );
    std::fs::write(dir.join("wire.jsonl"), requests).expect("the requests");
    write_job(&dir);
    dir
}

/// A job of two applications, and questions about it.
fn write_job(dir: &Path) {
    let job = concat!(
        r#"{"nspace":"mpmd","info":["#,
        "\n",
        r#"  {"key":"PMIX_NODE_MAP","type":"str","value":"n1,n2"},"#,
        "\n",
        r#"  {"key":"PMIX_PROC_MAP","type":"str","value":"0-1;2"},"#,
        "\n",
        r#"  {"key":"PMIX_APP_INFO_ARRAY","type":"info_array","value":["#,
        r#"{"key":"PMIX_APPNUM","type":"u32","value":0},"#,
        r#"{"key":"PMIX_APP_SIZE","type":"u32","value":2}]},"#,
        "\n",
        r#"  {"key":"PMIX_APP_INFO_ARRAY","type":"info_array","value":["#,
        r#"{"key":"PMIX_APPNUM","type":"u32","value":1},"#,
        r#"{"key":"PMIX_APP_SIZE","type":"u32","value":1},"#,
        r#"{"key":"PMIX_WDIR","type":"str","value":"/w1"}]}]}"#,
        "\n",
    );
    std::fs::write(dir.join("job.json"), job).expect("the job");
    let gets = concat!(
        r#"{"id":1,"job":"mpmd","get":{"key":"pmix.lpeers","proc":{"nspace":"mpmd","rank":1}}}"#,
        "\n",
        r#"{"id":2,"job":"mpmd","get":{"key":"pmix.nodeid","proc":{"nspace":"mpmd","rank":9}}}"#,
        "\n",
    );
    std::fs::write(dir.join("gets.jsonl"), gets).expect("the questions");
}

/// What a command prints, run where the files are.
fn run(command: &str, dir: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_pmix"))
        .parent()
        .expect("a directory");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(dir)
        .env_clear()
        .env("PATH", &path)
        .env("HOME", "/nonexistent")
        .output()
        .expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is written when asked")]
fn every_example_prints_what_the_page_shows() {
    let dir = files();
    for (name, least) in [("docs/cli.md", 30), ("README.md", 10)] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        let shown = std::fs::read_to_string(&page).expect("the page");
        let made = rerun(&shown, |command| run(command, &dir));
        if std::env::var_os("PMIX_DOCS").is_some_and(|v| v == "write") {
            std::fs::write(&page, made).expect("the page is written");
            continue;
        }
        for (line, (shown, made)) in shown.lines().zip(made.lines()).enumerate() {
            assert_eq!(shown, made, "{name} line {}", line + 1);
        }
        assert_eq!(shown.len(), made.len(), "{name} ends too early or too late");
        assert!(shown.matches("pmix ").count() > least);
    }
}
