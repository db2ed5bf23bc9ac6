-- refused: statement
COPY demo.t TO PROGRAM 'sh';
