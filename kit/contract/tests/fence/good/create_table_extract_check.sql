CREATE TABLE demo.weeks(week_start date PRIMARY KEY CHECK (extract(isodow FROM week_start) = 1));
