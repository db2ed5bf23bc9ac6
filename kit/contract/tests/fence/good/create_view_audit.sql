CREATE VIEW demo.history AS SELECT seq, action FROM audit.demo__events WHERE subject LIKE 'item:%';
