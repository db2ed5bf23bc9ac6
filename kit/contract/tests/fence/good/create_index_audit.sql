CREATE INDEX demo__events_actor ON audit.demo__events(actor, seq);
