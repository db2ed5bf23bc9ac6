CREATE TABLE "demo"."Order"("Id" uuid PRIMARY KEY);
