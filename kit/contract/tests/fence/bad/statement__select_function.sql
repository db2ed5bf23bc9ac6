-- refused: statement
SELECT pg_read_file('/etc/passwd');
