CREATE OR REPLACE VIEW demo.counts AS SELECT company_id, count(*) AS n FROM demo.items GROUP BY company_id HAVING count(*) > 1 ORDER BY 2 DESC LIMIT 10;
