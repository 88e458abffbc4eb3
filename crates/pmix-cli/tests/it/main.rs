// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `pmix`, run as users run it.

#[path = "../../../pmix-builtin/tests/it/plugins/build.rs"]
#[expect(dead_code, reason = "the tests of pmix-builtin need all of it")]
mod build;
#[path = "../../../pmix-builtin/tests/it/plugins/faults.rs"]
mod faults;

mod batch;
mod command;
mod completion;
mod console;
mod dictionary;
mod docs;
mod doctor;
mod doctor_planted;
mod framework;
mod get;
mod help_examples;
mod input;
mod list_tasks;
mod map;
mod map_slots;
mod planted;
mod plugins_check;
mod run;
mod run_agents;
mod run_agents_tools;
mod run_agents_waits;
mod run_habits;
mod run_hello;
mod run_job_control;
mod run_keyboard;
mod run_launchers;
mod run_lines;
mod run_munge;
mod run_nodes;
mod run_options;
mod run_output;
mod run_report;
mod run_terminal;
mod run_unrunnable;
mod run_waits;
mod tool;
mod tool_address;
mod tool_asks;
mod tool_attach;
mod tool_ends;
mod tool_events;
mod tool_indirect;
mod tool_node;
mod tool_release;
mod tool_root;
mod tool_servers;
mod tool_terminal;
mod tool_top;
mod tool_unstarted;
mod wire;
mod wrong_inputs;
