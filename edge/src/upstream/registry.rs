//! Every [`Upstream`] of this gateway: the foundation services and the provider, created once, and the modules, created
//! when the catalog first names them. The same module at the same port is the same upstream in every later snapshot, so
//! its counters and connections are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Authority, Capacity, EdgeConfig, Service, UpstreamProtocol};
use crate::metrics::meter::Lines;
use crate::upstream::target::{Host, Streams, Upstream};

/// All upstreams.
#[derive(Debug)]
pub(crate) struct Upstreams {
    config: Arc<EdgeConfig>,
    authz: Arc<Upstream>,
    org: Arc<Upstream>,
    registry: Arc<Upstream>,
    identity: Arc<Upstream>,
    idp: Arc<Upstream>,
    /// Locked by the catalog watch and by sweeps, never on a request's path.
    modules: Mutex<HashMap<(String, u16), Arc<Upstream>>>,
    /// The stream permits shared by all upstreams.
    streams: Arc<Streams>,
    pool_sets: usize,
}

impl Upstreams {
    /// Creates the upstreams with `pool_sets` sets of idle connections: one per worker, and one for the catalog watch.
    pub(crate) fn new(config: Arc<EdgeConfig>, pool_sets: usize) -> Self {
        let streams =
            Arc::new(Streams::new(Capacity { requests: config.limits.tunnels, ..config.budgets.capacity }));
        let one = |authority: &Authority| {
            let hosts = vec![(UpstreamProtocol::Http1, authority.clone())];
            Arc::new(Upstream::new(hosts, config.budgets.capacity, Arc::clone(&streams), pool_sets))
        };
        let addresses = &config.addresses;
        Self {
            authz: one(&addresses.authz),
            org: one(&addresses.org),
            registry: one(&addresses.registry),
            identity: one(&addresses.identity),
            idp: one(&addresses.idp),
            modules: Mutex::default(),
            streams,
            pool_sets,
            config,
        }
    }

    pub(crate) const fn service(&self, service: Service) -> &Arc<Upstream> {
        match service {
            Service::Authz => &self.authz,
            Service::Org => &self.org,
            Service::Registry => &self.registry,
            Service::Identity => &self.identity,
            Service::Idp => &self.idp,
        }
    }

    /// Returns the upstream of a module whose manifest names this port.
    pub(crate) fn module(&self, key: &str, port: u16) -> Arc<Upstream> {
        let mut modules = self.modules();
        let upstream = modules.entry((key.to_owned(), port)).or_insert_with(|| {
            let hosts = self.config.addresses.module(key, port);
            let streams = Arc::clone(&self.streams);
            Arc::new(Upstream::new(hosts, self.config.budgets.capacity, streams, self.pool_sets))
        });
        Arc::clone(upstream)
    }

    /// Connections reused and dialled per upstream, for a scrape.
    pub(crate) fn lines(&self) -> Vec<Lines> {
        const SERVICES: [Service; 5] =
            [Service::Authz, Service::Org, Service::Registry, Service::Identity, Service::Idp];
        let mut lines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut add = |name: &str, upstream: &Upstream| {
            let (reused, dialled) = lines.entry(name.to_owned()).or_default();
            for (more_reused, more_dialled) in upstream.hosts.iter().map(Host::counts) {
                (*reused, *dialled) = (*reused + more_reused, *dialled + more_dialled);
            }
        };
        for service in SERVICES {
            add(service.name(), self.service(service));
        }
        // A module that returns at another port is reported under the same name.
        for ((key, _), upstream) in self.modules().iter() {
            add(key, upstream);
        }
        // Upstreams without traffic are omitted: a disabled module has no series.
        let line = |(upstream, (reused, dialled))| Lines { upstream, reused, dialled };
        lines.into_iter().map(line).filter(|line| line.reused + line.dialled > 0).collect()
    }

    /// All upstreams, for sweeps.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        let fixed = [&self.authz, &self.org, &self.registry, &self.identity, &self.idp];
        let modules = self.modules();
        fixed.into_iter().chain(modules.values()).map(Arc::clone).collect()
    }

    fn modules(&self) -> MutexGuard<'_, HashMap<(String, u16), Arc<Upstream>>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
