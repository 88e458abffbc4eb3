// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tool with a job that its server creates.

use super::*;

#[test]
fn a_tool_asks_for_its_job_info_when_it_looks_for_something() {
    let mut side = Side::with(None, |settings| settings.role = Role::TOOL);
    let (proc, server) = (
        Proc::new("job", Rank::new(0)),
        Proc::new("server", Rank::new(0)),
    );
    let welcome = Welcome::Assigned { proc, server }.encode().unwrap();
    side.core.handle_input(&welcome, side.now);
    assert_eq!(side.asked(), []);
    let begun = side.core.poll_completed();
    assert_eq!(begun, Some((Core::INIT, Ok(Answer::Done))));
    let job = side.core.job();
    let get = side.core.get(&job, keys::JOB_SIZE, &[], None).unwrap();
    assert_eq!(side.asked(), [Command::REQ]);
    let mut info = Vec::new();
    let mut encoder = Encoder::new(side.core.form().layout, &mut info);
    encoder
        .one::<wire_type::String>(&Some("job".into()))
        .unwrap();
    let size = Kval {
        key: keys::JOB_SIZE.into(),
        value: Value::Uint32(7),
    };
    encoder.one::<wire_type::Kval>(&size).unwrap();
    side.reply(Command::REQ, &info);
    let found = side.core.poll_completed();
    assert_eq!(found, Some((get, Ok(Answer::Value(Value::Uint32(7))))));
}
