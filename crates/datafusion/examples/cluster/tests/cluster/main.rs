//! koel on clusters: the answers of one machine, by workers that are processes of their own, one of them without OpenCL.

mod on_ballista;
mod on_workers;
mod process;
mod tpch;
