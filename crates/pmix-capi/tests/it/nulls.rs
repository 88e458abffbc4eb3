// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of every function in the table with NULL or 0 for each argument in turn, in every state of a process. No
//! call may crash, and a missing required argument must be an error.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_server::{HostObject, NoHost, Server};
use pmix_types::{Info, Proc, Rank, keys};

use crate::build::{Linked, cc, column, must, root};
use crate::programs::user_of;

/// A function of the table.
pub(crate) struct Function {
    pub(crate) name: String,
    returns: String,
    pub(crate) args: Vec<Arg>,
}

/// An argument: its type without `const`, with arrays as pointers, and its name.
pub(crate) struct Arg {
    pub(crate) c_type: String,
    pub(crate) name: String,
}

/// The names of calls without a missing argument, and with all arguments missing.
const NONE: &str = "-";
const ALL: &str = "*";
/// Any argument.
const ANY: &str = "any";

/// The result of a call.
pub(crate) struct Call {
    pub(crate) function: String,
    argument: String,
    pub(crate) went: String,
}

/// Returns the functions of the table.
pub(crate) fn functions() -> Vec<Function> {
    column("functions", "signature")
        .iter()
        .map(|text| function(text))
        .collect()
}

fn function(signature: &str) -> Function {
    let (head, rest) = signature
        .split_once('(')
        .expect("a function has parameters");
    let place = head
        .rfind([' ', '*'])
        .expect("a function returns something")
        + 1;
    let (returns, name) = head.split_at(place);
    let args = rest.trim_end().trim_end_matches(')').split(", ");
    Function {
        name: name.to_owned(),
        returns: returns.trim().to_owned(),
        args: args
            .filter(|arg| !matches!(*arg, "void" | ""))
            .map(arg)
            .collect(),
    }
}

fn arg(text: &str) -> Arg {
    let is_array = text.ends_with(']');
    let text = text.split('[').next().unwrap_or(text).trim();
    let place = text.rfind([' ', '*']).expect("an argument has a type") + 1;
    let (c_type, name) = text.split_at(place);
    let c_type = c_type.replace("const ", "").replace(' ', "");
    let pointer = if is_array { "*" } else { "" };
    Arg {
        c_type: format!("{c_type}{pointer}"),
        name: name.to_owned(),
    }
}

/// Returns a valid argument as C text.
pub(crate) fn sample(function: &str, arg: &Arg) -> String {
    let made = match (&*arg.c_type, &*arg.name) {
        ("void*", "ptr") => "list()",
        // NULL as `prev` names the first info of a list.
        ("void*", "prev") => "NULL",
        ("void*", "src") if function == "PMIx_Data_pack" => "strings()",
        ("void*" | "char*" | "pmix_nspace_t" | "pmix_key_t" | "uint8_t*", _) => "(void *) text()",
        ("char**", _) => "strings()",
        ("char***", _) => "place_of_strings()",
        ("pmix_proc_t*", _) => "proc()",
        ("pmix_value_t*", _) => "value()",
        ("pmix_info_t*", _) => "info()",
        ("pmix_pdata_t*", _) => "pdata()",
        ("pmix_query_t*", _) => "query()",
        ("pmix_app_t*", _) => "app()",
        ("pmix_byte_object_t*", _) => "bytes()",
        ("pmix_data_buffer_t*", _) => "buffer()",
        ("pmix_op_cbfunc_t", _) => "op_done",
        ("pmix_info_cbfunc_t", _) => "infos_done",
        ("pmix_value_cbfunc_t", _) => "value_done",
        ("pmix_lookup_cbfunc_t", _) => "lookup_done",
        ("pmix_spawn_cbfunc_t", _) => "spawn_done",
        ("pmix_credential_cbfunc_t", _) => "credential_done",
        ("pmix_validation_cbfunc_t", _) => "validation_done",
        ("pmix_hdlr_reg_cbfunc_t", _) => "handler_done",
        ("pmix_notification_fn_t", _) => "handler",
        ("pmix_device_dist_cbfunc_t", _) => "distances_done",
        ("pmix_dmodex_response_fn_t", _) => "modex_done",
        ("pmix_setup_application_cbfunc_t", _) => "setup_done",
        ("pmix_iof_cbfunc_t", _) => "output_came",
        ("pmix_data_type_t", _) => "PMIX_STRING",
        ("pmix_iof_channel_t", _) => "PMIX_FWD_STDOUT_CHANNEL",
        ("int32_t*", _) => "one()",
        ("uid_t", _) => "getuid()",
        ("gid_t", _) => "getgid()",
        ("int", "delimiter") => "','",
        ("size_t" | "int" | "bool" | "char" | "int32_t" | "uint32_t", _) => "1",
        (pointer, _) if pointer.ends_with('*') => {
            let pointed = pointer.strip_suffix('*').unwrap_or_default();
            return format!("object(sizeof({pointed}))");
        }
        // The numeric types of the interface.
        (number, _) if number.starts_with("pmix_") && !number.ends_with("func_t") => "1",
        (other, name) => panic!("no sample of {other} {name} of {function}"),
    };
    made.to_owned()
}

/// Returns the time limit for a call. Calls that need other processes time out soon.
fn milliseconds(function: &str) -> u32 {
    let waits = WAITING.iter().any(|part| function.contains(part));
    if waits { 1500 } else { 60_000 }
}

/// Parts of the names of functions that wait for other processes.
pub(crate) const WAITING: &[&str] = &[
    "PMIx_Fence",
    "PMIx_Connect",
    "PMIx_Disconnect",
    "PMIx_Get",
    "PMIx_Group_",
    "PMIx_server_dmodex_request",
];

/// Returns the calls as C text.
fn calls(functions: &[Function]) -> String {
    let mut text = String::new();
    let mut table = String::from("static const call_t calls[] = {\n");
    for (number, function) in functions.iter().enumerate() {
        let name = &function.name;
        let args = function.args.iter().enumerate().map(|(place, arg)| {
            let null = match sample(name, arg).parse::<u8>().is_ok() || arg.is_number() {
                true => "0",
                false => "NULL",
            };
            format!("lacks(without, {place}) ? {null} : {}", sample(name, arg))
        });
        let call = format!("{name}({})", args.collect::<Vec<_>>().join(", "));
        let body = match &*function.returns {
            "void" => format!("{call};\n    return 0;"),
            pointer if pointer.ends_with('*') => format!("return (long) (intptr_t) {call};"),
            _ => format!("return (long) {call};"),
        };
        let _ = write!(
            text,
            "static long f_{number}(int without)\n{{\n    (void) without;\n    {body}\n}}\n\n"
        );
        let limit = milliseconds(name);
        let none = [(-1, NONE), (-2, ALL)];
        let named = function.args.iter().map(|arg| &*arg.name);
        for (place, arg) in none.into_iter().chain((0..).zip(named)) {
            let _ = writeln!(
                table,
                "    {{\"{name}\", \"{arg}\", {place}, f_{number}, {limit}}},"
            );
        }
    }
    format!("{text}{table}}};\n")
}

impl Arg {
    /// Returns `true` if the type is a number, not a pointer, a function or a name.
    pub(crate) fn is_number(&self) -> bool {
        let c_type = &*self.c_type;
        let is_function = c_type.ends_with("func_t") || c_type.ends_with("fn_t");
        let is_name = matches!(c_type, "pmix_nspace_t" | "pmix_key_t");
        !c_type.ends_with('*') && !is_function && !is_name
    }
}

/// Compiles the program with these calls: `nulls` or `random`.
pub(crate) fn compile(calls: &str, name: &str, folder: &Path) -> PathBuf {
    std::fs::write(folder.join(format!("{name}_calls.h")), calls).expect("a file");
    let kind = format!("-D{}", name.to_uppercase());
    let flags = [
        &*kind,
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-nonnull",
        "-Wno-unused-function",
        "-Wno-deprecated-declarations",
    ];
    cc(
        &root().join("tests/capi/nulls.c"),
        folder,
        &flags,
        Linked::Shared,
    )
}

/// Runs the program in a state, as a process of the server's jobs if a server is given.
pub(crate) fn run(
    program: &Path,
    what: &str,
    server: Option<&Server>,
    with: impl FnOnce(&mut Command),
) -> Vec<Call> {
    let folder = program.parent().expect("a program is in a folder");
    let empty = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    command.arg(what).env_clear();
    if let Some(server) = server {
        let first = Proc::new("job.0", Rank::new(0));
        command.envs(server.setup_fork(&first).expect("an environment"));
    }
    with(&mut command);
    command
        .current_dir(empty.path())
        .env("LD_LIBRARY_PATH", folder)
        .env("TMPDIR", empty.path());
    let said = must(&mut command);
    let call = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        let mut part = || parts.next().expect("a part of a line");
        Call {
            function: part(),
            argument: part(),
            went: part(),
        }
    };
    said.lines().map(call).collect()
}

/// Starts a server with as many jobs of one process as there are calls.
pub(crate) fn serve(number: usize, folder: &Path) -> Server {
    let server = Server::builder().host(NoHost).hostname("localhost").build();
    let server = server.expect("a server");
    server.start().expect("the server starts");
    for number in 0..number {
        let infos = [
            Info::new(keys::NODE_MAP, "localhost"),
            Info::new(keys::PROC_MAP, "0"),
        ];
        let job = format!("job.{number}");
        let made = server.register_nspace(&job.clone().into(), 1, &infos);
        made.expect("a job");
        let proc = Proc::new(job, Rank::new(0));
        let made = server.register_client(&proc, user_of(folder), HostObject(0));
        made.expect("a client");
    }
    server
}

/// The states of the process that makes a call.
pub(crate) const STATES: [&str; 6] = [
    "nothing",
    "ended-server",
    "tool",
    "server",
    "client",
    "ended-client",
];

#[test]
fn no_function_crashes_without_an_argument() {
    let functions = functions();
    assert_eq!(functions.len(), 340);
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&calls(&functions), "nulls", folder.path());
    let expected: usize = functions
        .iter()
        .map(|function| function.args.len() + 2)
        .sum();
    let mut faults = Vec::new();
    let mut served = Vec::new();
    for what in STATES {
        let is_client = what.ends_with("client");
        let server = is_client.then(|| serve(expected, folder.path()));
        let calls = run(&program, what, server.as_ref(), |_| ());
        assert_eq!(calls.len(), expected, "{what}");
        let is_served = |call: &&Call| call.argument == NONE && call.went == "returned 0";
        served.push((what, calls.iter().filter(is_served).count()));
        for call in &calls {
            println!(
                "{what}\t{}\t{}\t{}",
                call.function, call.argument, call.went
            );
            if let Some(why) = fault(&functions, call) {
                let Call {
                    function,
                    argument,
                    went,
                } = call;
                faults.push(format!(
                    "{what}: {function} without {argument} {went}: {why}"
                ));
            }
        }
        if let Some(server) = server {
            server.finalize().expect("the server ends");
        }
    }
    // Enough calls with all arguments succeed, so the calls get beyond the checks of arguments.
    let least = |what: &str| match what {
        "server" | "client" => 175,
        _ => 100,
    };
    let is_enough = |(what, number): &(&str, usize)| *number >= least(what);
    assert!(served.iter().all(is_enough), "{served:?}");
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Returns the fault in the result of a call, if any.
fn fault(functions: &[Function], call: &Call) -> Option<&'static str> {
    let (function, argument) = (&*call.function, &*call.argument);
    let Some(status) = call.went.strip_prefix("returned ") else {
        let waits =
            |(name, place): &(&str, &str)| *name == function && [argument, ANY].contains(place);
        return (!WAITING_FOR_OTHERS.iter().any(waits)).then_some("it did not return");
    };
    let status: i64 = status.parse().expect("a status");
    let of_status = functions
        .iter()
        .any(|known| known.name == function && known.returns == "pmix_status_t");
    let is_missing = !matches!(argument, NONE | ALL);
    let is_fault = of_status && is_missing && status >= 0 && !may_be_missing(function, argument);
    is_fault.then_some("what may not be missing is no error")
}

/// Calls of a client that wait: a get of a value that the process has not put, and a join without an invitation.
const WAITING_FOR_OTHERS: &[(&str, &str)] = &[("PMIx_Get", ANY), ("PMIx_Group_join", ANY)];

/// Returns `true` if the headers allow an argument to be NULL or 0, or define a meaning for it.
fn may_be_missing(function: &str, argument: &str) -> bool {
    let (_, where_) = MAY_BE_MISSING
        .iter()
        .find(|(name, _)| *name == argument)
        .copied()
        .unwrap_or_default();
    let short = function.trim_start_matches("PMIx_");
    where_.iter().any(|known| *known == "*" || *known == short)
}

/// The arguments that may be missing, with the functions that allow it; `*` means all functions.
const MAY_BE_MISSING: &[(&str, &[&str])] = &[
    // No attributes, no callback data.
    ("info", &["*"]),
    ("ninfo", &["*"]),
    ("directives", &["*"]),
    ("ndirs", &["*"]),
    ("job_info", &["*"]),
    ("cbdata", &["*"]),
    ("regcbdata", &["*"]),
    ("attrs", &["Register_attributes"]),
    ("module", &["server_init"]),
    ("server_object", &["server_register_client"]),
    ("sessionID", &["Session_control", "server_register_session"]),
    ("prefix", &["Data_print"]),
    // Callbacks of functions that need none, or that block without one.
    (
        "cbfunc",
        &[
            "Allocation_request_nb",
            "Connect_nb",
            "Deregister_event_handler",
            "Disconnect_nb",
            "Fence_nb",
            "Group_construct_nb",
            "Group_destruct_nb",
            "Group_invite_nb",
            "Group_join_nb",
            "Group_leave_nb",
            "IOF_deregister",
            "IOF_pull",
            "IOF_push",
            "Job_control_nb",
            "Log_nb",
            "Notify_event",
            "Process_monitor_nb",
            "Publish_nb",
            "Query_info_nb",
            "Register_event_handler",
            "Resource_block_nb",
            "Unpublish_nb",
            "Validate_credential_nb",
            "server_IOF_deliver",
            "server_IOF_flow_control",
            "server_deliver_inventory",
            "server_deregister_resources",
            "server_register_client",
            "server_register_nspace",
            "server_register_resources",
            "server_register_session",
            "server_setup_local_support",
        ],
    ),
    ("regcbfunc", &["IOF_pull"]),
    // Results that the caller does not want.
    ("results", &["*"]),
    ("nresults", &["*"]),
    (
        "proc",
        &["Init", "tool_init", "Get", "Get_nb", "Store_internal"],
    ),
    // The default of the function: the own job, all processes, the own process, the own node, all jobs or all keys.
    (
        "procs",
        &["Abort", "Fence", "Fence_nb", "Group_construct_nb"],
    ),
    (
        "nprocs",
        &["Abort", "Fence", "Fence_nb", "Group_construct_nb"],
    ),
    ("targets", &["Job_control", "Job_control_nb", "IOF_push"]),
    ("ntargets", &["Job_control", "Job_control_nb", "IOF_push"]),
    (
        "source",
        &["Notify_event", "Data_unpack", "server_IOF_flow_control"],
    ),
    // 0 resumes the input.
    ("xoff", &["*"]),
    ("target", &["Data_pack", "Data_unpack"]),
    ("nodename", &["Resolve_peers"]),
    ("nspace", &["Resolve_peers", "Resolve_nodes", "Spawn"]),
    ("keys", &["Unpublish", "Unpublish_nb"]),
    ("key", &["Get", "Get_nb"]),
    ("codes", &["Register_event_handler"]),
    ("ncodes", &["Register_event_handler"]),
    ("msg", &["Abort"]),
    // NULL is the end of the input.
    ("bo", &["IOF_push"]),
    // Numbers for which 0 is a valid value.
    ("evhdlr_ref", &["Deregister_event_handler"]),
    (
        "directive",
        &["Allocation_request", "Allocation_request_nb"],
    ),
    ("error", &["Process_monitor", "Process_monitor_nb"]),
    ("gid", &["server_register_client"]),
    ("uid", &["server_register_client"]),
    ("nlocalprocs", &["server_register_nspace"]),
    ("num_vals", &["Data_pack"]),
    ("overwrite", &["*"]),
    ("opt", &["Group_join", "Group_join_nb"]),
    ("range", &["Notify_event"]),
    ("ref", &["Get_cpuset"]),
    ("status", &["Abort", "Notify_event"]),
    // 0 is the type of an undefined value; NULL is an empty text or `true`.
    (
        "type",
        &[
            "Info_list_add",
            "Info_list_add_unique",
            "Info_list_prepend",
            "Info_load",
            "Value_load",
        ],
    ),
    (
        "value",
        &[
            "Info_list_add",
            "Info_list_add_unique",
            "Info_list_prepend",
            "Setenv",
            "pmix_setenv",
        ],
    ),
    ("data", &["Info_load", "Value_load"]),
    ("src", &["Data_print"]),
];
