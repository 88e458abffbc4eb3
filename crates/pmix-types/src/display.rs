// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data as text for users.
//!
//! The C functions `PMIx_Value_string`, `PMIx_Info_string`, `PMIx_Proc_string`, `PMIx_App_string`
//! and `PMIx_Resource_unit_string` give the same text. The Standard does not specify the text, so
//! programs should not parse it. The JSON form (feature `serde`) is meant for parsing.

mod words;

use std::fmt::{self, Display, Formatter};

use crate::{App, DataArray, Info, Proc, ResourceUnit, Value};

/// Formats the type and the content of the value: `PMIX_INT32: 7`.
impl Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let data_type = self.data_type().pretty();
        match self {
            Self::Undef => f.write_str(data_type),
            Self::DataArray(data) => write!(f, "{data}"),
            _ => {
                write!(f, "{data_type}: ")?;
                words::datum(self, f)
            }
        }
    }
}

/// Formats the key, the flags if there are any, and the value: `pmix.timeout [REQUIRED]:
/// PMIX_INT32: 7`.
impl Display for Info<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        if !self.flags.is_empty() {
            write!(f, " [{}]", self.flags)?;
        }
        write!(f, ": {}", self.value)
    }
}

/// Formats the nspace and the rank: `job@1:3`.
impl Display for Proc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace, self.rank)
    }
}

/// Formats the command, the number of processes, the arguments and the infos.
impl Display for App<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(cmd) = &self.cmd {
            write!(f, "{cmd}")?;
        }
        write!(f, ": {} of `", self.maxprocs)?;
        write_list(f, &self.argv, " ")?;
        f.write_str("` [")?;
        write_list(f, &self.info, ", ")?;
        f.write_str("]")
    }
}

/// Formats the type of the elements and the elements: `PMIX_STRING: [a, NULL]`.
impl Display for DataArray<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.data_type().pretty())?;
        words::items(self, f)
    }
}

/// Formats the number of units and the type of the devices.
impl Display for ResourceUnit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, self.device_type.pretty())
    }
}

fn write_list(f: &mut Formatter<'_>, items: &[impl Display], separator: &str) -> fmt::Result {
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;

    /// Checks that a text has no traces of `Debug`: names of variants and structures, braces,
    /// `Some`, `None` or quotes.
    fn check(text: &str, names: &[&str]) {
        for mark in names
            .iter()
            .copied()
            .chain(["{", "}", "Some", "None", "\"", "::"])
        {
            assert!(!text.contains(mark), "{mark} in {text}");
        }
    }

    #[test]
    fn no_type_is_shown_as_rust_has_it() {
        let (values, arrays) = (words::each_value(), words::each_array());
        let names: Vec<_> = { values.iter().map(|(name, _)| *name) }
            .chain(arrays.iter().map(|(name, _)| *name))
            .chain(["Untyped", "Undef", "WireRegex2"])
            .collect();
        for (name, of) in &values {
            let text = of.to_string();
            check(&text, &names);
            let kind = of.data_type().pretty();
            assert!(
                *name == "DataArray" || text.starts_with(&format!("{kind}: ")),
                "{text}"
            );
            check(&Info::new("a.key", of.clone()).to_string(), &names);
        }
        for (_, of) in &arrays {
            let text = of.to_string();
            check(&text, &names);
            assert!(text.starts_with(of.data_type().pretty()), "{text}");
        }
        let untyped = DataArray::Untyped {
            data_type: DataType::from_raw(999),
            len: 4,
        };
        assert_eq!(untyped.to_string(), "UNKNOWN: [4 of no known type]");
    }

    #[test]
    fn structures_are_shown_with_the_members_of_c() {
        let process = ProcInfo {
            proc: Proc::new("job@1", Rank::new(3)),
            hostname: Some("n01".into()),
            executable_name: None,
            pid: 4711,
            exit_code: 0,
            state: ProcState::RUNNING,
        };
        let shown = "(proc=job@1:3, hostname=n01, executable_name=NULL, pid=4711, exit_code=0, \
            state=PMIX_PROC_STATE_RUNNING)";
        let one = Value::ProcInfo(Box::new(process.clone()));
        assert_eq!(one.to_string(), format!("PMIX_PROC_INFO: {shown}"));
        let several = DataArray::ProcInfo(vec![process.clone(), process]);
        assert_eq!(
            several.to_string(),
            format!("PMIX_PROC_INFO: [{shown}, {shown}]")
        );
        let time = Value::Timeval(Timeval {
            tv_sec: 5,
            tv_usec: 20,
        });
        assert_eq!(time.to_string(), "PMIX_TIMEVAL: (tv_sec=5, tv_usec=20)");
        let envar = Envar {
            envar: Some("PATH".into()),
            value: Some("/bin".into()),
            separator: b':',
        };
        assert_eq!(
            Value::Envar(Box::new(envar)).to_string(),
            "PMIX_ENVAR: (envar=PATH, value=/bin, separator=:)"
        );
        let texts = DataArray::String(vec![Some("a".into()), None]);
        assert_eq!(texts.to_string(), "PMIX_STRING: [a, NULL]");
        let bytes = |len: usize| Value::ByteObject(vec![0xab; len].into()).to_string();
        assert_eq!(bytes(0), "PMIX_BYTE_OBJECT: size 0");
        assert_eq!(bytes(2), "PMIX_BYTE_OBJECT: size 2: ab ab");
        assert!(bytes(33).ends_with("ab ..."), "{}", bytes(33));
        let disk = DiskStats {
            disk: Some("sda".into()),
            ..DiskStats::default()
        };
        let node = NodeStats {
            diskstats: vec![disk],
            ..NodeStats::default()
        };
        let text = Value::NodeStats(Box::new(node)).to_string();
        assert!(
            text.contains("diskstats=[(disk=sda, num_reads_completed=0, "),
            "{text}"
        );
    }

    #[test]
    fn infos_and_applications_are_shown_with_their_parts() {
        let timeout = Info::new(keys::TIMEOUT, 7_i32);
        assert_eq!(timeout.to_string(), "pmix.timeout: PMIX_INT32: 7");
        let required = timeout.clone().required();
        assert_eq!(
            required.to_string(),
            format!("pmix.timeout [{}]: PMIX_INT32: 7", InfoFlags::REQD)
        );
        let app = App {
            cmd: Some("./solver".into()),
            argv: vec!["./solver".into(), "-v".into()],
            maxprocs: 4,
            info: vec![timeout, Info::new("a.key", true)],
            ..App::default()
        };
        assert_eq!(
            app.to_string(),
            "./solver: 4 of `./solver -v` [pmix.timeout: PMIX_INT32: 7, a.key: PMIX_BOOL: true]"
        );
        assert_eq!(App::default().to_string(), ": 0 of `` []");
        let unit = ResourceUnit {
            device_type: DeviceType::GPU,
            count: 2,
        };
        assert_eq!(
            unit.to_string(),
            format!("2 of {}", DeviceType::GPU.pretty())
        );
        assert_eq!(
            Proc::new("job@1", Rank::WILDCARD).to_string(),
            format!("job@1:{}", Rank::WILDCARD)
        );
    }
}
