-- refused: concurrently
DROP INDEX CONCURRENTLY demo.i;
