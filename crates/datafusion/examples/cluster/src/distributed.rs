//! datafusion-distributed with koel: a worker, and the session that plans for workers.

use std::fmt::Display;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ExtensionOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{
    DistributedExt, SessionStateBuilderExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse,
    WorkerQueryContext, WorkerResolver,
};
use koel_datafusion::{KoelOptions, WithKoel, on_worker};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use url::Url;

/// A worker: koel executes the joins of the stages that the worker receives.
pub async fn worker(listener: TcpListener) -> Result<()> {
    let worker = Worker::from_session_builder(async |query: WorkerQueryContext| {
        let pairs = query.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let builder = query.builder.with_koel_known(options(pairs));
        Ok(builder.with_distributed_worker_plan_rewrite_handler(rewritten).build())
    });
    let incoming = TcpIncoming::from(listener);
    Server::builder().add_service(worker.into_worker_server()).serve_with_incoming(incoming).await.map_err(external)
}

fn rewritten(stage: WorkerPlanRewriteEvent<'_>) -> Result<WorkerPlanRewriteEventResponse> {
    let plan = on_worker(stage.plan, stage.session_config.options())?;
    let (koel, others) = joins(&plan)?;
    if koel + others > 0 {
        println!("a stage with {koel} joins by koel, {others} by others");
    }
    Ok(WorkerPlanRewriteEventResponse::new(plan))
}

/// The numbers of joins, koel's and others, in the part of a plan that the worker itself executes.
fn joins(plan: &Arc<dyn ExecutionPlan>) -> Result<(usize, usize)> {
    let (mut koel, mut others) = (0, 0);
    plan.apply(|node| {
        match node.name() {
            "KoelJoinExec" => koel += 1,
            name => others += usize::from(name.ends_with("JoinExec")),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((koel, others))
}

/// The options of a query, as set in the session that planned it. They are sent in headers, whose names end with the
/// names of koel's options.
fn options<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> KoelOptions {
    let mut options = KoelOptions::default();
    for (name, value) in headers {
        if let Some((_, key)) = name.rsplit_once("koel.") {
            // A newer session may have options that this worker does not know.
            options.set(key, value).ok();
        }
    }
    options
}

/// The session of a client: it plans stock joins, and sends the stages to workers. The larger `bytes`, the bytes of a
/// file per partition, the fewer workers take part in a query.
pub fn session(ports: Vec<u16>, config: SessionConfig, options: KoelOptions, bytes: usize) -> Result<SessionContext> {
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let state = builder
        .with_koel_known(options.clone())
        // Sends `SET koel.device` to the workers.
        .with_distributed_option_extension(options)
        .with_distributed_planner()
        .with_distributed_worker_resolver(Loopback(ports))
        .with_distributed_file_scan_config_bytes_per_partition(bytes)?
        .build();
    Ok(SessionContext::new_with_state(state))
}

/// Workers on this machine.
struct Loopback(Vec<u16>);

impl WorkerResolver for Loopback {
    fn get_urls(&self) -> Result<Vec<Url>> {
        self.0.iter().map(|port| Url::parse(&format!("http://127.0.0.1:{port}")).map_err(external)).collect()
    }
}

fn external(error: impl Display) -> DataFusionError {
    DataFusionError::Execution(error.to_string())
}
