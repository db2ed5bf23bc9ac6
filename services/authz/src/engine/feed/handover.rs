//! Loom model of the hand-over from the feed to the decisions: writers that commit and then ask, askers that race each
//! other, and the reader of the log. In every interleaving each asker gets a moment that includes what was acknowledged
//! before it asked, and all parts of a moment come from one state.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::engine::answers::Unanswered;
use crate::engine::feed::rounds::{self, Batcher, Lost, Source};

/// The database: two numbers that every commit raises together.
type Database = Arc<Mutex<(u32, u32)>>;

/// A source whose statement reads the facts and whose graph follows the log.
struct Log {
    database: Database,
    /// The graph in memory. Changes are applied one at a time, as in production.
    graph: u32,
    /// Number of rounds it answers before it loses everything.
    rounds: u32,
}

impl Source for Log {
    type Wanted = u32;
    type Moment = (u32, u32);

    fn join(round: &mut u32, one: u32) {
        *round += one;
    }

    async fn read(&mut self, wanted: u32) -> Result<(u32, u32), Lost> {
        assert!(wanted > 0, "every round has an asker");
        if self.rounds == 0 {
            return Err(Lost::Everything(Unanswered { dependency: "postgres", cause: String::new() }));
        }
        self.rounds -= 1;
        // One statement reads log and facts of one moment.
        let (log, facts) = *self.database.lock().expect("no thread panics while it holds the lock");
        while self.graph < log {
            self.graph += 1;
            thread::yield_now();
        }
        Ok((self.graph, facts))
    }
}

fn commit(database: &Database) -> u32 {
    let mut rows = database.lock().expect("no thread panics while it holds the lock");
    *rows = (rows.0 + 1, rows.1 + 1);
    rows.0
}

fn explore(askers: u32, rounds: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let database: Database = Arc::new(Mutex::new((0, 0)));
        let (batcher, mut queue) = Batcher::<Log>::open();
        let asking: Vec<_> = (0..askers)
            .map(|_| {
                let (batcher, database) = (batcher.clone(), Arc::clone(&database));
                thread::spawn(move || {
                    let acknowledged = commit(&database);
                    match loom::future::block_on(batcher.ask(1)) {
                        Ok(moment) => {
                            assert_eq!(moment.0, moment.1, "graph and facts come from one state");
                            assert!(moment.0 >= acknowledged, "the moment includes the acknowledged commit");
                        }
                        Err(_) => assert!(rounds < askers, "only a lost log refuses"),
                    }
                })
            })
            .collect();
        drop(batcher);
        let mut log = Log { database, graph: 0, rounds };
        if let Some(lost) = loom::future::block_on(rounds::run(&mut queue, &mut log)) {
            queue.close();
            rounds::refuse_all(&mut queue, &lost);
        }
        for asker in asking {
            asker.join().expect("its assertions hold");
        }
    });
}

#[test]
fn whoever_asks_is_told_of_a_moment_after_its_own_commit() {
    explore(2, 2);
}

#[test]
fn a_lost_log_answers_nobody_wrongly_and_leaves_nobody_waiting() {
    explore(2, 1);
}
