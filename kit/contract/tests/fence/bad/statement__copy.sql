-- refused: statement
COPY demo.t FROM '/etc/passwd';
