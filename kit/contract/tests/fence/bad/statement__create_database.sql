-- refused: statement
CREATE DATABASE other;
