//! koel on clusters: workers are separate processes, one of them without OpenCL, and return the results of one machine.

mod on_ballista;
mod on_workers;
mod process;
mod tpch;
