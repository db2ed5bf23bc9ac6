UPDATE demo.items SET n = CAST(text_n AS integer), d = '2026-01-01'::date, t = timestamptz '2026-01-01 00:00:00Z';
