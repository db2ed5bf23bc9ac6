CREATE VIEW demo.v AS SELECT d FROM generate_series(1, 7) AS d;
