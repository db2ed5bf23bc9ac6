ALTER TYPE demo.state ADD VALUE IF NOT EXISTS 'paused' AFTER 'open';
