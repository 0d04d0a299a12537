//! Writes the seeds of every target to `corpus/TARGET/`, from which `cargo fuzz` and the smoke test start. Other files
//! there are kept.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in koel_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        std::fs::create_dir_all(&folder)?;
        let seeds = (target.seeds)();
        for (name, bytes) in &seeds {
            std::fs::write(folder.join(name), bytes)?;
        }
        println!("{}: {} seeds", target.name, seeds.len());
    }
    Ok(())
}
