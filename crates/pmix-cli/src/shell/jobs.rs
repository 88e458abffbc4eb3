// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion of the names of running jobs: the parts of scripts that ask `pmix completions --list jobs`.

use clap::{ArgAction, Command};
use clap_complete::Shell;

/// The name of the arguments that are the name of a job.
const JOB: &str = "nspace";

/// Adds the completion of jobs to the script of a shell.
pub(super) fn add(shell: Shell, command: &Command, script: String) -> String {
    match shell {
        Shell::Bash => script + &bash(command),
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + &fish(command),
        _ => script,
    }
}

/// Returns the commands with a job as an argument without an option.
fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    let has_job = |command: &&Command| command.get_positionals().any(|arg| arg.get_id() == JOB);
    command.get_subcommands().filter(has_job)
}

/// Returns a function that completes jobs, and calls the generated function for everything else.
fn bash(command: &Command) -> String {
    let names: Vec<_> = commands(command).map(Command::get_name).collect();
    let takes_value =
        |arg: &&clap::Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let args = commands(command)
        .flat_map(Command::get_arguments)
        .chain(command.get_arguments());
    let mut options: Vec<String> = args
        .filter(|arg| !arg.is_positional())
        .filter(takes_value)
        .flat_map(|arg| {
            let long = arg.get_long().map(|long| format!("--{long}"));
            long.into_iter()
                .chain(arg.get_short().map(|short| format!("-{short}")))
        })
        .collect();
    options.sort();
    options.dedup();
    // COMP_WORDBREAKS contains `@` and `:`, which the names of jobs have. The candidates are compared with the whole
    // word, and lose the part of it that is before the last break. `compgen -W` would expand the names.
    format!(
        r#"
_pmix_jobs() {{
    local command="" i word line name
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${{COMP_WORDS[i]}}" in
            -*) ;;
            *) command="${{COMP_WORDS[i]}}"; break ;;
        esac
    done
    line="${{COMP_LINE:0:COMP_POINT}}"
    word="${{line##*[[:blank:]]}}"
    line="${{line%"$word"}}"
    line="${{line%"${{line##*[![:blank:]]}}"}}"
    case "$command,$word,${{line##*[[:blank:]]}}" in
        *,-*,* | *,*,{options}) ;;
        {names})
            COMPREPLY=()
            while IFS= read -r name; do
                [[ "$name" == "$word"* ]] && COMPREPLY+=("${{name#"${{word%"$2"}}"}}")
            done < <("$1" completions --list jobs 2>/dev/null)
            [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return 0
            ;;
    esac
    _pmix "$@"
}}

complete -F _pmix_jobs -o bashdefault -o default pmix
"#,
        options = options.join(" | *,*,"),
        names = names
            .iter()
            .map(|name| format!("{name},*"))
            .collect::<Vec<_>>()
            .join(" | "),
    )
}

/// Replaces the files that the generated script offers for jobs.
fn zsh(script: &str) -> String {
    const FUNCTION: &str = r#"
(( $+functions[_pmix_jobs] )) ||
_pmix_jobs() {
    local expl
    local -a jobs
    jobs=(${(f)"$(_call_program jobs pmix completions --list jobs 2>/dev/null)"})
    _wanted jobs expl job compadd -a jobs
}
"#;
    let mut replaced = String::with_capacity(script.len() + FUNCTION.len());
    for line in script.split_inclusive('\n') {
        // An argument has one colon if it is required, two if it is not, and an asterisk if it may be repeated.
        let argument = line.trim_start_matches(['\'', '*', ':']);
        match argument.starts_with(&format!("{JOB} -- ")) {
            true => replaced.push_str(&line.replace(":_default'", ":_pmix_jobs'")),
            false if line.starts_with("if [ \"$funcstack[1]\"") => {
                replaced.push_str(FUNCTION.trim_start());
                replaced.push('\n');
                replaced.push_str(line);
            }
            false => replaced.push_str(line),
        }
    }
    replaced
}

fn fish(command: &Command) -> String {
    let line = |command: &Command| {
        format!(
            "complete -c pmix -n \"__fish_pmix_using_subcommand {}\" -f -a \"(command pmix completions --list jobs \
             2>/dev/null)\"\n",
            command.get_name()
        )
    };
    commands(command).map(line).collect()
}
