//! timesheet
