-- refused: function_call
CREATE VIEW demo.v AS SELECT * FROM pg_ls_dir('/');
