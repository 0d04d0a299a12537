//! The command `koel`: see `lib.rs`.

#[global_allocator]
static MEMORY: koel_cli::memory::Memory = koel_cli::memory::Memory;

fn main() -> std::process::ExitCode {
    koel_cli::main()
}
