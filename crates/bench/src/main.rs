//! The command `koel-bench`: see `lib.rs`.

fn main() -> std::process::ExitCode {
    koel_bench::main()
}
