COMMENT ON TABLE demo.items IS 'What there is.';
COMMENT ON COLUMN demo.items.title IS 'For people.';
COMMENT ON INDEX demo.items_list IS NULL;
COMMENT ON VIEW demo.v IS 'v';
COMMENT ON SEQUENCE demo.numbers IS 'n';
COMMENT ON TYPE demo.state IS 's';
