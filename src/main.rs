//! The `koel` command: builds, looks up, verifies and measures tables. All the work is the library's; `cli/` reads and
//! prints.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
