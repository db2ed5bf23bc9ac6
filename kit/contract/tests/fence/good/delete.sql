DELETE FROM demo.items WHERE closed_at < now() - interval '90 days';
