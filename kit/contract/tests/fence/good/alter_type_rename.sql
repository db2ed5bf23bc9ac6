ALTER TYPE demo.state RENAME TO item_state;
