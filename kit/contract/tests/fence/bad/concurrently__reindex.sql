-- refused: concurrently
REINDEX TABLE CONCURRENTLY demo.t;
