//! The examples of koel and koel-arrow, as subcommands of one program: each is a module with `Args` and `run`.

mod find_picture;
mod group_by;
mod intersection;
mod kmer_reads;
mod parquet_join;
mod picture;
mod sequences;
mod sparse_image;
mod sparse_painting;
mod stress;
mod tpch_join;
mod unique_words;
mod voxel_mesh;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Examples of koel and koel-arrow
#[derive(Parser)]
#[command(name = "koel-examples", version)]
struct Args {
    #[command(subcommand)]
    example: Example,
}

#[derive(Subcommand)]
enum Example {
    #[command(alias = "find_picture")]
    FindPicture(find_picture::Args),
    #[command(alias = "group_by")]
    GroupBy(group_by::Args),
    Intersection(intersection::Args),
    #[command(alias = "kmer_reads")]
    KmerReads(kmer_reads::Args),
    #[command(alias = "parquet_join")]
    ParquetJoin(parquet_join::Args),
    #[command(alias = "sparse_image")]
    SparseImage(sparse_image::Args),
    #[command(alias = "sparse_painting")]
    SparsePainting(sparse_painting::Args),
    Stress(stress::Args),
    #[command(alias = "tpch_join")]
    TpchJoin(tpch_join::Args),
    #[command(alias = "unique_words")]
    UniqueWords(unique_words::Args),
    #[command(alias = "voxel_mesh")]
    VoxelMesh(voxel_mesh::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().example {
        Example::FindPicture(args) => find_picture::run(args),
        Example::GroupBy(args) => group_by::run(args),
        Example::Intersection(args) => intersection::run(args),
        Example::KmerReads(args) => kmer_reads::run(args),
        Example::ParquetJoin(args) => parquet_join::run(args),
        Example::SparseImage(args) => sparse_image::run(args),
        Example::SparsePainting(args) => sparse_painting::run(args),
        Example::Stress(args) => stress::run(args),
        Example::TpchJoin(args) => tpch_join::run(args),
        Example::UniqueWords(args) => unique_words::run(args),
        Example::VoxelMesh(args) => voxel_mesh::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
