// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data as text for people.

mod words;

use pmix_types::{App, DataArray, Info, Proc, Value};

/// A value and its type.
pub(crate) fn value(of: &Value<'_>) -> String {
    let kind = of.data_type().pretty();
    match of {
        Value::Undef => kind.to_owned(),
        Value::DataArray(data) => array(data),
        _ => format!("{kind}: {}", words::datum(of)),
    }
}

/// An info: its key and its value.
pub(crate) fn info(of: &Info<'_>) -> String {
    let directives = match of.flags.is_empty() {
        true => String::new(),
        false => format!(" [{}]", of.flags),
    };
    format!("{}{directives}: {}", of.key, value(&of.value))
}

/// A process.
pub(crate) fn proc(of: &Proc<'_>) -> String {
    format!("{}:{}", of.nspace, of.rank)
}

/// An application.
pub(crate) fn app(of: &App<'_>) -> String {
    let argv: Vec<_> = of.argv.iter().map(ToString::to_string).collect();
    let cmd = of.cmd.as_ref().map(ToString::to_string).unwrap_or_default();
    let infos: Vec<_> = of.info.iter().map(info).collect();
    format!(
        "{cmd}: {} of `{}` [{}]",
        of.maxprocs,
        argv.join(" "),
        infos.join(", ")
    )
}

/// The data of an array.
pub(crate) fn array(of: &DataArray<'_>) -> String {
    format!("{}: {}", of.data_type().pretty(), words::items(of))
}

#[cfg(test)]
mod tests {
    use pmix_types::*;

    use super::*;

    /// Fails on what `Debug` shows: names of variants and structures, braces, `Some` and `None`, quotes.
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
            let text = value(of);
            check(&text, &names);
            let kind = of.data_type().pretty();
            assert!(
                *name == "DataArray" || text.starts_with(&format!("{kind}: ")),
                "{text}"
            );
            check(&info(&Info::new("a.key", of.clone())), &names);
        }
        for (_, of) in &arrays {
            let text = array(of);
            check(&text, &names);
            assert!(text.starts_with(of.data_type().pretty()), "{text}");
        }
        let untyped = DataArray::Untyped {
            data_type: DataType::from_raw(999),
            len: 4,
        };
        assert_eq!(array(&untyped), "UNKNOWN: [4 of no known type]");
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
        assert_eq!(value(&one), format!("PMIX_PROC_INFO: {shown}"));
        let several = DataArray::ProcInfo(vec![process.clone(), process]);
        assert_eq!(
            array(&several),
            format!("PMIX_PROC_INFO: [{shown}, {shown}]")
        );
        let time = Value::Timeval(Timeval {
            tv_sec: 5,
            tv_usec: 20,
        });
        assert_eq!(value(&time), "PMIX_TIMEVAL: (tv_sec=5, tv_usec=20)");
        let envar = Envar {
            envar: Some("PATH".into()),
            value: Some("/bin".into()),
            separator: b':',
        };
        assert_eq!(
            value(&Value::Envar(Box::new(envar))),
            "PMIX_ENVAR: (envar=PATH, value=/bin, separator=:)"
        );
        let texts = DataArray::String(vec![Some("a".into()), None]);
        assert_eq!(array(&texts), "PMIX_STRING: [a, NULL]");
        let bytes = |len: usize| value(&Value::ByteObject(vec![0xab; len].into()));
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
        let text = value(&Value::NodeStats(Box::new(node)));
        assert!(
            text.contains("diskstats=[(disk=sda, num_reads_completed=0, "),
            "{text}"
        );
    }
}
