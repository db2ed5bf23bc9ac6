//! Progress of the demo: a bar on a terminal, a line for each stage elsewhere. Counts what was created.

use std::io::IsTerminal;

use crate::console;

/// Characters of the bar itself.
const WIDTH: usize = 30;

/// Progress through a known number of steps.
#[derive(Debug)]
pub(super) struct Bar {
    steps: usize,
    done: usize,
    /// Number of things created.
    pub(super) made: usize,
    stage: &'static str,
}

impl Bar {
    pub(super) const fn new(steps: usize) -> Self {
        Self { steps, done: 0, made: 0, stage: "" }
    }

    /// Sets the stage of the next steps.
    pub(super) fn stage(&mut self, stage: &'static str) {
        self.stage = stage;
        if !std::io::stderr().is_terminal() {
            console::say(&format!("demo: {stage} ({} of {})", self.done, self.steps));
        }
    }

    /// Completes one step; `made` tells whether it changed anything.
    pub(super) fn step(&mut self, made: bool) {
        self.done += 1;
        self.made += usize::from(made);
        if std::io::stderr().is_terminal() {
            console::rewrite(&self.line(), self.done == self.steps);
        }
    }

    fn line(&self) -> String {
        let filled = (self.done * WIDTH).checked_div(self.steps).unwrap_or(WIDTH).min(WIDTH);
        let (full, empty) = ("█".repeat(filled), "░".repeat(WIDTH - filled));
        format!("{full}{empty} {:>3} of {}  {}", self.done, self.steps, self.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_full_at_the_end_and_never_longer() {
        let mut bar = Bar::new(3);
        assert!(bar.line().starts_with('░'));
        for made in [true, false, true, true] {
            bar.step(made);
        }
        assert!(bar.line().starts_with(&"█".repeat(WIDTH)) && !bar.line().contains('░'), "{}", bar.line());
        assert_eq!(bar.made, 3);
    }
}
