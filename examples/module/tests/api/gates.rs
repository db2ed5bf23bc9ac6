//! The checks before every operation, and the probes.

use serde_json::json;
use testkit::module::gates::Sample;
use uuid::Uuid;

fn samples() -> Vec<Sample> {
    let (one, body) = (format!("/tasks/{}", Uuid::now_v7()), json!({ "title": "Repair the printer" }));
    vec![
        Sample::of("listTasks", "/tasks"),
        Sample::of("createTask", "/tasks").with(body.clone()),
        Sample::of("getTask", one.clone()),
        Sample::of("replaceTask", one.clone()).with(body),
        Sample::of("deleteTask", one),
    ]
}

testkit::module_gates! { example_tasks, samples: samples(), prepare: |module| drop(module.take_tuples()), list: "/tasks" }
