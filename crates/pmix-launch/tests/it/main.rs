// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replies of the launcher to the processes that it starts.
//!
//! Each test starts a job of this program, whose processes play the parts of their ranks ([`actors`]).

mod actors;
mod asking;
mod blocked;
mod children;
mod credentials;
mod debugging;
mod directed;
mod disconnects;
mod logs;
mod monitors;
mod nothing;
mod placed;
mod pmi;
mod required;
mod several;
mod spread;
mod stage;
mod waits;

use pmix_launch::{Cause, Ending, MapBy, Policy};
use pmix_topology::Level;
use pmix_types::{Rank, Value, keys};
use stage::{play, play_plan, play_unread, play_with};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

#[test]
fn an_abort_ends_the_job_with_its_status_and_reason() {
    let played = play("abort", 3);
    let expected = Cause::Aborted {
        rank: Rank::new(1),
        status: 7,
        message: "no more fuel".to_owned(),
    };
    assert_eq!(played.outcome.cause, Some(expected), "{}", played.errors);
    assert_eq!(played.outcome.exit_code(), 7);
}

#[test]
fn a_process_that_ended_before_an_abort_is_the_cause() {
    let played = play("bereft", 2);
    let expected = Cause::Failed {
        rank: Rank::new(0),
        ending: Ending::Signalled {
            signal: SIGKILL,
            core: false,
        },
    };
    assert_eq!(played.outcome.cause, Some(expected), "{}", played.errors);
}

#[test]
fn an_exit_without_finalize_ends_the_job() {
    let played = play("vanish", 3);
    let rank = Rank::new(1);
    let cause = played.outcome.cause.clone();
    assert_eq!(
        cause,
        Some(Cause::NotFinalized { rank }),
        "{}",
        played.errors
    );
    assert_eq!(played.outcome.ranks[1].ending, Ending::Exited(0));
    assert_eq!(played.outcome.exit_code(), 1);
}

#[test]
fn a_process_outside_init_and_finalize_may_exit() {
    let played = play("leave", 3);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn only_connected_processes_have_a_directory() {
    let played = play("directories", 3);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn a_lookup_waits_for_data_that_are_published_later() {
    let played = play("publish", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn the_table_of_processes_has_their_numbers() {
    let played = play("table", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let mut told: Vec<_> = played.output.lines().collect();
    told.sort_unstable();
    let ranks = played.outcome.ranks.iter();
    let expected: Vec<_> = ranks.map(|r| format!("{} {}", r.rank, r.pid)).collect();
    assert_eq!(told, expected);
}

#[test]
fn processes_get_their_process_sets() {
    let played = play("sets", 3);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn a_process_can_terminate_another() {
    let played = play("control", 2);
    let killed = Ending::Signalled {
        signal: SIGTERM,
        core: false,
    };
    assert_eq!(played.outcome.ranks[1].ending, killed, "{}", played.errors);
    assert!(
        played.output.contains("asked and done"),
        "{}",
        played.errors
    );
}

#[test]
fn job_control_directives_other_than_signals_are_obeyed_or_refused_by_name() {
    let played = play("controls", 1);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn logged_messages_appear_in_the_output_of_the_launcher() {
    let played = play("log", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "to output of 0\nto output of 1\n");
    assert_eq!(played.errors, "to errors of 0\nto errors of 1\n");
}

#[test]
fn a_log_to_an_unread_output_waits_and_does_not_block_fences() {
    let dir = tempfile::tempdir().unwrap();
    let fenced = dir.path().join("fenced");
    let (outcome, output) = play_unread("flood", 2, &[("PLACE", &fenced)], &fenced);
    assert_eq!(outcome.exit_code(), 17);
    // Each text arrives as a whole, or not at all if its process was terminated.
    let logged = output.iter().filter(|&&byte| byte == b'x').count();
    assert!(logged >= 300_000 && logged % 100_000 == 0, "{logged}");
}

#[test]
fn only_paths_registered_for_cleanup_are_removed_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("kept"), "").unwrap();
    std::fs::create_dir(path("sub")).unwrap();
    let played = play_with("cleanup", 1, &[("PLACE", dir.path())]);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert!(path("kept").exists());
    assert!(!path("file").exists() && !path("sub").exists());
}

/// A machine with one processor that every machine has, as hwloc writes it.
const MACHINE: &str = r#"<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000001" gp_index="1">
    <object type="Package" os_index="3" cpuset="0x00000001" gp_index="2">
      <object type="Core" os_index="0" cpuset="0x00000001" gp_index="3">
        <object type="PU" os_index="0" cpuset="0x00000001" gp_index="4"/>
      </object>
    </object>
  </object>
</topology>
"#;

#[test]
fn bound_processes_get_the_topology_and_their_location() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machine.xml");
    std::fs::write(&file, MACHINE).unwrap();
    let played = play_plan("machine", 1, &[], |plan| {
        plan.policy = Policy {
            map_by: MapBy::Level(Level::Core),
            bind_to: Some(Level::Core),
            ..Policy::default()
        };
        plan.environment = vec![("HWLOC_XMLFILE".into(), file.into())].into();
    });
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let server = format!("{}.server", played.outcome.nspace);
    for (key, value) in [
        (keys::HWLOC_XML_V2, Value::from(MACHINE)),
        (keys::UNIV_SIZE, Value::Uint32(1)),
        (keys::NPROC_OFFSET, Value::Rank(Rank::new(0))),
        (keys::CPUSET, Value::from("0")),
        (keys::LOCALITY_STRING, Value::from("SK0:CR0:HT0")),
        (keys::GLOBAL_RANK, Value::Rank(Rank::new(0))),
        (keys::SERVER_NSPACE, Value::from(server)),
        (keys::SERVER_RANK, Value::Rank(Rank::new(0))),
        (keys::RANKBY, Value::from("slot")),
        (keys::SESSION_ID, Value::Uint32(std::process::id())),
        (keys::SPAWNED, Value::Bool(false)),
        (keys::LOCAL_CPUSETS, Value::from("0")),
    ] {
        let line = format!("{key} {value:?}\n");
        assert!(played.output.contains(&line), "{line}{}", played.output);
    }
}

#[test]
fn output_pull_and_input_push_require_forwarding_by_the_launcher() {
    let played = play_plan("forward", 2, &[], |plan| plan.forward_io = true);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let said = "copy: PMIX_SUCCESS (0)\npull: PMIX_SUCCESS (0)\npush to 0: PMIX_SUCCESS (0)\n\
                push to 1: PMIX_ERR_NOT_FOUND (-46)\nrank 0 read \"ping\\n\"\n\
                redirect: PMIX_ERR_NOT_SUPPORTED (-47)\n";
    assert_eq!(played.output, said);
    let played = play("forward", 2);
    let said = "copy: PMIX_ERR_NOT_SUPPORTED (-47)\npull: PMIX_ERR_NOT_SUPPORTED (-47)\n\
                push to 0: PMIX_ERR_NOT_SUPPORTED (-47)\npush to 1: PMIX_ERR_NOT_SUPPORTED (-47)\n\
                rank 0 read \"\"\nredirect: PMIX_ERR_NOT_SUPPORTED (-47)\n";
    assert_eq!(played.output, said);
}
