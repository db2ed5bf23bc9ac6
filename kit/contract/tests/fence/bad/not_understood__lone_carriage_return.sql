-- refused: not_understood
-- a commentDROP TABLE demo.t;
