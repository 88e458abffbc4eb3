// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules by which the configure scripts of resource managers accept an installed PMIx, each probed with the headers
//! of each release that `cargo xtask dist --as` can state.
//!
//! Sources: `auxdir/x_ac_pmix.m4` of Slurm, `m4/pbs_with_pmix.m4` of OpenPBS, and the pkg-config requirements of
//! ParaStation and flux-pmix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::process::output;
use xtask::{Outcome, install};

use super::{link, pkg_config, version};
use crate::files::{copy, directory, write};
use crate::tables::header;

/// The major numbers that headers can state besides the newest.
const MAJORS: [u32; 3] = [4, 5, 6];

/// Adds the result of every rule for every release.
pub(super) fn check(outcome: &mut Outcome, folder: &Path) {
    for major in MAJORS {
        let restated = match restated(folder, major) {
            Ok(restated) => restated,
            Err(why) => return outcome.check("configure", Err(why)),
        };
        let mut probe = |of: &str, result| {
            outcome.check(&format!("configure of {of}, release {major}"), result);
        };
        probe("Slurm", slurm(&restated, major));
        probe("OpenPBS", openpbs(&restated));
        probe("flux-pmix", at_least(&restated, "3.2.3"));
        // The tables have 4.2.2 as their newest release of the 4 series.
        if major > 4 {
            probe("ParaStation", at_least(&restated, "4.2.3"));
        }
    }
}

/// Returns a directory with the installed library, and headers and `pmix.pc` that state another release.
fn restated(folder: &Path, major: u32) -> Result<PathBuf, String> {
    let to = install::scratch(&format!("dist/as-{major}"))?;
    let (lib, include) = (to.join("lib"), to.join("include"));
    directory(&lib)?;
    for name in ["libpmix.so.2", "libpmix.so"] {
        let from = folder.join("lib").join(name);
        link(&from.to_string_lossy(), &lib.join(name))?;
    }
    let headers = folder.join("include");
    let fault = |e: std::io::Error| format!("{}: {e}", headers.display());
    for header in fs::read_dir(&headers).map_err(fault)? {
        let header = header.map_err(fault)?;
        copy(&header.path(), &include.join(header.file_name()), 0o644)?;
    }
    let text = header::version_as(Some(major))?;
    write(&include.join("pmix_version.h"), text.as_bytes())?;
    let pc = pkg_config(&version(&text)?);
    write(&lib.join("pkgconfig/pmix.pc"), pc.as_bytes())?;
    Ok(to)
}

/// Compiles and links as Slurm's script does: the preprocessor compares the major number.
fn slurm(folder: &Path, major: u32) -> Result<(), String> {
    let source = folder.join("slurm.c");
    let program = format!(
        "#include <pmix_server.h>\n#include <pmix_version.h>\n#if PMIX_VERSION_MAJOR != {major}L\n#error release\n#endif\n\
         int main(void)\n{{\n    return PMIx_Get_version() == 0;\n}}\n"
    );
    write(&source, program.as_bytes())?;
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(folder.join("include")).arg(&source);
    cc.arg("-o").arg(folder.join("slurm"));
    output(cc.arg("-L").arg(folder.join("lib")).arg("-lpmix")).map(drop)
}

/// Reads the numbers as OpenPBS does, with sed: digits that an `L` follows.
fn openpbs(folder: &Path) -> Result<(), String> {
    let header = folder.join("include/pmix_version.h");
    let text = fs::read_to_string(&header).map_err(|e| format!("{}: {e}", header.display()))?;
    for name in ["MAJOR", "MINOR", "RELEASE"] {
        let start = format!("#define PMIX_VERSION_{name} ");
        let number = text.lines().find_map(|line| line.strip_prefix(&start));
        let digits = number.and_then(|number| number.strip_suffix('L'));
        let is_number = |digits: &str| digits.parse::<u32>().is_ok();
        if !digits.is_some_and(is_number) {
            return Err(format!(
                "PMIX_VERSION_{name} is {number:?}, not digits and an L"
            ));
        }
    }
    match folder.join("lib/libpmix.so").exists() {
        true => Ok(()),
        false => Err("lib/libpmix.so does not exist".to_owned()),
    }
}

/// Requires a release of pkg-config.
fn at_least(folder: &Path, release: &str) -> Result<(), String> {
    let mut asked = Command::new("pkg-config");
    asked.args(["--print-errors", &format!("pmix >= {release}")]);
    asked.env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig"));
    // Another pmix.pc on the machine does not count.
    output(asked.env("PKG_CONFIG_LIBDIR", "")).map(drop)
}
