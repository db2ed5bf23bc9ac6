//! The running servers: started together, watched, drained in order.

use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::catalog::GATEWAY;
use crate::console;
use crate::plan::Plan;
use crate::plan::listeners::Listeners;
use crate::signals::Signals;
use crate::stop::Stop;

/// How one server ended, with its name.
type Ended = (&'static str, Result<(), String>);

/// All servers of this process.
pub(crate) struct Running {
    edge: JoinHandle<Ended>,
    edge_stop: CancellationToken,
    services: JoinSet<Ended>,
    services_stop: CancellationToken,
}

impl Running {
    /// Starts every server of the plan.
    pub(crate) fn start(plan: Plan, listeners: Listeners) -> Self {
        let (edge_stop, services_stop) = (CancellationToken::new(), CancellationToken::new());
        let mut services = JoinSet::new();
        for (server, listener) in plan.servers.into_iter().zip(listeners.services) {
            let (name, serving) = (server.name, (server.start)(listener, services_stop.clone()));
            services.spawn(async move { (name, serving.await) });
        }
        let (config, sockets, stop) = (plan.edge, listeners.edge, edge_stop.clone());
        let edge = tokio::spawn(async move {
            let served = edge::serve(config, sockets.tls, sockets.plain, stop).await;
            (GATEWAY, served.map_err(|error| error.to_string()))
        });
        Self { edge, edge_stop, services, services_stop }
    }

    /// Waits for the first server that ends without being asked to.
    pub(crate) async fn ended(&mut self) -> Stop {
        let ended = tokio::select! {
            ended = &mut self.edge => Some(ended),
            ended = self.services.join_next() => ended,
        };
        Stop::Failed(match ended {
            Some(Ok((name, Ok(())))) => format!("{name} ended without being asked to"),
            Some(Ok((name, Err(error)))) => format!("{name}: {error}"),
            Some(Err(error)) => format!("a server's task failed: {error}"),
            None => "there is no server".to_owned(),
        })
    }

    /// Drains the gateway, then the services. A second signal ends it.
    pub(crate) async fn drain(mut self, signals: &Signals) -> Result<(), Stop> {
        console::progress("platform: draining");
        tokio::select! {
            outcome = self.drain_in_order() => outcome,
            () = signals.at_once.cancelled() => {
                Err(Stop::Failed("stopped at once; requests in flight were cut off".to_owned()))
            }
        }
    }

    async fn drain_in_order(&mut self) -> Result<(), Stop> {
        self.edge_stop.cancel();
        let mut outcome = Ok(());
        if !self.edge.is_finished() {
            outcome = judge((&mut self.edge).await);
        }
        self.services_stop.cancel();
        while let Some(ended) = self.services.join_next().await {
            let judged = judge(ended);
            outcome = outcome.and(judged);
        }
        outcome
    }
}

fn judge(ended: Result<Ended, JoinError>) -> Result<(), Stop> {
    match ended {
        Ok((_, Ok(()))) => Ok(()),
        Ok((name, Err(error))) => Err(Stop::Failed(format!("{name} exited abnormally: {error}"))),
        Err(error) => Err(Stop::Failed(format!("a server's task failed: {error}"))),
    }
}
