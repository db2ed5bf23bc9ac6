CREATE TABLE demo.bookings(id uuid PRIMARY KEY, during tstzrange NOT NULL, EXCLUDE USING gist (during WITH &&));
