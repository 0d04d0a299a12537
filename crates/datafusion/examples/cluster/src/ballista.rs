//! Ballista with koel: a scheduler, executors, and the session of a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, koel_functions};

use crate::engine::KoelEngine;

/// A scheduler with koel's aggregates and options. For joins an ordinary scheduler suffices, because it plans stock
/// joins.
pub async fn scheduler(port: u16) -> Result<()> {
    let config = SchedulerConfig {
        override_config_producer: Some(Arc::new(config)),
        override_session_builder: Some(Arc::new(state)),
        bind_port: port,
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(external)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    start_server(cluster, address, Arc::new(config)).await.map_err(external)
}

/// An executor whose joins run in koel, with `vcores` concurrent tasks (0: the number of cores). Shuffled rows are
/// written to files in its folder.
pub async fn executor(port: u16, scheduler_port: u16, vcores: usize, folder: &Path) -> Result<()> {
    let config = ExecutorProcessConfig {
        port,
        scheduler_host: Ipv4Addr::LOCALHOST.to_string(),
        scheduler_port,
        scheduler_connect_timeout_seconds: 30,
        // It polls the scheduler for tasks, so it needs no second port to receive them.
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        vcores,
        work_dir: Some(folder.display().to_string()),
        override_execution_engine: Some(Arc::new(KoelEngine::default())),
        override_config_producer: Some(Arc::new(config)),
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&state(config())?))),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.map_err(external)
}

/// A scheduler and executors accept only options that they know from a client's session, so they register koel's.
fn config() -> SessionConfig {
    SessionConfig::new_with_ballista().with_option_extension(KoelOptions::default())
}

fn state(config: SessionConfig) -> Result<SessionState> {
    let mut state = default_session_builder(config)?;
    for function in koel_functions() {
        state.register_udaf(Arc::new(function))?;
    }
    Ok(state)
}

/// The session of a client. Ballista prefers sort-merge joins to hash joins; koel replaces hash joins.
pub async fn session(scheduler_port: u16, config: SessionConfig, options: KoelOptions) -> Result<SessionContext> {
    let config = config
        .with_option_extension(options)
        // The default: chooses joins by the measured sizes of their inputs.
        .with_ballista_adaptive_query_planner(true)
        // With it, Ballista merges if a partition of the build side exceeds this limit, by default 64 MiB. 0: never.
        .with_ballista_hash_join_max_build_partition_bytes(0)
        // If adaptive planning is off, this setting decides.
        .set_bool("datafusion.optimizer.prefer_hash_join", true);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let url = format!("df://{}:{scheduler_port}", Ipv4Addr::LOCALHOST);
    let context = SessionContext::remote_with_state(&url, state).await?;
    // Last, because Ballista replaces the functions of a state by its own.
    koel_functions().into_iter().for_each(|function| context.register_udaf(function));
    Ok(context)
}

fn external(error: BallistaError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
