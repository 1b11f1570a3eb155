"""Commands by which a person decides: pause a source, settle parked tables and pending DDL."""
