-- refused: outside_fence
UPDATE org.members SET is_active = true;
