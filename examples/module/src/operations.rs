//! Every operation of the module with its decision.

use service::{Feature, Operation as Op, Operations};

use crate::{App, KEY, tasks};

/// The type of the module's objects.
pub const TASK: &str = "tasks_task";
/// Lists every task of the company; without this permission the list holds only the caller's own.
pub const LIST_ALL: Feature = Feature::of_module("tasks.tasks.list_all", "admin");

const LIST: Feature = Feature::of_module("tasks.tasks.list", "member");
const CREATE: Feature = Feature::of_module("tasks.tasks.create", "member");
const READ: Feature = Feature::of_object("tasks.tasks.read", TASK, "viewer");
const REPLACE: Feature = Feature::of_object("tasks.tasks.replace", TASK, "manager");
const DELETE: Feature = Feature::of_object("tasks.tasks.delete", TASK, "owner");

/// The table.
pub fn operations() -> Operations<App> {
    Operations::of(KEY)
        .bind(Op::get("/tasks", "listTasks", LIST), tasks::http::list)
        .bind(Op::post("/tasks", "createTask", CREATE).idempotent(), tasks::http::create)
        .bind(Op::get("/tasks/{taskId}", "getTask", READ), tasks::http::read)
        .bind(Op::put("/tasks/{taskId}", "replaceTask", REPLACE), tasks::http::replace)
        .bind(Op::delete("/tasks/{taskId}", "deleteTask", DELETE), tasks::http::delete)
}
