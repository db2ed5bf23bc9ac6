CREATE TYPE demo.pair AS (a integer, b text);
