-- refused: unqualified
ALTER TYPE state ADD VALUE 'x';
