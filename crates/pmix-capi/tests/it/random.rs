// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of every function in the table with random arguments of its types, in every state of a process. No call may
//! crash. The seed is printed; `PMIX_SEED` sets it, and `PMIX_ROUNDS` sets the number of calls of each function.

use crate::nulls::{Arg, Call, Function, STATES, WAITING, compile, functions, run, sample, serve};
use std::fmt::Write as _;

/// The number of calls of each function in each state of a process.
const ROUNDS: u64 = 24;

/// Returns a random argument as C text.
fn any(function: &Function, arg: &Arg) -> String {
    let has = |c_type: &str| function.args.iter().any(|arg| arg.c_type == c_type);
    let made = match (&*arg.c_type, &*arg.name) {
        ("void*", "ptr") => "any_list()",
        // NULL as `prev` names the first info of a list.
        ("void*", "prev") => "NULL",
        ("void*", _) if has("pmix_data_type_t") => "any_data(random_type, 0)",
        ("void*" | "char*" | "pmix_nspace_t" | "pmix_key_t" | "uint8_t*", _) => {
            "(void *) any_text()"
        }
        ("char**", _) => "any_strings()",
        ("char***", _) => "any_place_of_strings()",
        ("pmix_proc_t*", _) => "any_procs()",
        ("pmix_value_t*", _) => "any_values()",
        ("pmix_info_t*", _) => "any_infos()",
        ("pmix_pdata_t*", _) => "any_pdata()",
        ("pmix_query_t*", _) => "any_queries()",
        ("pmix_app_t*", _) => "any_apps()",
        ("pmix_byte_object_t*", _) => "any_bytes()",
        ("pmix_data_buffer_t*", _) => "any_buffer()",
        ("pmix_data_type_t", _) => "random_type",
        ("int32_t*", _) => "any_place_of_count()",
        // The number of bytes may be anything that a `size_t` can hold.
        ("size_t", "size" | "sz") => "any_size()",
        ("size_t", _) if has("uint8_t*") => "any_size()",
        ("size_t" | "int32_t", _) => "any_count()",
        ("bool", _) => "0 != below(2)",
        ("uid_t" | "gid_t", _) => return sample(&function.name, arg),
        (number, _) if arg.is_number() => return format!("({number}) any_number()"),
        (pointer, _) if pointer.ends_with('*') => {
            let pointed = pointer.strip_suffix('*').unwrap_or_default();
            return format!("object(MOST * sizeof({pointed}))");
        }
        // A callback.
        _ => return format!("0 == below(8) ? NULL : {}", sample(&function.name, arg)),
    };
    made.to_owned()
}

/// Returns the calls as C text.
fn calls(functions: &[Function]) -> String {
    let mut text = String::new();
    let mut table = String::from("static const call_t calls[] = {\n");
    for (number, function) in functions.iter().enumerate() {
        let name = &function.name;
        let args = function.args.iter().map(|arg| any(function, arg));
        let call = format!("{name}({})", args.collect::<Vec<_>>().join(", "));
        let _ = write!(
            text,
            "static long f_{number}(int round)\n{{\n    (void) round;\n    {call};\n    return 0;\n}}\n\n"
        );
        let _ = writeln!(
            table,
            "    {{\"{name}\", \"-\", 0, f_{number}, {LIMIT_MS}}},"
        );
    }
    format!("{text}{table}}};\n")
}

/// The time limit for all calls of a function, including those that wait.
const LIMIT_MS: u32 = 10_000;

fn number_of(variable: &str) -> Option<u64> {
    crate::build::variable(variable)?.parse().ok()
}

#[test]
fn no_function_crashes_with_random_arguments() {
    let seed = number_of("PMIX_SEED").unwrap_or(1);
    let rounds = number_of("PMIX_ROUNDS").unwrap_or(ROUNDS);
    println!("seed {seed}, {rounds} calls of each function in each state");
    let functions = functions();
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&calls(&functions), "random", folder.path());
    let mut faults = Vec::new();
    for what in STATES {
        let server = what
            .ends_with("client")
            .then(|| serve(functions.len(), folder.path()));
        let calls = run(&program, what, server.as_ref(), |command| {
            command.args([seed.to_string(), rounds.to_string()]);
        });
        assert_eq!(calls.len(), functions.len(), "{what}");
        for Call { function, went, .. } in &calls {
            // Only calls of functions that wait for other processes may time out.
            let waits = WAITING.iter().any(|part| function.contains(part));
            let is_over = went.starts_with("killed 14");
            let may_be = went.starts_with("returned") || (waits && is_over);
            if !may_be {
                faults.push(format!("{what}: {function} {went}"));
            }
        }
        if let Some(server) = server {
            server.finalize().expect("the server ends");
        }
    }
    let count = faults.len();
    assert!(
        faults.is_empty(),
        "seed {seed}: {count} faults:\n{}",
        faults.join("\n")
    );
}
