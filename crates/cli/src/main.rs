//! The command `koel`: see `lib.rs`.

fn main() -> std::process::ExitCode {
    koel_cli::main()
}
